/**
 * Proof of callers' passwords. A pair of Kerberos name and secret may ask for tokens once a kinit with
 * that very password has succeeded, and until the ticket of it ends (architecture: the package selects
 * tickets by name alone, so whoever gets past this gets the tickets of that name).
 *
 *   unknown ── kinit ok ──▶ proven ── ticket ends, another secret of the name is proven ──▶ unknown
 *      ▲          │
 *      └ refused ─┘    (a proof of the same name by another secret stands)
 *
 * Nothing is renewed in the background: a caller who is gone must not go on logging in.
 */
import { errorCode } from '../../errors.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import type { Secret } from '../../identity/secret.ts';
import { BoundedMap } from '../../bounded-map.ts';
import { kerberosError } from './native-errors.ts';
import { fetchTicket, type TicketFetchDeps } from './ticket-fetch.ts';

export interface CallerTicketDeps extends TicketFetchDeps {
  /** The password of an identity that is in use. */
  readonly passwords: (identity: KerberosIdentity) => Secret<string> | undefined;
  /** The tickets of a name (`user@REALM`) were replaced or taken away. */
  readonly changed: (name: string) => void;
}

/** Names with tickets; the library looks through all of them for each token. */
const MAX_NAMES = 512;
/** Processes of kinit at a time. */
const MAX_KINITS = 16;

interface Proof {
  readonly name: string;
  /** Keyed digest of name and password. */
  readonly secret: string;
  readonly file: string;
  /** Wall clock, ms. */
  readonly usableUntil: number;
}

export class CallerTickets {
  readonly #deps: CallerTicketDeps;
  readonly #proofs: BoundedMap<Proof>;
  readonly #running = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #kinits = 0;
  readonly #queue: (() => void)[] = [];
  #lastFile = 0;

  constructor(deps: CallerTicketDeps) {
    this.#deps = deps;
    this.#proofs = new BoundedMap(MAX_NAMES, (proof) => this.#left(proof));
  }

  /**
   * Resolves when the password of `identity` is proven. Rejects with kinit's codes. Goes on when the
   * caller leaves: the KDC counts what it refuses, and so must the guard.
   */
  prove(identity: KerberosIdentity): Promise<void> {
    const { name = '', credential } = identity;
    const proof = this.#proofs.find(name);
    const isSame = proof?.secret === credential;
    if (isSame && this.#deps.clock.wall() < proof.usableUntil) return Promise.resolve();
    const pair = `${credential} ${name}`;
    const running = this.#running.get(pair);
    if (running !== undefined) return running;
    const started = this.#prove(identity, name).finally(() => this.#running.delete(pair));
    this.#running.set(pair, started);
    return started;
  }

  /** The tickets of `identity` did not do. */
  distrust({ name = '', credential }: KerberosIdentity): void {
    if (this.#proofs.find(name)?.secret === credential) this.#proofs.forget(name);
  }

  /** Ends every kinit; whoever waits gets `shutting-down`. */
  close(): void {
    this.#closing.abort();
    for (const go of this.#queue.splice(0)) go();
  }

  async #prove(identity: KerberosIdentity, name: string): Promise<void> {
    if (this.#kinits >= MAX_KINITS) await this.#turn();
    else this.#kinits += 1;
    try {
      const { signal } = this.#closing;
      if (signal.aborted) throw kerberosError('shutting-down', 'Kerberos is closed');
      const password = this.#deps.passwords(identity);
      if (password === undefined) {
        throw kerberosError(
          'credential-missing',
          'the password of the caller is not kept any more',
        );
      }
      this.#lastFile += 1;
      const file = this.#deps.folder.cacheFile(this.#lastFile);
      const { usableUntil } = await fetchTicket(this.#deps, { name, password, file, signal });
      // The proof before this one leaves, and its file with it: one cache for each name.
      this.#proofs.keep(name, { name, secret: identity.credential, file, usableUntil });
    } catch (error) {
      // A password that the KDC took before and refuses now.
      if (errorCode(error) === 'credential-rejected') this.distrust(identity);
      throw error;
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#kinits -= 1;
      else next();
    }
  }

  /** Whoever ends hands his place on. */
  #turn(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#queue.push(resolve);
    return promise;
  }

  #left({ name, file }: Proof): void {
    this.#deps.folder.delete(file);
    this.#deps.changed(name);
  }
}
