/** Errors that end an exchange: of the upstream while it answered, and of a body that has no end. */
import { type ErrorCode, ProxyError } from '../errors.ts';
import type { UpstreamTarget } from '../upstream/target.ts';

/** Names the upstream and what it did; no input of its own (I5). */
export function upstreamError(
  target: UpstreamTarget,
  code: ErrorCode,
  what: string,
  cause?: unknown,
): ProxyError {
  const facts = { side: 'upstream', stage: 'response', cause } as const;
  return new ProxyError(code, `${target.name}: ${what}`, facts);
}

/** The caller's fault: no upstream can be told where his request ends. */
export function malformedBody(): ProxyError {
  const text = 'the request body is not framed as its head says';
  return new ProxyError('request-malformed', text, { side: 'downstream', stage: 'request' });
}
