/**
 * What a route has decided before any request comes: where to, as whom, and how heads change.
 *
 * A plan is made once per route and never changes; the relay reads it and decides nothing of it.
 */
import type { ProxyError } from '../errors.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import type { Counter, Histogram } from '../metrics/instruments.ts';
import type { Partition } from '../pool/partition.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import type { RequestHead } from '../wire/request-head.ts';

export type UpstreamPartition = Partition<UpstreamConnection, OpeningRequest>;

export interface RoutePlan {
  readonly kind: 'plan';
  readonly target: UpstreamTarget;
  /** The partition of this route's identity; asked again when it was retired (R14, R15). */
  partition(): UpstreamPartition;
  /** Requests go out as a principal, not as nobody. */
  readonly hasIdentity: boolean;
  /** The principal is the caller himself: how he is asked again when his password is rejected. */
  readonly challenge?: OwnChallenge | undefined;
  /** The same for the principal at the parent on the way. */
  readonly parentChallenge?: OwnChallenge | undefined;
  /** Schemes of challenges that our login answers, lower case. */
  readonly loginSchemes: readonly string[];
  /** A whole line that tells the upstream who called; undefined: there is none. */
  readonly identityLine?: Buffer | undefined;
  /** `Host: …\r\n` as it is sent; undefined: the caller's own Host. */
  readonly hostLine: Buffer | undefined;
  /** Bytes at the start of the path that `prefix` replaces. */
  readonly stripBytes: number;
  /** Put before the rest of the target. */
  readonly prefix: Buffer;
  /** By request field id: 1 = the line is not forwarded. */
  readonly drop: Uint8Array;
  /** The same for callers whose forwarding fields are trusted. */
  readonly dropTrusted: Uint8Array;
  /** Upgrade tokens, lower case, that may become a tunnel. */
  readonly upgrade: readonly string[];
  /** Until the head of the response; Infinity: no limit. */
  readonly responseMs: number;
  /** Longest silence once bytes flow; Infinity: no limit. */
  readonly idleMs: number;
  /** Longest silence of a tunnel. */
  readonly tunnelIdleMs: number;
  /** The parent proxy that requests go to in absolute-form; undefined: they reach the target. */
  readonly parent?: ParentPlan;
  /** Other ways to the same target; undefined: there is this one. */
  readonly ways?: Ways;
  /** The caller logs in by himself: this request's connection is his alone (config.md, Pinning). */
  readonly pins?: true;
  /**
   * Names the caller and the origin that he may log in to by himself, beyond the scope of one
   * partition; undefined: on this route nobody does.
   */
  readonly pinKey?: string;
  /** A CONNECT: once connected, bytes flow both ways and nothing of HTTP is looked at. */
  readonly tunnel?: true;
  /** The name that the caller asked for, where Host is not to be believed (hostile row D4). */
  readonly forwardedHost?: Buffer;
  /** Longest request body kept for a second try. */
  readonly replayBytes: number;
  /** Rewrites Location, Refresh, Set-Cookie; undefined: they pass as they are. */
  readonly rewriter: ResponseRewriter | undefined;
  readonly meters: RouteMeters;
  /** Name of the principal, where the access log may show it. */
  readonly loggedPrincipal: string | undefined;
}

/** Somebody's login is at stake, at the origin or at the parent on the way. */
export const hasAnyIdentity = ({ hasIdentity, parent }: RoutePlan): boolean =>
  hasIdentity || parent?.hasIdentity === true;

interface OwnAnswerFacts {
  readonly challenge: OwnChallenge | undefined;
  readonly answerLines: string | undefined;
}

/** What an answer of our own to this caller has: he is asked again when `error` is about his own credential. */
export const answerOptionsFor = (
  plan: RoutePlan,
  error: ProxyError,
  { answerLines }: { readonly answerLines?: string | undefined },
): OwnAnswerFacts => ({
  challenge: error.hop === 'parent' ? plan.parentChallenge : plan.challenge,
  answerLines,
});

/** Changes response fields that name the upstream, so that they name the listener. */
export interface ResponseRewriter {
  /** False where `rewrite` leaves the value in `buffer[start, end)` alone; true says nothing. */
  concerns(id: number, buffer: Buffer, start: number, end: number): boolean;
  /** The value to send for the field `id` (`RESPONSE_FIELD`), or undefined to leave it alone. */
  rewrite(id: number, value: string, callerHost: string): string | undefined;
}

/**
 * Several ways to one target. Their plans differ in `prefix`, `partition`, limits and what belongs to
 * the hop, and in nothing else of a request's head.
 */
export interface Ways {
  best(): RoutePlan;
  /** When no connection could be made by `plan` and nothing was sent: the one to try next. */
  after(plan: RoutePlan, error: ProxyError): RoutePlan | undefined;
}

/** What an answer of a parent proxy is judged by. */
export interface ParentPlan {
  readonly target: UpstreamTarget;
  /** Requests go out as a principal there. */
  readonly hasIdentity: boolean;
  /** Schemes of challenges that our login there answers, lower case. */
  readonly loginSchemes: readonly string[];
}

export interface ForwardedParts {
  readonly head: RequestHead;
  /** The bytes that `head` was parsed from. */
  readonly buffer: Buffer;
  readonly plan: Pick<RoutePlan, 'forwardedHost'>;
}

/** Writes the forwarding fields (X-Forwarded-*, Forwarded) of one caller's connection. */
export interface ForwardingWriter {
  /** The caller's own forwarding fields are kept and appended to. */
  readonly trusted: boolean;
  /** Upper bound of what `write` adds for a head, in bytes. */
  bound(parts: ForwardedParts): number;
  /** Writes whole lines at `at`; answers the offset after them. */
  write(parts: ForwardedParts, out: Buffer, at: number): number;
}

export interface RouteMeters {
  /** By the first digit of the status sent to the caller; 0: none was. */
  readonly classes: readonly Counter[];
  readonly duration: Histogram;
  readonly firstByte: Histogram;
  readonly reauthentications: Counter;
}

/**
 * Somebody has to be asked first. The same head is to be dispatched again once `settled`, which never
 * rejects and has a deadline of its own (I9).
 */
export interface Undecided {
  readonly kind: 'undecided';
  readonly settled: Promise<void>;
}

/** An answer of our own, decided before any upstream was asked. */
export interface LocalAnswer {
  readonly kind: 'redirect';
  readonly location: string;
}
