/**
 * How often one request may be tried again, and why: each cause of the peers once, so that no upstream keeps a
 * request going round (R31, R42). Whether the body allows it is not decided here.
 */
import type { ErrorCode, ProxyError } from '../errors.ts';
import type { HopName } from '../upstream/login-state.ts';

/** Why a login is not followed by another try. */
export interface LoginRefusal {
  readonly code: ErrorCode;
  readonly what: string;
}

/** A parent has lost its login on a connection that holds one of the caller's. */
export const LOGIN_ON_PIN: LoginRefusal = {
  code: 'handshake-failed',
  what: 'asks for a login on a connection that the caller has logged in on',
};

/** Changes that come while one request waits; more is no operator's doing. */
const MAX_RETIRED = 8;

export class RetryBudget {
  /** The hop that challenged the request itself on a connection without a login. */
  challengedPlain: HopName | undefined;
  #lost = false;
  #retired = 0;
  #originLogin = false;
  #parentLogin = false;
  #expect = false;

  /** Before each request. */
  reset(): void {
    this.challengedPlain = undefined;
    this.#lost = false;
    this.#retired = 0;
    this.#originLogin = false;
    this.#parentLogin = false;
    this.#expect = false;
  }

  /** The connection was lost without an answer. */
  takeLost(): boolean {
    if (this.#lost) return false;
    this.#lost = true;
    return true;
  }

  /**
   * No connection came, and nothing was sent: the peer closed it, or the partition retired while the
   * request waited, as it does each time that somebody changes its credentials (R15).
   */
  takeRefused({ code, retry, side }: ProxyError): boolean {
    if (code !== 'upstream-closed' || retry !== 'safe') return false;
    if (side !== 'internal') return this.takeLost();
    this.#retired += 1;
    return this.#retired <= MAX_RETIRED;
  }

  /** The daemon's own Expect was refused. */
  takeExpect(): boolean {
    if (this.#expect) return false;
    this.#expect = true;
    return true;
  }

  /**
   * A challenge of `hop` came outside of a login, on a connection with one that was lost or (`plain`)
   * without one. A login whose HEAD found no challenge may be followed by one more.
   */
  takeLogin(hop: HopName, plain: boolean, bodyIsWhole: boolean): LoginRefusal | undefined {
    const taken = hop === 'parent' ? this.#parentLogin : this.#originLogin;
    if (taken && (!plain || this.challengedPlain === hop)) {
      return { code: 'handshake-failed', what: 'asks for a login on every request' };
    }
    if (!bodyIsWhole) {
      const what = 'asks for a new login and the request body is gone';
      return { code: 'body-not-replayable', what };
    }
    if (hop === 'parent') this.#parentLogin = true;
    else this.#originLogin = true;
    this.challengedPlain = plain ? hop : undefined;
    return undefined;
  }

  get expectTaken(): boolean {
    return this.#expect;
  }
}
