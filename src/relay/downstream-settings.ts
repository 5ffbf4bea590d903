/** Limits and words of one listener for the connections of its callers. */
import type { OwnChallenge } from '../http/own-challenge.ts';
import type { HeadLimits } from '../wire/request-head.ts';

export interface DownstreamSettings {
  /** From the first byte of a head to its end. */
  readonly headMs: number;
  /** Between requests. */
  readonly idleMs: number;
  /** No byte of a request body. */
  readonly bodyMs: number;
  readonly limits: HeadLimits;
  /** How callers are asked who they are; undefined: they are not. */
  readonly challenge?: OwnChallenge | undefined;
}

/** What of a request the form of an answer depends on. */
export interface AskedAs {
  readonly isHead: boolean;
  readonly accept?: string | undefined;
  /** Of the caller's check; there are none before a head is whole. */
  readonly answerLines?: string | undefined;
}
