/**
 * The stores that were opened, so that none is opened twice while it is in use: a reload that
 * changes something else costs no derivation of keys. Known by content, never by path.
 */
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import type { Pkcs12Fault } from './pkcs12-fault.ts';
import type { StoreSource } from './pkcs12-link.ts';
import type { OpenedStore, Pkcs12Opener } from './pkcs12-opener.ts';

type Answer = OpenedStore | Pkcs12Fault;

export class OpenedStores {
  readonly #opener: Pick<Pkcs12Opener, 'open'>;
  readonly #known = new Map<string, Answer>();
  readonly #pending = new Map<string, Promise<Answer>>();

  constructor(opener: Pick<Pkcs12Opener, 'open'>) {
    this.#opener = opener;
  }

  /** What became of the store; undefined before `open` was waited for. */
  get(source: StoreSource): Answer | undefined {
    return this.#known.get(nameOf(source));
  }

  /** As `get`, opening the store where needed, once for all who ask meanwhile; never rejects. */
  open(source: StoreSource): Promise<Answer> {
    const name = nameOf(source);
    const known = this.#known.get(name);
    if (known !== undefined) return Promise.resolve(known);
    const pending = this.#pending.get(name) ?? this.#open(name, source);
    this.#pending.set(name, pending);
    return pending;
  }

  /**
   * Forgets all stores but these. To be called after each load, also after one that failed, with
   * what is then in force: nothing else bounds what is kept.
   */
  keepOnly(used: Iterable<StoreSource>): void {
    const names = new Set(Array.from(used, nameOf));
    for (const name of this.#known.keys()) if (!names.has(name)) this.#known.delete(name);
  }

  async #open(name: string, source: StoreSource): Promise<Answer> {
    const answer = await this.#opener.open(source);
    this.#pending.delete(name);
    // It says nothing about the store, so the next load tries again.
    if (answer.kind === 'opened' || answer.reason !== 'not-opened') this.#known.set(name, answer);
    return answer;
  }
}

/** Parts are written with their length, so an absent passphrase is none that is empty (R6, R47). */
function nameOf({ pkcs12, passphrase }: StoreSource): string {
  const secret = passphrase === undefined ? [] : [exactBytes(passphrase.reveal())];
  return keyedDigest('pkcs12', pkcs12.reveal(), ...secret).toString('hex');
}
