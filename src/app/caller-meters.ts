/** Maps what the caches of callers' credentials and of identities count to the metrics of the daemon. */
import type { Clock } from '../clock.ts';
import { identityDigestCounts } from '../identity/digest.ts';
import type { UserCacheMeters } from '../inbound/htpasswd/user-database.ts';
import type { JwksMeters } from '../inbound/jwt/remote-jwks.ts';
import type { TokenCacheMeters } from '../inbound/jwt/token-cache.ts';
import { CACHE_EVICTION_REASONS, type CacheWord, NO_ISSUER } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';

export function tokenCacheMeters(metrics: Metrics, issuer: string): TokenCacheMeters {
  const { requests, hits, entries, evictions } = cacheSeries(metrics, 'jwt', issuer);
  return {
    requested: () => requests.add(),
    hit: () => hits.add(),
    evicted: (reason) => evictions[reason]?.add(),
    entries: (change) => entries.add(change),
  };
}

export function userCacheMeters(metrics: Metrics): UserCacheMeters {
  const { requests, hits, entries, evictions } = cacheSeries(metrics, 'basic', NO_ISSUER);
  return {
    request: () => requests.add(),
    hit: () => hits.add(),
    entered: () => entries.add(1),
    left: (reason, count) => {
      entries.add(-count);
      evictions[reason]?.add(count);
    },
  };
}

export function jwksMeters(metrics: Metrics, issuer: string, clock: Clock): JwksMeters {
  const { jwksRefreshes, jwksLastSuccess } = metrics;
  const results = {
    ok: jwksRefreshes.child(issuer, 'ok'),
    failed: jwksRefreshes.child(issuer, 'failed'),
  };
  const lastSuccess = jwksLastSuccess.child(issuer);
  return {
    refreshed: (result) => {
      results[result].add();
      if (result === 'ok') lastSuccess.set(clock.wall() / 1000);
    },
  };
}

/** Digests count by themselves, as plain numbers. */
export function showDigests(metrics: Metrics): void {
  const { requests, hits, entries, evictions } = cacheSeries(metrics, 'identity_digest', NO_ISSUER);
  const counts = identityDigestCounts();
  requests.value = counts.requests;
  hits.value = counts.hits;
  entries.set(counts.entries);
  if (evictions['full'] !== undefined) evictions['full'].value = counts.evictions;
}

/** Children are kept: a request must not look one up. */
function cacheSeries(metrics: Metrics, cache: CacheWord, issuer: string) {
  return {
    requests: metrics.cacheRequests.child(cache, issuer),
    hits: metrics.cacheHits.child(cache, issuer),
    entries: metrics.cacheEntries.child(cache, issuer),
    evictions: Object.fromEntries(
      CACHE_EVICTION_REASONS.map((reason) => [
        reason,
        metrics.cacheEvictions.child(cache, issuer, reason),
      ]),
    ),
  };
}
