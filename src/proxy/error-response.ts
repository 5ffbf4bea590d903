/**
 * The one table from error codes to what a caller sees: status, Proxy-Status (RFC 9209), Retry-After.
 *
 * Inner layers know codes only (I6). An answer of the daemon never holds a challenge of the
 * upstream, nor anything of a credential. Where a caller's own credentials are missing or were
 * rejected, it holds the challenge of the listener, and 401 or 407 as that wants it (config.md).
 */
import { STATUS_CODES } from 'node:http';
import type { ErrorCode, ProxyError } from '../errors.ts';
import { challengeLines } from '../http/own-challenge.ts';
import type { AnswerOptions, AnswerWriter, OwnAnswer } from '../relay/context.ts';

interface Row {
  readonly status: number;
  /** Error type of RFC 9209 2.3, where one fits. */
  readonly type?: string;
  /** What the upstream had answered, where the error itself does not say. */
  readonly received?: number;
  /** The caller's own credentials may be at fault: with a challenge, its status and line stand here. */
  readonly asks?: boolean;
  /** Seconds until another try makes sense, where the error itself does not say. */
  readonly retryAfter?: number;
  /** For the caller: a sentence without names of the inside. */
  readonly text: string;
}

const TABLE = {
  'request-malformed': {
    status: 400,
    type: 'http_request_error',
    text: 'The request is malformed.',
  },
  'request-head-too-large': {
    status: 431,
    type: 'http_request_error',
    text: 'The request head is too large.',
  },
  'request-timeout': {
    status: 408,
    type: 'http_request_error',
    text: 'The request did not arrive in time.',
  },
  'version-unsupported': {
    status: 505,
    type: 'http_request_error',
    text: 'Only HTTP/1.0 and HTTP/1.1 are served here.',
  },
  'transfer-coding-unsupported': {
    status: 501,
    type: 'http_request_error',
    text: 'The only transfer coding served here is chunked.',
  },
  'method-refused': {
    status: 405,
    type: 'http_request_denied',
    text: 'This method is not served here.',
  },
  'expectation-failed': {
    status: 417,
    type: 'http_request_error',
    text: 'The expectation cannot be met.',
  },
  misdirected: { status: 421, type: 'http_request_denied', text: 'This host is not served here.' },
  'web-page-refused': {
    status: 403,
    type: 'http_request_denied',
    text: 'Web pages of other origins may not use this listener.',
  },
  'client-auth-required': {
    status: 401,
    type: 'http_request_denied',
    asks: true,
    text: 'This listener wants to know who you are.',
  },
  'caller-token-refused': {
    status: 401,
    type: 'http_request_denied',
    asks: true,
    text: 'The token is not accepted here.',
  },
  'caller-certificate-refused': {
    status: 401,
    type: 'http_request_denied',
    asks: true,
    text: 'Your certificate is not accepted here.',
  },
  'caller-ticket-refused': {
    status: 401,
    type: 'http_request_denied',
    asks: true,
    text: 'The Kerberos ticket is not accepted here.',
  },
  'caller-name-refused': {
    status: 403,
    type: 'http_request_denied',
    text: 'Your name has characters that are not accepted here.',
  },
  'caller-check-busy': {
    status: 503,
    type: 'connection_limit_reached',
    retryAfter: 1,
    text: 'Too many callers wait to be checked.',
  },
  'jwks-unavailable': {
    status: 503,
    type: 'destination_unavailable',
    retryAfter: 5,
    text: 'The keys of the token issuer are not at hand yet.',
  },
  'acceptor-unavailable': {
    status: 503,
    type: 'proxy_internal_error',
    retryAfter: 1,
    text: 'Kerberos tickets cannot be checked for now.',
  },
  'caller-credentials-refused': {
    status: 403,
    type: 'http_request_denied',
    text: 'NTLM and Negotiate credentials of callers are not passed on here.',
  },
  'upgrade-refused': {
    status: 403,
    type: 'http_request_denied',
    text: 'This upgrade is not allowed here.',
  },
  'no-route': {
    status: 404,
    type: 'destination_not_found',
    text: 'No route matches this request.',
  },
  'no-principal': {
    status: 403,
    type: 'http_request_denied',
    text: 'You are mapped to no principal here.',
  },
  'target-malformed': {
    status: 400,
    type: 'http_request_error',
    text: 'A proxy takes http targets in absolute-form, and CONNECT.',
  },
  'target-denied': {
    status: 403,
    type: 'destination_ip_prohibited',
    text: 'This target may not be reached through this listener.',
  },
  'loop-detected': {
    status: 508,
    type: 'proxy_loop_detected',
    text: 'The request came back to this proxy.',
  },
  'client-limit': {
    status: 429,
    type: 'connection_limit_reached',
    retryAfter: 1,
    text: 'Too many connections from this address.',
  },
  'connection-limit': {
    status: 503,
    type: 'connection_limit_reached',
    retryAfter: 1,
    text: 'The connection limit is reached.',
  },
  'pool-queue-full': {
    status: 503,
    type: 'connection_limit_reached',
    retryAfter: 1,
    text: 'Too many requests wait for a connection.',
  },
  'pool-wait-timeout': {
    status: 504,
    type: 'connection_limit_reached',
    text: 'No connection became free in time.',
  },
  'connect-failed': {
    status: 502,
    type: 'connection_refused',
    text: 'The upstream cannot be reached.',
  },
  'connect-timeout': {
    status: 504,
    type: 'connection_timeout',
    text: 'The upstream did not accept a connection in time.',
  },
  'tls-failed': {
    status: 502,
    type: 'tls_protocol_error',
    text: 'No trusted TLS connection to the upstream.',
  },
  'handshake-failed': {
    status: 502,
    type: 'http_protocol_error',
    text: 'The login at the upstream did not complete.',
  },
  'handshake-timeout': {
    status: 504,
    type: 'http_response_timeout',
    text: 'The login at the upstream took too long.',
  },
  'challenge-malformed': {
    status: 502,
    type: 'http_protocol_error',
    received: 401,
    text: 'The upstream sent a malformed challenge.',
  },
  'mutual-failed': {
    status: 502,
    type: 'http_protocol_error',
    text: 'The upstream did not prove who it is.',
  },
  'no-common-scheme': {
    status: 502,
    type: 'http_protocol_error',
    received: 401,
    text: 'The upstream offers no auth scheme that is allowed here.',
  },
  'mechanism-unavailable': {
    status: 502,
    type: 'proxy_configuration_error',
    text: 'No auth mechanism of the principal is available.',
  },
  'mechanism-failed': {
    status: 502,
    type: 'proxy_internal_error',
    text: 'The auth mechanism failed.',
  },
  'kdc-timeout': {
    status: 504,
    type: 'http_response_timeout',
    text: 'The Kerberos KDC did not answer in time.',
  },
  'kdc-unreachable': {
    status: 502,
    type: 'destination_unavailable',
    text: 'The Kerberos KDC cannot be reached.',
  },
  'credential-missing': {
    status: 502,
    type: 'proxy_configuration_error',
    text: 'There is no usable Kerberos credential for the principal.',
  },
  'credential-expired': {
    status: 502,
    type: 'proxy_configuration_error',
    text: 'The Kerberos credential of the principal has expired.',
  },
  'clock-skew': {
    status: 502,
    type: 'proxy_configuration_error',
    text: 'The clocks of this machine and the Kerberos realm differ too much.',
  },
  'spn-unknown': {
    status: 502,
    type: 'proxy_configuration_error',
    text: 'The Kerberos realm does not know the service name of the upstream.',
  },
  'credential-rejected': {
    status: 502,
    type: 'http_protocol_error',
    received: 401,
    asks: true,
    text: 'The upstream rejected the credential of the principal.',
  },
  'upstream-denied': {
    status: 403,
    type: 'http_request_denied',
    received: 401,
    text: 'The upstream denies this request to the principal.',
  },
  'guard-open': {
    status: 503,
    type: 'destination_unavailable',
    text: 'The credential was rejected repeatedly and is not used for now.',
  },
  'body-not-replayable': {
    status: 503,
    type: 'destination_unavailable',
    retryAfter: 0,
    text: 'The upstream asks for a new login; send the request again.',
  },
  'response-malformed': {
    status: 502,
    type: 'http_protocol_error',
    text: 'The upstream broke the protocol.',
  },
  'response-timeout': {
    status: 504,
    type: 'http_response_timeout',
    text: 'The upstream did not answer in time.',
  },
  'upstream-closed': {
    status: 502,
    type: 'http_response_incomplete',
    text: 'The upstream closed the connection.',
  },
  'proxy-auth-from-origin': {
    status: 502,
    type: 'http_protocol_error',
    received: 407,
    text: 'The upstream asks for a proxy login.',
  },
  'parent-auth': {
    status: 502,
    type: 'http_protocol_error',
    received: 407,
    text: 'The parent proxy asks for a login that is not configured.',
  },
  'connect-refused-by-parent': {
    status: 502,
    type: 'http_protocol_error',
    text: 'The parent proxy refused the tunnel.',
  },
  'upgrade-failed': {
    status: 502,
    type: 'http_upgrade_failed',
    text: 'The upstream switched protocols wrongly.',
  },
  'downstream-closed': {
    status: 502,
    type: 'connection_terminated',
    text: 'The connection ended.',
  },
  'shutting-down': {
    status: 503,
    type: 'destination_unavailable',
    retryAfter: 1,
    text: 'The proxy is shutting down.',
  },
  internal: { status: 500, type: 'proxy_internal_error', text: 'An internal error occurred.' },
} as const satisfies Record<ErrorCode, Row>;

