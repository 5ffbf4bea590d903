/**
 * What one configuration makes: identities, upstream targets, guard settings. Requests use the
 * generation that was in force when their head began; sockets and counts belong to the runtime.
 */
import type { GuardSettings } from '../auth/guard.ts';
import type { Config, PrincipalConfig } from '../config/config.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import { directLimits } from '../proxy/forward-plans.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import { createIdentity, type LoginIdentity } from './identities.ts';
import type { Runtime } from './runtime.ts';
import { createTarget, poolLimits } from './targets.ts';

/** Never changes once made. */
export interface Generation {
  readonly config: Config;
  /** By principal name. */
  readonly identities: ReadonlyMap<string, LoginIdentity>;
  /** By upstream name. */
  readonly targets: ReadonlyMap<string, UpstreamTarget>;
  /** By principal name. */
  readonly guardSettings: ReadonlyMap<string, GuardSettings>;
}

/** Changes nothing outside. Throws what OpenSSL says of an unusable certificate or key. */
export function createGeneration(config: Config, { versions }: Runtime): Generation {
  const principals = Object.values(config.principals);
  const upstreams = Object.values(config.upstreams);
  return {
    config,
    identities: new Map(principals.map((one) => [one.name, createIdentity(one, versions)])),
    targets: new Map(upstreams.map((one) => [one.name, createTarget(one)])),
    guardSettings: new Map(principals.map((one) => [one.name, guardSettings(one)])),
  };
}

/** Makes the generation known to the pool, the guard and the Kerberos provider. */
export function putInForce({ config, identities, ...generation }: Generation, to: Runtime): void {
  for (const [name, settings] of generation.guardSettings) to.guardSettings.set(name, settings);
  for (const upstream of Object.values(config.upstreams)) {
    to.pool.addUpstream(upstream.name, poolLimits(upstream.pool));
  }
  if (config.listeners.some(({ mode }) => mode === 'forward')) {
    to.pool.addUpstream(DIRECT_UPSTREAM, directLimits(config.limits.upstreamConnections));
  }
  to.kerberos.use(config, identities);
}

const guardSettings = ({ guard }: PrincipalConfig): GuardSettings => ({
  rejections: guard.rejections,
  probeAfterMs: guard.probeAfter,
});
