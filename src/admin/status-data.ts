/**
 * Makes the numbers of the status page from the metrics, so that both say the same.
 *
 * What has no metric (modes, addresses, readiness, names) comes from the caller.
 */
import type { Counter, Family } from '../metrics/instruments.ts';
import { GUARD_STATES, NO_ISSUER } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type {
  CacheStatus,
  GuardStatus,
  ListenerStatus,
  Readiness,
  StatusData,
  UpstreamStatus,
} from './view.ts';

/** Facts of the running daemon that no metric holds. */
export interface StatusFacts {
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly readiness: Readiness;
  readonly listeners: readonly Pick<ListenerStatus, 'name' | 'mode' | 'addresses'>[];
  readonly upstreams: readonly Pick<UpstreamStatus, 'name' | 'origin'>[];
}

/** The status at this moment. */
export function describeStatus(metrics: Metrics, facts: StatusFacts): StatusData {
  metrics.collect();
  return {
    version: facts.version,
    startedAt: new Date(facts.startedAt).toISOString(),
    uptimeSeconds: Math.max(0, Math.floor((facts.now - facts.startedAt) / 1000)),
    readiness: facts.readiness,
    listeners: facts.listeners.map((listener) => ({
      ...listener,
      connections: metrics.downstreamConnections.child(listener.name).value,
      requests: total(metrics.requests, { listener: listener.name }),
      errors: total(metrics.errors, { listener: listener.name }),
    })),
    upstreams: facts.upstreams.map((upstream) => ({
      ...upstream,
      ...describePool(metrics, upstream.name),
    })),
    caches: describeCaches(metrics),
    guards: describeGuards(metrics),
  };
}

function describePool(metrics: Metrics, upstream: string): Omit<UpstreamStatus, 'name' | 'origin'> {
  const connections = (state: 'connecting' | 'handshaking' | 'active' | 'idle'): number =>
    metrics.upstreamConnections.child(upstream, state, 'none').value +
    metrics.upstreamConnections.child(upstream, state, 'tied').value;
  const leases = (result: 'hit' | 'new' | 'waited' | 'rejected' | 'timeout'): number =>
    metrics.leaseRequests.child(upstream, result).value;
  const ok = total(metrics.handshakes, { upstream, result: 'ok' });
  return {
    connections: {
      connecting: connections('connecting'),
      handshaking: connections('handshaking'),
      active: connections('active'),
      idle: connections('idle'),
    },
    leases: {
      hit: leases('hit'),
      new: leases('new'),
      waited: leases('waited'),
      rejected: leases('rejected'),
      timeout: leases('timeout'),
    },
    waiters: metrics.poolWaiters.child(upstream).value,
    partitions: metrics.poolPartitions.child(upstream).value,
    logins: { ok, failed: total(metrics.handshakes, { upstream }) - ok },
  };
}

/** Those that nobody has looked into are not worth a row, except for an issuer's. */
function describeCaches({ cacheRequests, cacheHits, cacheEntries }: Metrics): CacheStatus[] {
  const of = (family: Pick<Family<Counter>, 'labels' | 'entries'>, place: string): number =>
    [...family.entries()].find(({ values }) => placeOf(values) === place)?.instrument.value ?? 0;
  return [...cacheRequests.entries()].flatMap(({ values, instrument }) => {
    const [cache = '', issuer = NO_ISSUER] = values;
    if (instrument.value === 0 && issuer === NO_ISSUER) return [];
    const place = placeOf(values);
    return {
      cache,
      issuer: issuer === NO_ISSUER ? undefined : issuer,
      requests: instrument.value,
      hits: of(cacheHits, place),
      entries: of(cacheEntries, place),
    };
  });
}

/** The first two labels of every cache metric. */
const placeOf = ([cache = '', issuer = '']: readonly string[]): string => `${cache} ${issuer}`;

function describeGuards(metrics: Metrics): GuardStatus[] {
  const guards: GuardStatus[] = [];
  for (const { values, instrument } of metrics.guardState.entries()) {
    const [principal = '', upstream = ''] = values;
    guards.push({ principal, upstream, state: guardState(instrument.value) });
  }
  return guards;
}

function guardState(value: number): GuardStatus['state'] {
  if (value === GUARD_STATES.open) return 'open';
  return value === GUARD_STATES['half-open'] ? 'half-open' : 'closed';
}

/** Sum over all series that have these label values. */
function total(
  family: Pick<Family<Counter>, 'labels' | 'entries'>,
  wanted: Readonly<Record<string, string>>,
): number {
  let sum = 0;
  for (const { values, instrument } of family.entries()) {
    const fits = family.labels.every(
      ({ name }, at) => wanted[name] === undefined || wanted[name] === values[at],
    );
    if (fits) sum += instrument.value;
  }
  return sum;
}
