/** Makes the upstream targets and pool limits that the configuration describes. */
import type { PoolConfig, UpstreamConfig } from '../config/config.ts';
import type { UpstreamLimits } from '../pool/limits.ts';
import { nothingLearned, type UpstreamTarget } from '../upstream/target.ts';
import { createTlsProfile } from '../upstream/tls-profile.ts';

/** `known` is what it was before. Throws what OpenSSL says of an unusable certificate or key. */
export function createTarget(upstream: UpstreamConfig, known?: UpstreamTarget): UpstreamTarget {
  const { target, auth, timeouts, tls } = upstream;
  return {
    name: upstream.name,
    scheme: target.scheme,
    host: target.host,
    port: target.port,
    authority: target.authority,
    basePath: target.basePath,
    tls: tls === undefined ? undefined : createTlsProfile(tls, known?.tls),
    connectMs: timeouts.connect,
    answerMs: timeouts.response,
    login:
      auth === undefined
        ? undefined
        : {
            spn: auth.spn,
            channelBinding: auth.channelBinding,
            schemes: auth.schemes,
            mutual: auth.mutual,
            persistence: auth.persistence,
            probe: auth.probe,
            handshakeMs: timeouts.handshake,
          },
    learned: nothingLearned(),
  };
}

export const poolLimits = (pool: PoolConfig): UpstreamLimits => ({
  maxConnections: pool.maxConnections,
  maxPerPrincipal: pool.maxPerPrincipal,
  maxIdle: pool.maxIdle,
  maxHandshakes: pool.maxHandshakes,
  idleMs: pool.idleTimeout,
  maxAgeMs: pool.maxAge,
  maxRequests: pool.maxRequests,
  waitMs: pool.waitTimeout,
  maxWaiters: pool.maxWaiters,
});
