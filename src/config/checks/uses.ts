/**
 * Which principal a request may get on which hop, for every listener: the table that the checks of
 * identities read, and that `check --print` shows.
 */

import type { Contract, ListenerEntry, RouteEntry, UpstreamEntry } from '../contract.ts';
import type { KeyPath } from '../faults.ts';
import { entryOf } from './context.ts';

/** One way in which a principal comes to be used towards an upstream. */
export interface Use {
  readonly listener: number;
  /** undefined on forward listeners. */
  readonly route: number | undefined;
  readonly upstream: string;
  readonly hop: 'origin' | 'parent';
  readonly principal: string;
  readonly by: 'route' | 'rule' | 'upstream';
  /** Index of the rule, where a rule decides or must match first. */
  readonly rule: number | undefined;
  /** Where the principal is named. */
  readonly path: KeyPath;
}

/** Every use of every listener; a hop without a principal is not in the table. */
export function usesOf(contract: Contract): Use[] {
  return contract.listeners.flatMap((listener, index) => {
    const via = parentUses(contract, index, parentsOf(contract, listener));
    const routes = (listener.routes ?? []).flatMap((route, at) =>
      routeUses(contract, index, { route, at }),
    );
    const origins = listener.origins.flatMap((name) => originUses(contract, index, name));
    return [...via, ...routes, ...origins];
  });
}

/** The parents on the ways of a forward listener: its own, and those of its origins, each once. */
export function parentsOf(contract: Contract, listener: ListenerEntry): string[] {
  if (listener.mode === 'reverse') return [];
  const ofOrigins = listener.origins.flatMap(
    (name) => entryOf(contract.upstreams, name)?.via ?? [],
  );
  return [...new Set([...listener.via, ...ofOrigins])];
}

function routeUses(
  contract: Contract,
  listener: number,
  { route, at }: { route: RouteEntry; at: number },
): Use[] {
  const upstream = entryOf(contract.upstreams, route.upstream);
  if (upstream === undefined) return [];
  const parents = parentUses(contract, listener, upstream.via).map((use) => ({
    ...use,
    route: at,
  }));
  // With `challenge: pass` the daemon's own login is off.
  if (route.challenge === 'pass' || upstream.auth === undefined) return parents;
  if (route.principal === undefined) {
    return [...originUses(contract, listener, route.upstream, at), ...parents];
  }
  const path = ['listeners', listener, 'routes', at, 'principal'];
  const own: Use = {
    listener,
    route: at,
    upstream: route.upstream,
    hop: 'origin',
    principal: route.principal,
    by: 'route',
    rule: undefined,
    path,
  };
  return [own, ...parents];
}

/** The listener's rules, else the upstream's own principal. */
function originUses(contract: Contract, listener: number, name: string, route?: number): Use[] {
  const upstream = entryOf(contract.upstreams, name);
  if (upstream?.auth === undefined) return [];
  const ruled = ruleUses(contract.listeners[listener], {
    listener,
    upstream: name,
    route,
    hop: 'origin',
  });
  if (ruled !== undefined) return ruled;
  return ownUses(upstream, { listener, upstream: name, route, hop: 'origin' });
}

/** The parent's own principal, else the listener's rules. A route's principal never applies. */
function parentUses(contract: Contract, listener: number, via: readonly string[]): Use[] {
  return via.flatMap((name) => {
    const parent = entryOf(contract.upstreams, name);
    if (parent?.auth === undefined) return [];
    const at = { listener, upstream: name, route: undefined, hop: 'parent' } as const;
    if (parent.auth.principal !== undefined) return ownUses(parent, at);
    return ruleUses(contract.listeners[listener], at) ?? [];
  });
}

type UsePlace = Pick<Use, 'listener' | 'upstream' | 'route' | 'hop'>;

function ruleUses(listener: ListenerEntry | undefined, at: UsePlace): Use[] | undefined {
  return listener?.principal?.map((rule, index): Use => {
    const path = ['listeners', at.listener, 'principal', index, 'use'];
    return { ...at, principal: rule.use, by: 'rule', rule: index, path };
  });
}

function ownUses(upstream: UpstreamEntry, at: UsePlace): Use[] {
  const principal = upstream.auth?.principal;
  if (principal === undefined) return [];
  const path = ['upstreams', at.upstream, 'auth', 'principal'];
  return [{ ...at, principal, by: 'upstream', rule: undefined, path }];
}
