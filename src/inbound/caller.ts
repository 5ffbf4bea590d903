/** Who a caller says he is, as far as the listener's own check has found out. */
import type { Secret } from '../identity/secret.ts';

/** Brought no credentials, on a listener that takes such callers. */
export interface NoCaller {
  readonly kind: 'none';
}

/** Brought a user name and a password that nobody has verified yet. */
export interface BasicCaller {
  readonly kind: 'basic';
  /** As sent, in the case given; never empty, no control characters. */
  readonly user: string;
  /** May be empty; no control characters. */
  readonly password: Secret<string>;
}

/** Frozen. One object for as long as a connection brings the same bytes. */
export type Caller = NoCaller | BasicCaller;

/** The one caller without a name. */
export const NO_CALLER: NoCaller = Object.freeze({ kind: 'none' });

/** What rules compare with `subject`; undefined where there is nothing to compare. */
export const subjectOf = (caller: Caller): string | undefined =>
  caller.kind === 'none' ? undefined : caller.user;
