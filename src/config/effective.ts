/**
 * The configuration in force as plain data, in the file's own words: every default filled in, and
 * the principal of each route and hop. Secrets are the references that the file has.
 */

import { entryOf } from './checks/context.ts';
import type { Use } from './checks/uses.ts';
import { parentsOf, usesOf } from './checks/uses.ts';
import type { ClientConfig, Config, EffectiveConfig, HostPattern } from './config.ts';
import type { ClientEntry, Contract, ListenerEntry } from './contract.ts';
import { REMAINDER } from './contract.ts';
import { filledPool } from './pool-defaults.ts';
import { encode } from './schema.ts';
import { formatAuthority, parseTargetUrl } from './urls.ts';

/** `resolved` has the defaults that depend on other keys. */
export function effectiveOf(
  contract: Contract,
  resolved: Pick<Config, 'listeners' | 'admin'>,
): EffectiveConfig {
  const filled: Contract = {
    ...contract,
    upstreams: Object.fromEntries(
      Object.entries(contract.upstreams).map(([name, entry]) => [name, filledUpstream(entry)]),
    ),
    listeners: contract.listeners.map((entry) => {
      const own = resolved.listeners.find(({ name }) => name === entry.name);
      const clients = entry.clients ?? ['none'];
      const named = clients.map((client) => withServiceName(client, own?.clients ?? []));
      return { ...withHosts(entry, own?.hosts), clients: named };
    }),
  };
  if (contract.admin !== undefined) {
    const clients = contract.admin.clients ?? ['none'];
    filled.admin = { ...withHosts(contract.admin, resolved.admin?.hosts), clients };
  }
  // The remainder, as faulty files come here too.
  return { ...(encode(REMAINDER, filled) as EffectiveConfig), hops: hopsOf(contract) };
}

function filledUpstream(entry: Contract['upstreams'][string]): Contract['upstreams'][string] {
  const target = parseTargetUrl(entry.url ?? entry.proxy ?? '');
  const filled = { ...entry, pool: filledPool(entry) };
  if (entry.auth === undefined || 'fault' in target) return filled;
  return { ...filled, auth: { ...entry.auth, spn: entry.auth.spn ?? `HTTP/${target.host}` } };
}

/** The default is the one name that the keytab has. */
function withServiceName(client: ClientEntry, resolved: readonly ClientConfig[]): ClientEntry {
  if (client === 'none' || !('negotiate' in client)) return client;
  const own = resolved.find((one) => one.kind === 'negotiate');
  return own === undefined ? client : { negotiate: { ...client.negotiate, spn: own.spn } };
}

function withHosts<T extends { hosts?: string[] | undefined }>(
  entry: T,
  hosts: readonly HostPattern[] | undefined,
): T {
  return hosts === undefined ? entry : { ...entry, hosts: hosts.map(formatHostPattern) };
}

function formatHostPattern({ host, wildcard, port }: HostPattern): string {
  return `${wildcard ? '*.' : ''}${formatAuthority(host, port ?? -1, port ?? -1)}${port === undefined ? '' : `:${port}`}`;
}

interface Hop {
  readonly listener: string;
  readonly route: string | undefined;
  readonly upstream: string;
  readonly hop: Use['hop'];
  /** null: no login is made. */
  readonly principal: string | null;
  /** What named the principal. */
  readonly by: Use['by'] | null;
}

function hopsOf(contract: Contract): Hop[] {
  const uses = usesOf(contract);
  return contract.listeners.flatMap((listener, index) =>
    placesOf(contract, listener).flatMap(({ route, upstream, hop }): Hop[] => {
      const base = { listener: listener.name, route: routeName(listener, route), upstream, hop };
      const own = uses.filter(
        (use) =>
          use.listener === index &&
          use.route === route &&
          use.upstream === upstream &&
          use.hop === hop,
      );
      if (own.length === 0) return [{ ...base, principal: null, by: null }];
      return own.map(({ principal, by }) => ({ ...base, principal, by }));
    }),
  );
}

type HopPlace = Pick<Use, 'route' | 'upstream' | 'hop'>;

/** Every hop that requests of a listener can take, with a login or without. */
function placesOf(contract: Contract, listener: ListenerEntry): HopPlace[] {
  const parents = (via: readonly string[], route: number | undefined): HopPlace[] =>
    via.filter((name) => name !== 'direct').map((upstream) => ({ route, upstream, hop: 'parent' }));
  const routes = (listener.routes ?? []).flatMap(({ upstream }, route): HopPlace[] => [
    { route, upstream, hop: 'origin' },
    ...parents(entryOf(contract.upstreams, upstream)?.via ?? [], route),
  ]);
  const origins = listener.origins.map((upstream): HopPlace => ({
    route: undefined,
    upstream,
    hop: 'origin',
  }));
  return [...routes, ...origins, ...parents(parentsOf(contract, listener), undefined)];
}

function routeName(listener: ListenerEntry, index: number | undefined): string | undefined {
  const route = index === undefined ? undefined : listener.routes?.[index];
  return route && `${route.host ?? ''}${route.path}`;
}
