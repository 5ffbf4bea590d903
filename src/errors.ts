/**
 * The one error class of the daemon and the closed list of what can go wrong.
 *
 * An error says on which side and at which stage something broke, and whether the request may be
 * sent again. Statuses are not chosen here: `proxy/error-response.ts` has the only table (I6).
 */

/** Every code, in the order of a request's life. Codes are stable; message texts are not. */
export const ERROR_CODES = [
  'request-malformed',
  'request-head-too-large',
  'request-timeout',
  'version-unsupported',
  'transfer-coding-unsupported',
  'method-refused',
  'expectation-failed',
  'misdirected',
  'web-page-refused',
  'client-auth-required',
  'caller-token-refused',
  'caller-certificate-refused',
  'caller-ticket-refused',
  'caller-name-refused',
  'caller-check-busy',
  'jwks-unavailable',
  'acceptor-unavailable',
  'caller-credentials-refused',
  'upgrade-refused',
  'no-route',
  'no-principal',
  'target-malformed',
  'target-denied',
  'loop-detected',
  'client-limit',
  'connection-limit',
  'pool-queue-full',
  'pool-wait-timeout',
  'connect-failed',
  'connect-timeout',
  'tls-failed',
  'handshake-failed',
  'handshake-timeout',
  'challenge-malformed',
  'mutual-failed',
  'no-common-scheme',
  'mechanism-unavailable',
  'mechanism-failed',
  'kdc-timeout',
  'kdc-unreachable',
  'credential-missing',
  'credential-expired',
  'clock-skew',
  'spn-unknown',
  'credential-rejected',
  'upstream-denied',
  'guard-open',
  'body-not-replayable',
  'response-malformed',
  'response-timeout',
  'upstream-closed',
  'proxy-auth-from-origin',
  'parent-auth',
  'connect-refused-by-parent',
  'upgrade-failed',
  'downstream-closed',
  'shutting-down',
  'internal',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** Whose side broke: the caller's, the called one's, or the daemon itself. */
export type Side = 'downstream' | 'upstream' | 'internal';

/** How far the request had come. */
export type Stage = 'identify' | 'connect' | 'handshake' | 'request' | 'response' | 'tunnel';

/**
 * Whether the request may be sent again: never; only when the connection had served another request
 * before (a keep-alive race); or always, because no byte of it reached the peer.
 */
export type Retry = 'never' | 'if-reused' | 'safe';

export interface ErrorFacts {
  readonly side: Side;
  readonly stage: Stage;
  readonly retry?: Retry;
  readonly cause?: unknown;
  /** Where a login was made; default: at the origin, if one was. */
  readonly hop?: 'origin' | 'parent' | undefined;
  /** The status that the peer said it with. */
  readonly receivedStatus?: number | undefined;
  /** For `guard-open` and refusals with a known end: milliseconds until another try makes sense. */
  readonly retryAfterMs?: number;
}

/** What was tried, on what, what was seen. The message never holds a secret or a token (I5). */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: ErrorCode;
  readonly side: Side;
  readonly stage: Stage;
  readonly retry: Retry;
  readonly retryAfterMs: number | undefined;
  readonly receivedStatus: number | undefined;
  readonly hop: 'origin' | 'parent' | undefined;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.side = facts.side;
    this.stage = facts.stage;
    this.retry = facts.retry ?? 'never';
    this.retryAfterMs = facts.retryAfterMs;
    this.receivedStatus = facts.receivedStatus;
    this.hop = facts.hop;
  }

  /** The same error with other facts. */
  with(facts: Partial<ErrorFacts>): ProxyError {
    const { code, message, side, stage, retry, cause, retryAfterMs, receivedStatus, hop } = this;
    const own = { side, stage, retry, cause, receivedStatus, hop };
    const all = retryAfterMs === undefined ? own : { ...own, retryAfterMs };
    return new ProxyError(code, message, { ...all, ...facts });
  }
}

/** The code of anything thrown; what is not a `ProxyError` is a fault of the daemon: `internal`. */
export function errorCode(error: unknown): ErrorCode {
  return error instanceof ProxyError ? error.code : 'internal';
}
