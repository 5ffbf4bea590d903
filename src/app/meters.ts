/** Maps what the pool and the logins count to the metrics of the daemon. */
import { ProxyError } from '../errors.ts';
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

export function loginMeters(metrics: Metrics): LoginMeters {
  const results =
    (upstream: string) => (result: 'ok' | 'rejected' | 'aborted' | 'peer_closed' | 'loop') =>
      metrics.handshakes.child(upstream, 'origin', 'ntlm', result).add();
  return {
    tied: (upstream) => metrics.connectionsTied.child(upstream, 'own_token').add(),
    unchallenged: (upstream) => metrics.unauthenticatedAccepts.child(upstream).add(),
    ended: (upstream, result, legs, seconds) => {
      results(upstream)(result);
      metrics.handshakeLegs.child('origin', 'ntlm').observe(legs);
      metrics.handshakeDuration.child('origin', 'ntlm').observe(seconds);
    },
    failed: (upstream, error) => {
      const closed = error instanceof ProxyError && error.retry === 'safe';
      // A rejected probe was counted when it was judged.
      if (error instanceof ProxyError && error.code === 'credential-rejected') return;
      results(upstream)(closed ? 'peer_closed' : 'aborted');
    },
  };
}
