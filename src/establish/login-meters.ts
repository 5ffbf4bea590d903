/** What a login counts; the composition root maps it to metrics. */
export interface LoginMeters {
  /** A token is about to go out: the connection belongs to an identity from now on (R18). */
  tied(upstream: string): void;
  /** The upstream answered without asking for a login. */
  unchallenged(upstream: string): void;
  /** The final answer came. */
  ended(
    upstream: string,
    result: 'ok' | 'rejected' | 'aborted',
    legs: number,
    seconds: number,
  ): void;
  /** The legs broke off; `error` says why. */
  failed(upstream: string, error: unknown): void;
}
