/**
 * The books of one upstream: its limits, how many connections are in which state, and which idle one
 * was used longest ago. Decides nothing; `Permits` and `Shelf` do.
 */
import type { Deadline } from '../deadlines.ts';
import type { IdentityDigest } from '../identity/digest.ts';
import type { Links } from './intrusive-list.ts';
import { IntrusiveList } from './intrusive-list.ts';
import type { UpstreamLimits } from './limits.ts';
import type { StateCounts, UpstreamGauges, UpstreamMetrics } from './pool-metrics.ts';

/** Counts by state that the pool keeps. */
export type MutableStateCounts = { -readonly [K in keyof StateCounts]: StateCounts[K] };

/** All partitions of one upstream that are tied to the same identity; `maxPerPrincipal` binds it. */
export class PrincipalGroup {
  readonly digest: IdentityDigest;
  /** Openings and connections. */
  connections = 0;
  /** Partitions that may still lend. */
  partitions = 0;

  constructor(digest: IdentityDigest) {
    this.digest = digest;
  }
}

/** One upstream; `E` is the pool's record of a connection. */
export class UpstreamBooks<E extends Links<E>> implements UpstreamGauges {
  readonly name: string;
  limits: UpstreamLimits;
  readonly tied: MutableStateCounts = { opening: 0, leased: 0, idle: 0, draining: 0 };
  readonly untied: MutableStateCounts = { opening: 0, leased: 0, idle: 0, draining: 0 };
  waiters = 0;
  partitions = 0;
  /** Permits in use: openings and connections in every state. */
  connections = 0;
  /** Openings in flight. */
  openings = 0;
  /** Idle connections of all partitions, the least recently used first. */
  readonly idle = new IntrusiveList<E>();
  readonly groups = new Map<IdentityDigest, PrincipalGroup>();
  /** Fires when the first idle connection is due to close. */
  readonly sweep: Deadline;
  /** Clock ms that `sweep` is armed for; Infinity while it is not. */
  sweepAt = Infinity;
  readonly metrics: UpstreamMetrics;

  constructor(name: string, limits: UpstreamLimits, wiring: BooksWiring) {
    this.name = name;
    this.limits = limits;
    this.sweep = wiring.sweep;
    this.metrics = wiring.register(name, this);
  }

  /** The group of an identity, made on demand. */
  group(digest: IdentityDigest): PrincipalGroup {
    let group = this.groups.get(digest);
    if (group === undefined) {
      group = new PrincipalGroup(digest);
      this.groups.set(digest, group);
    }
    return group;
  }

  /** Forgets a group that has neither partitions nor connections. */
  dropIfEmpty(group: PrincipalGroup): void {
    if (group.partitions === 0 && group.connections === 0) this.groups.delete(group.digest);
  }
}

export interface BooksWiring {
  readonly sweep: Deadline;
  readonly register: (name: string, gauges: UpstreamGauges) => UpstreamMetrics;
}
