/** What a verified token is to the checks that remember it. */
import type { JwtCaller } from '../caller.ts';

/**
 * A token that passed every check, and how long that holds. The bounds are computed once, so that each
 * later look costs two comparisons.
 */
export interface VerifiedToken {
  /** Frozen. */
  readonly caller: JwtCaller;
  /** ms since 1970, `nbf`; -Infinity without one. */
  readonly notBeforeMs: number;
  /** ms since 1970, `exp`. */
  readonly expiresMs: number;
  /** What verified it. Once it is not live any more, it never is again. */
  readonly key: { readonly live: boolean };
}

/**
 * Whether the token, verified before, would be accepted at `wallMs` too. The wall clock alone decides,
 * even when it is set back: a check of the whole token has no other, and a memory may make a decision
 * faster, never different.
 */
export function isCurrent(token: VerifiedToken, wallMs: number): boolean {
  return token.key.live && wallMs < token.expiresMs && wallMs >= token.notBeforeMs;
}
