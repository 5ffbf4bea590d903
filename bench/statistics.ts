/** From the points of all rounds to medians and ratios. Pure. */

import { OWN_SUBJECT } from './subject-names.ts';

/** One subject under one load once. */
export interface Point {
  readonly subject: string;
  readonly case: string;
  readonly connections: number;
  readonly round: number;
  readonly rps: number;
  /** CPU of the proxy's whole process tree, user and system. */
  readonly cpuSeconds: number;
  readonly requests: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Share of the proxy's core that others used meanwhile, 0 to 1. */
  readonly foreignShare: number;
  /** Why the point does not count. */
  readonly fault: string | undefined;
}

/** Medians over the rounds; `rpcs` is requests per CPU second. */
export interface BenchResult {
  readonly subject: string;
  readonly case: string;
  readonly connections: number;
  readonly rps: number;
  readonly cpuSeconds: number;
  readonly rpcs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly foreignShare: number;
}

/** `value` is sidekerb's requests per CPU second over those of `against`. */
export interface BenchRatio {
  readonly case: string;
  readonly connections: number;
  readonly against: string;
  readonly value: number;
}

/** Over all cases that both have. */
export interface GeometricMean {
  readonly against: string;
  readonly value: number;
}

/** The middle value, the mean of the two middle ones for an even number. Throws on no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new Error('no values, no median');
  return (lower + upper) / 2;
}

/** One result per subject and load, in order of first appearance; points with a fault do not count. */
export function summarise(points: readonly Point[]): BenchResult[] {
  const groups = Map.groupBy(points.filter(isGood), (point) => `${point.subject} ${loadOf(point)}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const middle = (read: (point: Point) => number): number => median(group.map(read));
    return {
      subject: first.subject,
      case: first.case,
      connections: first.connections,
      rps: middle((point) => point.rps),
      cpuSeconds: middle((point) => point.cpuSeconds),
      rpcs: middle(requestsPerCpuSecond),
      p50Ms: middle((point) => point.p50Ms),
      p99Ms: middle((point) => point.p99Ms),
      foreignShare: middle((point) => point.foreignShare),
    };
  });
}

/**
 * Median over the rounds of the ratio inside one round: what disturbs a shared machine for longer than
 * a point then falls on both sides of the fraction.
 */
export function compare(points: readonly Point[]): BenchRatio[] {
  const good = points.filter(isGood);
  const own = new Map(
    good
      .filter((point) => point.subject === OWN_SUBJECT)
      .map((point) => [`${point.round} ${loadOf(point)}`, requestsPerCpuSecond(point)]),
  );
  const groups = Map.groupBy(
    good.filter((point) => point.subject !== OWN_SUBJECT),
    (point) => `${point.subject} ${loadOf(point)}`,
  );
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    const values = group.flatMap((point) => {
      const ours = own.get(`${point.round} ${loadOf(point)}`);
      return ours === undefined ? [] : ours / requestsPerCpuSecond(point);
    });
    if (first === undefined || values.length === 0) return [];
    const { case: name, connections, subject } = first;
    return { case: name, connections, against: subject, value: median(values) };
  });
}

/** Geometric means of the ratios, one per peer. */
export function geometricMeans(ratios: readonly BenchRatio[]): GeometricMean[] {
  return [...Map.groupBy(ratios, (ratio) => ratio.against)].map(([against, group]) => {
    const logs = group.reduce((sum, ratio) => sum + Math.log(ratio.value), 0);
    return { against, value: Math.exp(logs / group.length) };
  });
}

function requestsPerCpuSecond(point: Point): number {
  return point.requests / point.cpuSeconds;
}

function isGood(point: Point): boolean {
  return point.fault === undefined;
}

function loadOf(point: Point): string {
  return `${point.case} ${point.connections}`;
}
