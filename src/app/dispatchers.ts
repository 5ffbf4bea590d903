/** Makes the dispatcher of a listener: routes and principals of one generation. */
import type { ListenerConfig, ReverseListenerConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { NO_IDENTITY } from '../identity/identity.ts';
import { CallerPlans } from '../proxy/caller-plans.ts';
import { ConfiguredIdentities } from '../proxy/hop-identities.ts';
import { createPlans, createRoute } from '../proxy/plans.ts';
import { ReverseDispatcher } from '../proxy/reverse.ts';
import { RouteTable } from '../proxy/route-table.ts';
import { parentsOf } from '../proxy/ways.ts';
import type { Dispatcher } from '../relay/downstream.ts';
import { type ListenerParts, needsPageRule } from './callers.ts';
import { createForwardDispatcher, viaEntries } from './forward.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

export function createDispatcher(
  generation: Generation,
  runtime: Runtime,
  listener: ListenerConfig,
  { fields, callers }: ListenerParts,
): Dispatcher {
  if (listener.mode === 'reverse') {
    return createReverse(generation, runtime, listener, { fields, callers });
  }
  return createForwardDispatcher(generation, runtime, listener, { fields, callers });
}

function createReverse(
  generation: Generation,
  { partitions: pool, metrics, health, viaId, access }: Runtime,
  listener: ReverseListenerConfig,
  { fields, callers }: ListenerParts,
): ReverseDispatcher {
  const { config, targets, identities } = generation;
  const configured = new ConfiguredIdentities(identities);
  const routes = listener.routes.map((route) => {
    const upstream = config.upstreams[route.upstream];
    const target = targets.get(route.upstream);
    if (upstream === undefined || target === undefined) throw new Error(`no ${route.upstream}`);
    const logsPrincipals = config.log.principals;
    const facts = { listener, route, upstream, target, fields, logsPrincipals };
    const deps = { pool, metrics, health };
    const via = viaEntries(generation, upstream.via);
    if (callers !== undefined) {
      return createRoute(route, new CallerPlans(deps, { ...facts, via }, callers));
    }
    const { principal } = route;
    const identity = principal === undefined ? undefined : identities.get(principal);
    // A principal that does not exist must never mean "nobody" (fail closed).
    if (principal !== undefined && identity === undefined) throw new Error(`no ${principal}`);
    const ways = parentsOf(via, configured);
    if (ways instanceof ProxyError) throw ways;
    const own = { ...facts, principal, ways, identity: identity ?? NO_IDENTITY };
    return createRoute(route, createPlans(deps, own));
  });
  return new ReverseDispatcher({
    routes: new RouteTable(routes),
    callers,
    scheme: listener.tls === undefined ? 'http' : 'https',
    hosts: listener.listen.every(({ kind }) => kind === 'unix') ? undefined : listener.hosts,
    pageRule: needsPageRule(listener),
    viaId,
    keepsText: access.enabled,
  });
}
