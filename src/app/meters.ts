/** Maps what the pool and the logins count to the metrics of the daemon. */
import { errorCode, ProxyError } from '../errors.ts';
import type { LoginMeters } from '../establish/login-meters.ts';
import { CLOSE_REASONS, LEASE_RESULTS } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type {
  PoolMetrics,
  StateCounts,
  UpstreamGauges,
  UpstreamMetrics,
} from '../pool/pool-metrics.ts';

/** The pool's books, as series; gauges are read at each scrape. */
export function poolMetrics(metrics: Metrics): PoolMetrics {
  return {
    upstream: (name, gauges) => {
      metrics.onCollect(() => showGauges(metrics, name, gauges));
      return upstreamMetrics(metrics, name);
    },
    violated: (invariant) => metrics.invariantViolations.child(invariant).add(),
  };
}

function upstreamMetrics(metrics: Metrics, name: string): UpstreamMetrics {
  const leases = Object.fromEntries(
    LEASE_RESULTS.map((result) => [result, metrics.leaseRequests.child(name, result)]),
  ) as unknown as UpstreamMetrics['leases'];
  const closed = Object.fromEntries(
    CLOSE_REASONS.map((reason) => [reason, metrics.connectionsClosed.child(name, reason)]),
  ) as unknown as UpstreamMetrics['closed'];
  return {
    leases,
    waitSeconds: metrics.leaseWait.child(name),
    opened: metrics.connectionsOpened.child(name),
    closed,
    requestsPerConnection: {
      observe: (requests, binding) =>
        metrics.connectionRequests.child(name, binding).observe(requests),
    },
  };
}

function showGauges(metrics: Metrics, name: string, gauges: UpstreamGauges): void {
  const show = (binding: 'none' | 'tied', counts: StateCounts): void => {
    const { upstreamConnections } = metrics;
    upstreamConnections.child(name, 'connecting', binding).set(counts.opening);
    upstreamConnections.child(name, 'active', binding).set(counts.leased + counts.draining);
    upstreamConnections.child(name, 'idle', binding).set(counts.idle);
  };
  show('tied', gauges.tied);
  show('none', gauges.untied);
  metrics.poolWaiters.child(name).set(gauges.waiters);
  metrics.poolPartitions.child(name).set(gauges.partitions);
}

const HOP_WORDS = { origin: 'origin', parent: 'proxy' } as const;

export function loginMeters(metrics: Metrics): LoginMeters {
  return {
    tied: (upstream) => metrics.connectionsTied.child(upstream, 'own_token').add(),
    unchallenged: (upstream) => metrics.unauthenticatedAccepts.child(upstream).add(),
    ended: ({ upstream, hop }, scheme, result, legs, seconds) => {
      const word = HOP_WORDS[hop];
      metrics.handshakes.child(upstream, word, scheme, result).add();
      metrics.handshakeLegs.child(word, scheme).observe(legs);
      metrics.handshakeDuration.child(word, scheme).observe(seconds);
    },
    failed: ({ upstream, hop }, scheme, error) => {
      const code = errorCode(error);
      // What was judged was counted then.
      if (code === 'credential-rejected' || code === 'mutual-failed') return;
      const closed = error instanceof ProxyError && error.retry === 'safe';
      const result = scheme === undefined ? 'no_credential' : closed ? 'peer_closed' : 'aborted';
      metrics.handshakes.child(upstream, HOP_WORDS[hop], scheme ?? 'negotiate', result).add();
    },
  };
}
