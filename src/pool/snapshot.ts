/**
 * The pool as plain data for the admin listener. Holds names of configured principals and opaque ids,
 * no key, no digest, no secret (R46).
 */
import type { PooledConnection } from './connection.ts';
import type { Entry, Partition } from './partition.ts';
import { partitionId } from './partition-key.ts';
import type { UpstreamBooks } from './upstream-books.ts';

export interface ConnectionCounts {
  readonly opening: number;
  readonly leased: number;
  readonly idle: number;
  readonly draining: number;
}

export interface PartitionSnapshot {
  readonly id: string;
  /** It lends nothing any more and goes away with its last connection. */
  readonly retired: boolean;
  /** Whom its connections are tied to, at the origin or else at a parent; undefined: to nobody. */
  readonly principal: string | undefined;
  readonly counts: ConnectionCounts;
  readonly waiters: number;
  /** Milliseconds since the oldest open connection was opened; undefined without one. */
  readonly oldestMs: number | undefined;
  /** Milliseconds that the first in line has waited; undefined without a line. */
  readonly waitingMs: number | undefined;
  /** Requests that the open connections carried so far. */
  readonly requests: number;
}

export interface UpstreamSnapshot {
  readonly upstream: string;
  readonly counts: ConnectionCounts;
  readonly waiters: number;
  readonly partitions: readonly PartitionSnapshot[];
}

export interface PoolSnapshot {
  /** Openings and connections of all upstreams. */
  readonly connections: number;
  readonly upstreams: readonly UpstreamSnapshot[];
}

/** One upstream with those of `partitions` that are its own. */
export function snapshotUpstream<C extends PooledConnection, R>(
  books: UpstreamBooks<Entry<C, R>>,
  partitions: readonly Partition<C, R>[],
  now: number,
): UpstreamSnapshot {
  const { tied, untied } = books;
  return {
    upstream: books.name,
    counts: {
      opening: tied.opening + untied.opening,
      leased: tied.leased + untied.leased,
      idle: tied.idle + untied.idle,
      draining: tied.draining + untied.draining,
    },
    waiters: books.waiters,
    partitions: partitions
      .filter((partition) => partition.books === books)
      .map((partition) => snapshotPartition(partition, now)),
  };
}

function snapshotPartition<C extends PooledConnection, R>(
  partition: Partition<C, R>,
  now: number,
): PartitionSnapshot {
  const counts = { opening: partition.openings.size, leased: 0, idle: 0, draining: 0 };
  let requests = 0;
  let oldest = Infinity;
  for (const entry of partition.entries) {
    if (entry.state !== 'closed') counts[entry.state] += 1;
    requests += entry.requests;
    oldest = Math.min(oldest, entry.openedAt);
  }
  const { holder, queue } = partition;
  return {
    id: partitionId(partition.key),
    retired: partition.retired,
    principal: holder.kind === 'none' ? undefined : holder.principal,
    counts,
    waiters: queue.size,
    oldestMs: oldest === Infinity ? undefined : now - oldest,
    waitingMs: queue.first === undefined ? undefined : now - queue.first.since,
    requests,
  };
}