/** The status that an error becomes. */
export const statusOf = (code: ErrorCode): number => TABLE[code].status;

/** Makes the whole messages of the daemon's own answers. `wall`: ms since 1970, for Date. */
export function createAnswerWriter(wall: () => number): AnswerWriter {
  return {
    error: (error, options) => errorAnswer(error, options, wall()),
    redirect: (location, options) => {
      const body = `Moved to ${location}\n`;
      const lines = [`Location: ${location}`];
      return message(308, lines, 'text/plain; charset=utf-8', body, options, wall());
    },
  };
}

function errorAnswer(error: ProxyError, options: AnswerOptions, now: number): OwnAnswer {
  const row: Row = TABLE[error.code];
  const challenge = row.asks === true ? options.challenge : undefined;
  const status = challenge?.status ?? row.status;
  const lines = [`Proxy-Status: ${proxyStatus(error, row)}`];
  if (challenge !== undefined) {
    const refused = error.code === 'caller-token-refused' ? error.message : undefined;
    lines.push(...challengeLines(challenge, refused));
  }
  const retry = retryAfter(error, row);
  if (retry !== undefined) lines.push(`Retry-After: ${retry}`);
  if (error.code === 'method-refused')
    lines.push('Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH');
  const wantsJson = /\bjson\b/i.test(options.accept ?? '');
  const json = { error: error.code, status, message: row.text };
  const body = wantsJson ? `${JSON.stringify(json)}\n` : `${status} ${error.code}\n${row.text}\n`;
  const type = wantsJson ? 'application/json' : 'text/plain; charset=utf-8';
  return message(status, lines, type, body, options, now);
}

function proxyStatus(error: ProxyError, row: Row): string {
  const parts = ['sidekerb'];
  if (row.type !== undefined) parts.push(`error=${row.type}`);
  // A parent proxy says the same with a status of its own.
  const usual = row.received !== undefined && error.hop === 'parent' ? 407 : row.received;
  const received = error.receivedStatus ?? usual;
  if (received !== undefined) parts.push(`received-status=${received}`);
  parts.push(`details="${error.code}"`);
  return parts.join('; ');
}

function retryAfter(error: ProxyError, row: Row): number | undefined {
  if (error.retryAfterMs !== undefined) return Math.max(1, Math.ceil(error.retryAfterMs / 1000));
  return row.retryAfter;
}

function message(
  status: number,
  lines: readonly string[],
  type: string,
  body: string,
  options: AnswerOptions,
  now: number,
): OwnAnswer {
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    `Date: ${new Date(now).toUTCString()}`,
    ...lines,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    ...(options.close ? ['Connection: close'] : []),
  ];
  const own = options.answerLines ?? '';
  const text = `${head.join('\r\n')}\r\n${own}\r\n${options.isHead ? '' : body}`;
  return { bytes: Buffer.from(text, 'latin1'), status };
}
