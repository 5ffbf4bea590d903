/**
 * What the pool counts, as narrow interfaces that the composition root maps to real metrics.
 * Counters are plain numbers that the pool adds to; gauges are its own books, read at the scrape.
 */
import type { CloseReason } from './connection.ts';

/** A counter: the pool adds to `value`. */
export interface Tally {
  value: number;
}

/** A histogram. */
export interface Observer {
  observe(value: number): void;
}

/** A histogram for each binding: whether the connection's partition is tied to an identity. */
export interface BindingObserver {
  observe(value: number, binding: 'none' | 'tied'): void;
}

/**
 * How one search for a connection went: from the idle ones; by an opening of its own at once; after
 * a stay in the queue, however it ended but by its deadline; refused without being queued; deadline.
 */
export type LeaseResult = 'hit' | 'new' | 'waited' | 'rejected' | 'timeout';

/** Connections by state; `draining` ones are leased and will not come back. */
export interface StateCounts {
  readonly opening: number;
  readonly leased: number;
  readonly idle: number;
  readonly draining: number;
}

/** The live books of one upstream. Every connection that holds a permit is in exactly one state. */
export interface UpstreamGauges {
  /** Connections of partitions that are tied to an identity. */
  readonly tied: StateCounts;
  /** Connections of partitions without one. */
  readonly untied: StateCounts;
  readonly waiters: number;
  readonly partitions: number;
}

/** Where the pool counts what happens at one upstream. */
export interface UpstreamMetrics {
  readonly leases: Readonly<Record<LeaseResult, Tally>>;
  /** Seconds in the queue, for each request that was in it. */
  readonly waitSeconds: Observer;
  /** Openings, less those that failed before they began: opened − closed = the sum of all states. */
  readonly opened: Tally;
  readonly closed: Readonly<Record<CloseReason, Tally>>;
  /** Observed when a connection that was opened successfully closes. */
  readonly requestsPerConnection: BindingObserver;
}

/** Something ended twice: a lease, or an opening. */
export type InvariantName = 'double_release';

export interface PoolMetrics {
  /** Called once per upstream, before anything is counted there. */
  upstream(name: string, gauges: UpstreamGauges): UpstreamMetrics;
  /** Counts what must never happen. */
  violated(invariant: InvariantName): void;
}
