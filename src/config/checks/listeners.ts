/** Rules that listeners keep among themselves: names, addresses, modes, routes. */

import { collide, parseHostPattern } from '../addresses.ts';
import type { ListenAddress } from '../config.ts';
import type { ListenerEntry, RouteEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import { formatPath } from '../faults.ts';
import { parseListenAddress } from '../addresses.ts';
import type { Check, CheckContext } from './context.ts';
import { besides, eachListener, entryOf, isLocal, unknownName } from './context.ts';
import { keyPairFindings, parentFindings } from './upstreams.ts';

const FORWARD_KEYS = ['via', 'direct', 'allow', 'origins', 'private', 'resolve'] as const;

export const checkListeners: Check = (context) => [
  ...nameFindings(context),
  ...addressFindings(context),
  ...eachListener(context, (listener, path) => [
    ...modeFindings(listener, path, context),
    ...routeFindings(listener, path, context),
    ...parentFindings(listener.via, [...path, 'via'], context),
    ...originFindings(listener, path, context),
    ...(listener.tls ?? []).flatMap((tls, index) =>
      serverTlsFindings(tls, [...path, 'tls', index]),
    ),
    ...versionFindings(listener, path),
    ...http2Findings(listener, path),
  ]),
];

/** The version is agreed on before a name is known, so there is one for all. */
function versionFindings({ tls = [] }: ListenerEntry, path: KeyPath): Finding[] {
  const other = tls.findIndex(({ minVersion }) => minVersion !== tls[0]?.minVersion);
  if (other < 0) return [];
  const message = 'all certificates of a listener have one minVersion';
  return [{ path: [...path, 'tls', other, 'minVersion'], message }];
}

function http2Findings(listener: ListenerEntry, path: KeyPath): Finding[] {
  if (!listener.http2) return [];
  const here = [...path, 'http2'];
  if (listener.mode !== 'reverse') {
    return [{ path: here, message: 'HTTP/2 is for mode: reverse', ...besides(path, ['mode']) }];
  }
  // Without ALPN a caller begins with HTTP/2 by agreement, which stays on this machine.
  if (listener.tls !== undefined || isLocal(listener.listen)) return [];
  const basis = besides(path, ['tls', 'listen']);
  return [{ path: here, message: 'HTTP/2 needs tls beyond loopback', ...basis }];
}

/** Certificates towards callers: there must be one. */
export function serverTlsFindings(
  tls: NonNullable<ListenerEntry['tls']>[number],
  path: KeyPath,
): Finding[] {
  if (tls.pkcs12 === undefined && tls.cert === undefined && tls.key === undefined) {
    return [{ path, message: 'wanted: pkcs12, or cert and key' }];
  }
  return keyPairFindings(tls, path);
}

/** Names of the daemon's own listeners in logs and on the status page. */
const TAKEN_NAMES = new Set(['admin', 'probes']);

function nameFindings(context: CheckContext): Finding[] {
  const names = context.contract.listeners.map(({ name }) => name);
  return names.flatMap((name, index): Finding[] => {
    const path = ['listeners', index, 'name'];
    if (TAKEN_NAMES.has(name))
      return [{ path, message: 'the name is taken by a listener of the daemon' }];
    return names.indexOf(name) === index
      ? []
      : [{ path, message: 'another listener has this name' }];
  });
}

function addressFindings({ contract }: CheckContext): Finding[] {
  const all: { path: KeyPath; address: ListenAddress }[] = [];
  const findings: Finding[] = [];
  const add = (path: KeyPath, listen: readonly string[] | undefined): void => {
    for (const [index, written] of (listen ?? []).entries()) {
      const address = parseListenAddress(written);
      if (address === undefined) continue;
      const here = [...path, index];
      const other = all.find((known) => collide(known.address, address));
      if (other === undefined) all.push({ path: here, address });
      else findings.push({ path: here, message: `${formatPath(other.path)} has this address` });
    }
  };
  add(['admin', 'listen'], contract.admin?.listen);
  add(['admin', 'probes', 'listen'], contract.admin?.probes?.listen);
  for (const [index, { listen }] of contract.listeners.entries())
    add(['listeners', index, 'listen'], listen);
  return findings;
}

function modeFindings(listener: ListenerEntry, path: KeyPath, context: CheckContext): Finding[] {
  if (listener.mode !== 'reverse') {
    if (listener.routes === undefined) return [];
    return [
      {
        path: [...path, 'routes'],
        at: 'key',
        message: 'routes are for mode: reverse',
        basis: [[...path, 'mode']],
      },
    ];
  }
  const misplaced = FORWARD_KEYS.filter((key) => context.isWritten([...path, key])).map(
    (key): Finding => {
      return {
        path: [...path, key],
        at: 'key',
        message: 'not for mode: reverse',
        basis: [[...path, 'mode']],
      };
    },
  );
  if (listener.routes !== undefined) return misplaced;
  return [
    ...misplaced,
    { path: [...path, 'routes'], message: 'missing; a reverse listener needs routes' },
  ];
}

function routeFindings(listener: ListenerEntry, path: KeyPath, context: CheckContext): Finding[] {
  const seen = new Map<string, number>();
  return (listener.routes ?? []).flatMap((route, index): Finding[] => {
    const at = [...path, 'routes', index];
    const key = routeKey(route);
    const first = seen.get(key);
    if (first === undefined) seen.set(key, index);
    const twice: Finding[] =
      first === undefined
        ? []
        : [{ path: at, message: `routes[${first}] has the same host and path` }];
    return [...twice, ...routeNameFindings(route, at, context)];
  });
}

function routeNameFindings(route: RouteEntry, path: KeyPath, context: CheckContext): Finding[] {
  const upstreams = { names: context.names.upstreams, path: [...path, 'upstream'] };
  const findings = unknownName('upstream', route.upstream, upstreams);
  const upstream = entryOf(context.contract.upstreams, route.upstream);
  if (upstream?.proxy !== undefined && upstream.url === undefined) {
    findings.push({
      path: upstreams.path,
      message: 'the upstream is a parent proxy; a route needs an origin',
    });
  }
  if (route.principal === undefined) return findings;
  const at = [...path, 'principal'];
  findings.push(
    ...unknownName('principal', route.principal, { names: context.names.principals, path: at }),
  );
  if (upstream !== undefined && upstream.auth === undefined) {
    const message = 'the upstream has no auth, so no login is made; give it auth: {}';
    findings.push({ path: at, message, basis: [['upstreams', route.upstream, 'auth']] });
  }
  return findings;
}

function originFindings(listener: ListenerEntry, path: KeyPath, context: CheckContext): Finding[] {
  return listener.origins.flatMap((name, index): Finding[] => {
    const at = [...path, 'origins', index];
    const upstream = entryOf(context.contract.upstreams, name);
    if (upstream === undefined)
      return unknownName('upstream', name, { names: context.names.upstreams, path: at });
    if (upstream.proxy === undefined) return [];
    return [{ path: at, message: 'the upstream is a parent proxy; wanted: an origin' }];
  });
}

/** Routes with equal keys would match the same requests. */
function routeKey(route: RouteEntry): string {
  const host = route.host === undefined ? undefined : parseHostPattern(route.host);
  return JSON.stringify([host?.host, host?.wildcard, route.path]);
}
