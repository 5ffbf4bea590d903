/**
 * Looks names up for targets whose addresses are checked before they are dialled (hostile rows D12,
 * D14). The system's resolver answers, as for any other program of this machine.
 *
 * It cannot be called back and holds a thread of the process while it waits, one of few that files and
 * crypto need too: so requests for one name share a lookup, few run at once, and the line is bounded
 * (G7, I12). The deadline is the dial's: who waits no more just stops listening.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { ProxyError } from '../errors.ts';
import type { ResolvedAddress } from './target.ts';

/** All addresses of a name, in the order in which they are to be tried. */
export type Lookup = (host: string) => Promise<readonly ResolvedAddress[]>;

/** One less than the threads that Node has by default. */
const AT_ONCE = 3;
const MAX_WAITING = 1024;

/** The system's resolver: hosts file and DNS, in its own order of families (RFC 6724). */
export const systemLookup: Lookup = async (host) => {
  const found = await lookup(host, { all: true, order: 'verbatim' });
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
};

export class Resolver {
  readonly #lookup: Lookup;
  /** By host; an entry stays until the system answers, whoever still waits for it. */
  readonly #running = new Map<string, Promise<readonly ResolvedAddress[]>>();
  readonly #waiting: (() => void)[] = [];
  #active = 0;

  constructor(find: Lookup = systemLookup) {
    this.#lookup = find;
  }

  /** The addresses of a name, at least one; a literal is its own. Rejects with `connect-failed`. */
  resolve(host: string): Promise<readonly ResolvedAddress[]> {
    const family = isIP(host);
    if (family !== 0) return Promise.resolve([{ address: host, family: family === 6 ? 6 : 4 }]);
    const known = this.#running.get(host);
    if (known !== undefined) return known;
    if (this.#waiting.length >= MAX_WAITING) {
      return Promise.reject(failed(`${host}: too many names wait to be looked up`, undefined));
    }
    const asked = this.#ask(host).finally(() => this.#running.delete(host));
    this.#running.set(host, asked);
    return asked;
  }

  async #ask(host: string): Promise<readonly ResolvedAddress[]> {
    if (this.#active >= AT_ONCE) {
      const turn = Promise.withResolvers<void>();
      this.#waiting.push(turn.resolve);
      await turn.promise;
    } else {
      this.#active += 1;
    }
    try {
      const found = await this.#lookup(host);
      if (found.length === 0) throw failed(`${host} has no address`, undefined);
      return found;
    } catch (error) {
      throw error instanceof ProxyError ? error : failed(`${host} cannot be resolved`, error);
    } finally {
      // The place goes to the next in line.
      const next = this.#waiting.shift();
      if (next === undefined) this.#active -= 1;
      else next();
    }
  }
}

function failed(message: string, cause: unknown): ProxyError {
  return new ProxyError('connect-failed', message, {
    side: 'upstream',
    stage: 'connect',
    retry: 'safe',
    cause,
  });
}
