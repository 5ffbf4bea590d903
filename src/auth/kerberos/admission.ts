/**
 * Which of the waiting calls a helper may start: bounded in all, per pair of principal and service,
 * and per realm where the KDC is needed. Calls that live on cached tickets pass those that wait for
 * a silent KDC. Knows of helpers only what runs in them.
 */
import type { Admission, RealmBreakers } from './breaker.ts';
import type { Call, Run } from './call.ts';
import { HELPER_THREADS } from './helper-link.ts';

/** Two threads stay free for checking the answers of peers. */
const MAX_RUNS = HELPER_THREADS - 2;
/** Tickets end: then all calls of a pair wait for the KDC, and those of others need threads too. */
const MAX_RUNS_OF_PAIR = 10;
/** Calls of one realm that may wait for its KDC. */
const MAX_COLD_OF_REALM = 8;

/** `full`: no other call need be asked either. */
export type Verdict = Admission | { readonly kind: 'full' };

/** Remembers which tickets are cached, and admits calls by it. */
export class AdmissionRules {
  readonly #breakers: RealmBreakers;
  /** Principals with a ticket-granting ticket, and the pairs with a service ticket. */
  readonly #warm = new Map<string | undefined, Set<string>>();

  constructor(breakers: RealmBreakers) {
    this.#breakers = breakers;
  }

  /** Whether `call` may start beside `runs`. */
  admit<T>(call: Call<T>, runs: Iterable<Run<T>>): Verdict {
    const { principal, realm } = call.facts;
    const pairs = this.#warm.get(principal);
    let all = 0;
    let ofPair = 0;
    let cold = 0;
    let isLedBySame = false;
    for (const run of runs) {
      all += 1;
      const isOfPair = run.call.pair === call.pair;
      if (isOfPair) ofPair += 1;
      if (!run.isCold) continue;
      if (run.call.facts.realm === realm) cold += 1;
      const isOfPrincipal = run.call.facts.principal === principal;
      // One call fetches the ticket and the others then find it; a stuck one leads nobody.
      if (!run.isStuck && (isOfPair || (pairs === undefined && isOfPrincipal))) isLedBySame = true;
    }
    if (all >= MAX_RUNS) return { kind: 'full' };
    if (pairs?.has(call.pair) === true) return { kind: ofPair < MAX_RUNS_OF_PAIR ? 'go' : 'wait' };
    if (isLedBySame || cold >= MAX_COLD_OF_REALM) return { kind: 'wait' };
    return this.#breakers.admit(realm);
  }

  /** Whether `call` will need its KDC, as far as is known. */
  isCold<T>(call: Call<T>): boolean {
    return this.#warm.get(call.facts.principal)?.has(call.pair) !== true;
  }

  /** A token came: its tickets are cached now. */
  succeeded<T>(call: Call<T>): void {
    const { principal } = call.facts;
    const pairs = this.#warm.get(principal);
    if (pairs === undefined) this.#warm.set(principal, new Set([call.pair]));
    else pairs.add(call.pair);
  }

  /** The cached service ticket did not do. */
  failed<T>(call: Call<T>): void {
    this.#warm.get(call.facts.principal)?.delete(call.pair);
  }

  /** The tickets of `principal` were replaced or taken away. */
  forget(principal: string | undefined): void {
    this.#warm.delete(principal);
  }
}
