/**
 * The numbers that bound a pool. Zero keeps nothing and admits nothing, except where said otherwise;
 * Infinity is no limit.
 */

/** Limits of one upstream, as `pool:` of the configuration has them. */
export interface UpstreamLimits {
  /** Connections in every state, openings included. */
  readonly maxConnections: number;
  /** The same for all partitions tied to one identity; does not bind requests without a login. */
  readonly maxPerPrincipal: number;
  readonly maxIdle: number;
  /** Openings in flight. */
  readonly maxHandshakes: number;
  readonly idleMs: number;
  readonly maxAgeMs: number;
  /** Requests that one connection carries; 0 is no limit. */
  readonly maxRequests: number;
  /** Longest stay in the queue. */
  readonly waitMs: number;
  readonly maxWaiters: number;
}

/** Limits of the whole pool, as `limits:` of the configuration has them. */
export interface PoolLimits {
  /** Connections to all upstreams, in every state. */
  readonly upstreamConnections: number;
  readonly partitions: number;
}
