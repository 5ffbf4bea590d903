/** What a login counts; the composition root maps it to metrics. */
import type { HopName } from '../upstream/login-state.ts';

export type LoginSchemeWord = 'ntlm' | 'negotiate' | 'basic' | 'digest';

/** Where a login is made. */
export interface LoginPlace {
  readonly upstream: string;
  readonly hop: HopName;
}

export interface LoginMeters {
  /** A token is about to go out: the connection belongs to an identity from now on (R18). */
  tied(upstream: string): void;
  /** The upstream answered without asking for a login. */
  unchallenged(upstream: string): void;
  /** The final answer came, or will not. */
  ended(
    place: LoginPlace,
    scheme: LoginSchemeWord,
    result: 'ok' | 'rejected' | 'aborted' | 'mutual_failed',
    legs: number,
    seconds: number,
  ): void;
  /** The legs broke off; `scheme` is undefined when no mechanism was found. `error` says why. */
  failed(place: LoginPlace, scheme: LoginSchemeWord | undefined, error: unknown): void;
}
