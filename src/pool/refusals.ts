/**
 * The errors that the pool itself ends a search with. All leave the request untouched; whether it is
 * tried again is for its owner to say.
 */
import { ProxyError } from '../errors.ts';
import type { CloseReason } from './connection.ts';
import type { UpstreamLimits } from './limits.ts';

/** A shorter pause than this helps nobody. */
const MIN_RETRY_AFTER_MS = 1000;

/** By the end of the longest wait, the queue has moved or its members were refused. */
export function queueFull(upstream: string, limits: UpstreamLimits): ProxyError {
  return new ProxyError('pool-queue-full', `${limits.maxWaiters} requests wait for ${upstream}`, {
    side: 'internal',
    stage: 'connect',
    retryAfterMs: Math.max(limits.waitMs, MIN_RETRY_AFTER_MS),
  });
}

export function waitTimeout(upstream: string, limits: UpstreamLimits): ProxyError {
  return new ProxyError(
    'pool-wait-timeout',
    `no connection to ${upstream} became free in ${limits.waitMs} ms`,
    { side: 'internal', stage: 'connect' },
  );
}

export function partitionLimit(upstream: string): ProxyError {
  return new ProxyError('connection-limit', `no room for another partition at ${upstream}`, {
    side: 'internal',
    stage: 'connect',
    retryAfterMs: MIN_RETRY_AFTER_MS,
  });
}

/**
 * The partition is out of service for `closing`. Unless the pool is closed, the request may look for
 * its partition again: nothing was sent.
 */
export function retired(upstream: string, closing: CloseReason): ProxyError {
  const place = { side: 'internal', stage: 'connect' } as const;
  if (closing === 'shutdown') return new ProxyError('shutting-down', 'the pool is closed', place);
  const message = `the partition at ${upstream} was retired`;
  return new ProxyError('upstream-closed', message, { ...place, retry: 'safe' });
}

/** An opener that ended an opening with neither a connection nor an error, or threw. */
export function openerFault(upstream: string, cause: unknown): ProxyError {
  return new ProxyError('internal', `the opening of a connection to ${upstream} broke`, {
    side: 'internal',
    stage: 'connect',
    cause,
  });
}
