/**
 * How often one request may be tried again, and why: each cause once, so that no upstream keeps a
 * request going round (R31, R42). Whether the body allows it is not decided here.
 */
export class RetryBudget {
  /** The request itself was challenged on a connection without a login. */
  challengedPlain = false;
  #lost = false;
  #login = false;
  #expect = false;

  /** Before each request. */
  reset(): void {
    this.challengedPlain = false;
    this.#lost = false;
    this.#login = false;
    this.#expect = false;
  }

  /** The connection was lost without an answer. */
  takeLost(): boolean {
    if (this.#lost) return false;
    this.#lost = true;
    return true;
  }

  /** The daemon's own Expect was refused. */
  takeExpect(): boolean {
    if (this.#expect) return false;
    this.#expect = true;
    return true;
  }

  /**
   * A challenge came outside of a login, on a connection with one that was lost or (`plain`) without
   * one. A login whose HEAD found no challenge may be followed by one more.
   */
  takeLogin(plain: boolean): boolean {
    if (this.#login && (!plain || this.challengedPlain)) return false;
    this.#login = true;
    this.challengedPlain = plain;
    return true;
  }

  get expectTaken(): boolean {
    return this.#expect;
  }
}
