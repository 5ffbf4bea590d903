/** Makes the dispatcher of a forward listener from the configuration. */
import type { ForwardListenerConfig } from '../config/config.ts';
import { ForwardRules } from '../http/forward-rules.ts';
import { ForwardDispatcher } from '../proxy/forward.ts';
import { ForwardPlans, type KnownOrigin } from '../proxy/forward-plans.ts';
import { ConfiguredIdentities } from '../proxy/hop-identities.ts';
import type { KnownUpstream, ViaEntry } from '../proxy/ways.ts';
import { type ListenerParts, needsPageRule } from './callers.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

export function createForwardDispatcher(
  generation: Generation,
  runtime: Runtime,
  listener: ForwardListenerConfig,
  { fields, callers }: ListenerParts,
): ForwardDispatcher {
  const { partitions: pool, metrics, resolver, health, own, viaId, access } = runtime;
  const rules = new ForwardRules({
    allow: listener.allow,
    direct: listener.direct,
    private: listener.private,
    resolve: listener.resolve,
    isOwn: (address, port) => own.has(address, port),
  });
  const via = viaEntries(generation, listener.via);
  const origins = listener.origins.map((name) => knownOrigin(generation, name, via));
  return new ForwardDispatcher({
    plans: new ForwardPlans(
      { pool, metrics, resolver, health },
      { listener, rules, fields, via, origins },
    ),
    callers,
    configured: new ConfiguredIdentities(generation.identities),
    hosts: listener.hosts,
    pageRule: needsPageRule(listener),
    viaId,
    keepsText: access.enabled,
  });
}

export const viaEntries = (generation: Generation, via: readonly string[]): ViaEntry[] =>
  via.map((name) => (name === 'direct' ? name : knownUpstream(generation, name)));

function knownOrigin(
  generation: Generation,
  name: string,
  listeners: readonly ViaEntry[],
): KnownOrigin {
  const known = knownUpstream(generation, name);
  const own = viaEntries(generation, known.config.via);
  return { ...known, via: own.length > 0 ? own : listeners };
}

function knownUpstream({ config, targets }: Generation, name: string): KnownUpstream {
  const upstream = config.upstreams[name];
  const target = targets.get(name);
  if (upstream === undefined || target === undefined) throw new Error(`no ${name}`);
  return { config: upstream, target };
}
