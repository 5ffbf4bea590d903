/**
 * The right to one login, and its end: the ticket keeps the counts of logins under way; what an outcome
 * means for the account is its ledger's matter (`guard.ts`).
 */
import type { Place, Started } from './guard-decision.ts';

/**
 * The right to one login. Ends by exactly one call; a second one is ignored. Whoever holds it ends it
 * on every path, also when the connection never came to be.
 */
export interface LoginTicket {
  /** The login worked; `target` is the request target that was answered, in origin-form. */
  succeeded(target: string): void;
  /** The peer asked for our scheme again after the final token: counted. */
  rejected(): void;
  /**
   * The credential is good and the origin denies this user: a probe was answered, the peer said so, or
   * 401 came without our scheme. Ends the counts like a success, and remembers no target.
   */
  denied(): void;
  /** No last token went out, or its answer says nothing: no challenge, 401 without our scheme. */
  abandoned(): void;
  /** The last token went out and got no answer: the directory may have judged it all the same. */
  unsettled(): void;
}

/** What the guard does at the end of a login; at most one of the first three, then `over`. */
export interface Ledger {
  /** `target`: of the request that was answered; undefined where the origin denied it. */
  good(target: string | undefined): void;
  bad(decision: Started): void;
  unknown(decision: Started): void;
  over(): void;
}

/** Begins when it is made. */
export class Ticket implements LoginTicket {
  readonly #ledger: Ledger;
  readonly #place: Place;
  readonly #decision: Started;
  readonly #unproven: number;
  #ended = false;

  constructor(ledger: Ledger, place: Place, decision: Started) {
    this.#ledger = ledger;
    this.#place = place;
    this.#decision = decision;
    this.#unproven = place.standing.proven ? 0 : 1;
    if (decision.halfOpen) place.records.probe = this;
    this.#count(1);
  }

  succeeded(target: string): void {
    this.#end(() => this.#ledger.good(target));
  }

  rejected(): void {
    this.#end(() => this.#ledger.bad(this.#decision));
  }

  denied(): void {
    this.#end(() => this.#ledger.good(undefined));
  }

  abandoned(): void {
    this.#end(() => undefined);
  }

  unsettled(): void {
    this.#end(() => this.#ledger.unknown(this.#decision));
  }

  #end(outcome: () => void): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#count(-1);
    if (this.#place.records.probe === this) this.#place.records.probe = undefined;
    outcome();
    this.#ledger.over();
  }

  #count(by: 1 | -1): void {
    const { records, tally, standing } = this.#place;
    standing.running += by;
    for (const each of [records.total, tally]) {
      each.running += by;
      each.unproven += by * this.#unproven;
    }
  }
}
