/** Errors that an upstream caused while it answered. */
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
