/**
 * What one configuration makes: identities, upstream targets, guard settings. Requests use the
 * generation that was in force when their head began; sockets and counts belong to the runtime.
 */
import type { GuardSettings } from '../auth/guard.ts';
import { type Config, type PrincipalConfig, usesPasswords } from '../config/config.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import { directLimits } from '../proxy/forward-plans.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import type { LoginIdentity } from '../identity/identity.ts';
import type { ListenerTls } from '../server/tls-profile.ts';
import { CallerSources } from './caller-sources.ts';
import { createIdentity } from './identities.ts';
import { metricsNames, type Runtime } from './runtime.ts';
import { createListenersTls } from './listener-tls.ts';
import { createTarget, poolLimits } from './targets.ts';

/** Never changes once made. */
export interface Generation {
  readonly config: Config;
  /** By principal name. */
  readonly identities: ReadonlyMap<string, LoginIdentity>;
  /** By upstream name. */
  readonly targets: ReadonlyMap<string, UpstreamTarget>;
  readonly callerSources: CallerSources;
  /** By name of the listener, where it speaks TLS. */
  readonly tls: ReadonlyMap<string, ListenerTls>;
  /** By principal name. */
  readonly guardSettings: ReadonlyMap<string, GuardSettings>;
}

/**
 * Changes nothing outside. A target that is as in `previous` is the same object, with what was learned
 * of it. Throws what OpenSSL says of an unusable certificate or key.
 */
export function createGeneration(
  config: Config,
  runtime: Runtime,
  previous?: Generation,
): Generation {
  const { versions } = runtime;
  const principals = Object.values(config.principals);
  const own = principals.filter((one) => one.kind !== 'client');
  const targets = Object.values(config.upstreams).map((upstream) => {
    const known = previous?.targets.get(upstream.name);
    const target = createTarget(upstream, known);
    return known !== undefined && isSameTarget(known, target) ? known : target;
  });
  return {
    config,
    identities: new Map(
      own.map((one) => [one.name, createIdentity(one, versions, usesPasswords(config))]),
    ),
    targets: new Map(targets.map((target) => [target.name, target])),
    callerSources: new CallerSources(config, runtime, previous?.callerSources),
    tls: createListenersTls(config, previous?.tls),
    guardSettings: new Map(principals.map((one) => [one.name, guardSettings(one)])),
  };
}

/**
 * Makes the generation known to what outlives it. Throws where Kerberos cannot be set up, and has
 * changed nothing then.
 */
export function putInForce(next: Generation, to: Runtime): void {
  const { config, identities, guardSettings: guards } = next;
  to.kerberos.use(config, identities);
  to.callers.reconfigure(config.kerberos.realms, usesPasswords(config));
  to.secrets.use(identities);
  to.budget.limit = config.limits.connections;
  to.metrics.addNames(metricsNames(config));
  for (const [name, settings] of guards) to.guardSettings.set(name, settings);
  for (const upstream of Object.values(config.upstreams)) {
    to.pool.addUpstream(upstream.name, poolLimits(upstream.pool));
  }
  if (config.listeners.some(({ mode }) => mode === 'forward')) {
    to.pool.addUpstream(DIRECT_UPSTREAM, directLimits(config.limits.upstreamConnections));
  }
}

/**
 * Callers are checked by this generation from now on, after `previous` where there was one: from here on
 * key servers are asked.
 */
export function admitCallers(
  { callerSources }: Generation,
  to: Runtime,
  previous?: Generation,
): void {
  const before = previous?.callerSources;
  callerSources.putInForce(before);
  for (const name of before?.names.difference(callerSources.names) ?? []) {
    to.metrics.removeIssuer(name);
  }
}

function isSameTarget(one: UpstreamTarget, other: UpstreamTarget): boolean {
  const content = (target: UpstreamTarget): string =>
    JSON.stringify({ ...target, tls: target.tls?.digest, learned: undefined });
  return content(one) === content(other);
}

const guardSettings = ({ guard, kind }: PrincipalConfig): GuardSettings => ({
  rejections: guard.rejections,
  probeAfterMs: guard.probeAfter,
  perAccount: kind === 'client',
});
