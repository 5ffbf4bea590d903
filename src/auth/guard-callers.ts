/**
 * Which accounts the guard knows only because callers named them: callers may name any, so their
 * number is bounded. Those that nothing is known against go first (I12).
 */
import type { GuardAccount } from './guard-account.ts';

/** Most accounts that are remembered; each cost a login at an upstream. */
export const CALLER_ACCOUNTS = 10_000;

/** How many are looked at to find one that would not be missed. */
const LOOKED_AT = 32;

export class CallerAccounts {
  readonly #max: number;
  /** Longest unused first. */
  readonly #accounts = new Map<string, GuardAccount>();

  constructor(max: number) {
    this.#max = max;
  }

  /** A copy. */
  names(): string[] {
    return [...this.#accounts.keys()];
  }

  /** The account is one of the configuration: it stays. */
  keep(account: string): void {
    this.#accounts.delete(account);
  }

  /** A caller uses the account, which nobody had named before if `isNew`. Gives those that leave. */
  used(account: string, records: GuardAccount, isNew: boolean): string[] {
    if (!isNew && !this.#accounts.has(account)) return [];
    this.#accounts.delete(account);
    const leaving = this.#accounts.size >= this.#max ? this.#leastMissed() : undefined;
    if (leaving !== undefined) this.#accounts.delete(leaving);
    this.#accounts.set(account, records);
    return leaving === undefined ? [] : [leaving];
  }

  /** Undefined when logins run for all that were looked at: there are no more than connections then. */
  #leastMissed(): string | undefined {
    let quiet: string | undefined;
    let looked = 0;
    for (const [account, records] of this.#accounts) {
      if (records.isBlank) return account;
      if (records.total.running === 0) quiet ??= account;
      looked += 1;
      if (looked === LOOKED_AT) break;
    }
    return quiet;
  }
}
