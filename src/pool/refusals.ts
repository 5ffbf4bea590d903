/**
 * The errors that the pool itself ends a search with. All leave the request untouched; whether it is
 * tried again is for its owner to say.
 */
import { ProxyError } from '../errors.ts';
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

/** Nothing was sent: the request may look for its partition again. */
export function retired(upstream: string): ProxyError {
  return new ProxyError('upstream-closed', `the partition at ${upstream} was retired`, {
    side: 'internal',
    stage: 'connect',
    retry: 'safe',
  });
}

export function shuttingDown(): ProxyError {
  return new ProxyError('shutting-down', 'the pool is closed', {
    side: 'internal',
    stage: 'connect',
  });
}

/** An opener that ended an opening with neither a connection nor an error, or threw. */
export function openerFault(upstream: string, cause: unknown): ProxyError {
  return new ProxyError('internal', `the opening of a connection to ${upstream} broke`, {
    side: 'internal',
    stage: 'connect',
    cause,
  });
}
