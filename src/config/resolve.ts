/**
 * Makes the `Config` of a decoded file: addresses and URLs parsed, credentials read, defaults that
 * depend on other keys filled in. Entries that other checks refuse are left out.
 */

import type { Secret } from '../identity/secret.ts';
import { AddressList } from './address-list.ts';
import { parseHostPattern, parseListenAddress } from './addresses.ts';
import { clientKinds, type ClientWord, entryOf, isLocal } from './checks/context.ts';
import type {
  AdminConfig,
  ClientConfig,
  Config,
  HostPattern,
  KerberosPart,
  ListenAddress,
  ListenerBase,
  ListenerConfig,
  PrincipalConfig,
  RouteConfig,
  UpstreamConfig,
  UpstreamTls,
} from './config.ts';
import type {
  AdminEntry,
  ClientEntry,
  Contract,
  ListenerEntry,
  PrincipalEntry,
  RouteEntry,
  UpstreamEntry,
} from './contract.ts';
import type { CredentialLoader } from './credentials.ts';
import { effectiveOf } from './effective.ts';
import type { KeyPath } from './faults.ts';
import { formatPath } from './faults.ts';
import { filledPool } from './pool-defaults.ts';
import { listenerTls } from './listener-tls.ts';
import { NO_REALMS } from './kerberos-realms.ts';
import { parseOrigin, parseTargetUrl } from './urls.ts';

/** Faults of credentials go to `credentials.findings`; the result then lacks what they belong to. */
export function resolveConfig(
  file: string,
  contract: Contract,
  credentials: CredentialLoader,
): Config {
  const { log, workers, watch, shutdown, limits } = contract;
  const listeners = contract.listeners.flatMap((entry, index) =>
    listenerOf(entry, { contract, credentials, path: ['listeners', index] }),
  );
  const admin = contract.admin === undefined ? undefined : adminOf(contract.admin);
  const principals = mapEntries(contract.principals, (entry, name) =>
    principalOf(entry, name, credentials),
  );
  const upstreams = mapEntries(contract.upstreams, (entry, name) =>
    upstreamOf(entry, name, credentials),
  );
  return deepFreeze({
    file,
    log,
    admin,
    workers,
    watch,
    stateDir: contract.stateDir,
    shutdown,
    limits,
    kerberos: {
      config: credentials.kerberosConfig(contract.kerberos.config, ['kerberos', 'config']),
      defaultCache: credentials.environment('KRB5CCNAME'),
      provider: contract.kerberos.provider,
      realms: Object.values(contract.principals).some(({ from }) => from === 'client')
        ? credentials.kerberosRealms(contract.kerberos.config)
        : NO_REALMS,
    },
    principals,
    upstreams,
    listeners,
    dangerous: dangerousKeys(contract, []),
    warnings: [...credentials.warnings, ...listeners.flatMap(rebindingWarning)],
    effective: effectiveOf(contract, { listeners, admin }),
  });
}

function principalOf(
  entry: PrincipalEntry,
  name: string,
  credentials: CredentialLoader,
): PrincipalConfig | undefined {
  const { username, guard } = entry;
  const path = ['principals', name];
  if (entry.from === 'client') return { kind: 'client', name, kerberos: undefined, guard };
  const password = entry.password && credentials.password(entry.password, [...path, 'password']);
  const kerberos = kerberosOf(entry, path, { credentials, password });
  if (username === undefined) return kerberos && { kind: 'kerberos', name, kerberos, guard };
  if (entry.ntHash !== undefined) {
    const ntHash = credentials.ntHash(entry.ntHash, [...path, 'ntHash']);
    return ntHash && { kind: 'nt-hash', name, username, ntHash, kerberos, guard };
  }
  return password && { kind: 'password', name, username, password, kerberos, guard };
}

/** A keytab or cache beside a password is what Kerberos uses; the password is for NTLM then. */
function kerberosOf(
  entry: PrincipalEntry,
  path: KeyPath,
  known: { credentials: CredentialLoader; password: Secret<string> | undefined },
): KerberosPart | undefined {
  const { kerberos: principal, keytab, ccache } = entry;
  const { credentials, password } = known;
  if (entry.ambient === true) return { source: 'ambient' };
  if (principal === undefined) return undefined;
  if (keytab !== undefined) return credentials.keytab(keytab, principal, [...path, 'keytab']);
  if (ccache !== undefined) return credentials.ccache(ccache, principal, [...path, 'ccache']);
  return password && { source: 'password', principal, password };
}

function upstreamOf(
  entry: UpstreamEntry,
  name: string,
  credentials: CredentialLoader,
): UpstreamConfig | undefined {
  const target = parseTargetUrl(entry.url ?? entry.proxy ?? '');
  if ('fault' in target) return undefined;
  const { auth, via } = entry;
  const pool = filledPool(entry);
  const tls = tlsOf(entry.tls, ['upstreams', name, 'tls'], credentials);
  return {
    name,
    kind: entry.url === undefined ? 'parent' : 'origin',
    target,
    via,
    host: entry.host,
    auth: auth && { ...auth, principal: auth.principal, spn: auth.spn ?? `HTTP/${target.host}` },
    pool: {
      ...pool,
      maxPerPrincipal: Math.min(pool.maxPerPrincipal, pool.maxConnections),
      maxIdle: Math.min(pool.maxIdle, pool.maxConnections),
    },
    timeouts: entry.timeouts,
    replay: entry.replay,
    tls: target.scheme === 'https' ? tls : undefined,
  };
}

function tlsOf(
  entry: UpstreamEntry['tls'],
  path: KeyPath,
  credentials: CredentialLoader,
): UpstreamTls {
  return {
    ca: entry?.ca === undefined ? undefined : credentials.certificates(entry.ca, [...path, 'ca']),
    extraCa:
      entry?.extraCa === undefined
        ? []
        : (credentials.certificates(entry.extraCa, [...path, 'extraCa']) ?? []),
    servername: entry?.servername,
    identity: entry && credentials.identity(entry, path),
    minVersion: entry?.minVersion ?? 'TLSv1.2',
    dangerousSkipVerify: entry?.dangerousSkipVerify ?? false,
  };
}

function adminOf(entry: AdminEntry): AdminConfig {
  const isDefaultRule = isLocal(entry.listen);
  return {
    listen: addresses(entry.listen),
    socketMode: Number.parseInt(entry.socketMode, 8),
    probes: entry.probes && { listen: addresses(entry.probes.listen) },
    readiness: entry.readiness,
    hosts: hosts(entry.hosts) ?? (isDefaultRule ? ownHosts(entry.listen, []) : undefined),
    clients: [{ kind: 'none' }],
    dangerousOpenAdmin: entry.dangerousOpenAdmin,
  };
}

interface ListenerPlace {
  readonly contract: Contract;
  readonly credentials: CredentialLoader;
  readonly path: KeyPath;
}

function listenerOf(entry: ListenerEntry, place: ListenerPlace): ListenerConfig[] {
  if (entry.mode === 'forward') {
    const { mode, via, origins, direct, allow, resolve } = entry;
    const base = listenerBase(entry, place, undefined);
    return [{ ...base, mode, via, origins, direct, allow, private: entry.private, resolve }];
  }
  if (entry.mode !== 'reverse' || entry.routes === undefined) return [];
  // Whoever has no credentials may be a page that had its own name lead here.
  const isDefaultRule = isLocal(entry.listen) && clientKinds(entry).includes('none');
  const routeHosts = entry.routes.flatMap(
    ({ host }) => hosts(host === undefined ? [] : [host]) ?? [],
  );
  const fallback = isDefaultRule ? ownHosts(entry.listen, routeHosts) : undefined;
  const hasRules = entry.principal !== undefined;
  const routes = entry.routes.map((route) => routeOf(route, place.contract, hasRules));
  return [{ ...listenerBase(entry, place, fallback), mode: entry.mode, routes }];
}

function listenerBase(
  entry: ListenerEntry,
  { credentials, path }: ListenerPlace,
  defaultHosts: readonly HostPattern[] | undefined,
): ListenerBase {
  const { name, timeouts, limits, forwarded } = entry;
  return {
    name,
    listen: addresses(entry.listen),
    socketMode: Number.parseInt(entry.socketMode, 8),
    hosts: hosts(entry.hosts) ?? defaultHosts,
    tls: listenerTls(entry, path, credentials),
    clients: (entry.clients ?? ['none']).flatMap((client, index) =>
      clientOf(client, [...path, 'clients', index], credentials),
    ),
    principal: entry.principal?.map(({ when, use }) => {
      const { client, issuer, subject, claim, certificate } = when;
      const kind = isBuiltKind(client) ? client : undefined;
      return { when: { client: kind, issuer, subject, claim, certificate }, use };
    }),
    timeouts,
    limits,
    forwarded,
    http2: entry.http2,
    identityHeaders: entry.identityHeaders.map((field) => field.toLowerCase()),
    dangerousOpenProxy: entry.dangerousOpenProxy,
    dangerousPlaintextBasic: entry.dangerousPlaintextBasic,
  };
}

/** Kinds that are not built yet are left out; they are faults. */
function clientOf(
  entry: ClientEntry,
  path: KeyPath,
  credentials: CredentialLoader,
): ClientConfig[] {
  if (entry === 'none') return [{ kind: 'none' }];
  if ('header' in entry) return [{ kind: 'header', ...entry.header }];
  if ('basic' in entry) {
    const { realm, pass, users: file } = entry.basic;
    if (file === undefined)
      return pass === true ? [{ kind: 'basic', realm, users: undefined }] : [];
    const users = credentials.users(file, [...path, 'basic', 'users']);
    return users === undefined ? [] : [{ kind: 'basic', realm, users }];
  }
  if ('mtls' in entry) {
    const { ca: file, subject } = entry.mtls;
    const ca = credentials.certificates(file, [...path, 'mtls', 'ca']);
    return ca === undefined ? [] : [{ kind: 'mtls', ca, subject }];
  }
  if ('negotiate' in entry) {
    const { keytab, spn, persist } = entry.negotiate;
    const own = credentials.serviceKeys(keytab, spn, [...path, 'negotiate']);
    return own === undefined ? [] : [{ kind: 'negotiate', ...own, persist }];
  }
  if (!('jwt' in entry)) return [];
  const { issuer, audience, algorithms, cache, refresh } = entry.jwt;
  const jwks = credentials.jwks(entry.jwt.jwks, [...path, 'jwt', 'jwks']);
  if (jwks === undefined) return [];
  return [{ kind: 'jwt', issuer, audience, algorithms, cache, refresh, jwks }];
}

const isBuiltKind = (kind: ClientWord | undefined): kind is ClientConfig['kind'] | undefined =>
  kind !== 'sspi';

function routeOf(entry: RouteEntry, contract: Contract, hasRules: boolean): RouteConfig {
  const upstream = entryOf(contract.upstreams, entry.upstream);
  const {
    path,
    upstream: name,
    stripPrefix,
    rewriteLocation,
    rewriteCookies,
    dangerousRawPath,
  } = entry;
  return {
    path,
    host: entry.host === undefined ? undefined : parseHostPattern(entry.host),
    upstream: name,
    principal: entry.principal ?? (hasRules ? undefined : upstream?.auth?.principal),
    forwardIdentity: entry.forwardIdentity,
    stripPrefix,
    upgrade: entry.upgrade.map((token) => token.toLowerCase()),
    challenge: entry.challenge,
    timeouts: {
      response: entry.timeouts.response ?? upstream?.timeouts.response ?? 0,
      idle: entry.timeouts.idle ?? upstream?.timeouts.idle ?? 0,
    },
    rewriteLocation,
    rewriteCookies,
    allowOrigins: entry.allowOrigins.map((origin) => parseOrigin(origin) ?? origin),
    dangerousRawPath,
  };
}

function addresses(listen: readonly string[]): ListenAddress[] {
  return listen.map(parseListenAddress).filter((address) => address !== undefined);
}

function hosts(written: readonly string[] | undefined): HostPattern[] | undefined {
  return written?.map(parseHostPattern).filter((pattern) => pattern !== undefined);
}

/** The Host values of a listener that only this machine can reach. */
function ownHosts(listen: readonly string[], more: readonly HostPattern[]): HostPattern[] {
  const own = addresses(listen).flatMap((address) =>
    address.kind === 'tcp' ? [address.host] : [],
  );
  const plain = [...new Set([...own, 'localhost'])].map((host): HostPattern => {
    return { host, wildcard: false, port: undefined };
  });
  return [...plain, ...more];
}

/**
 * A page that has its name lead to this machine may set any field, and comes from where the trusted proxy
 * comes from; Host is what tells them apart.
 */
function rebindingWarning(
  { clients, hosts: accepted, listen }: ListenerConfig,
  index: number,
): string[] {
  const isReachable = listen.some(({ kind }) => kind === 'tcp');
  if (accepted !== undefined || !isReachable) return [];
  const trusting = clients.find((one) => one.kind === 'header' && trustsThisMachine(one.from));
  if (trusting?.kind !== 'header') return [];
  return [
    `listeners[${index}].hosts: missing; a web page on this machine could say by DNS rebinding who calls (${trusting.name})`,
  ];
}

function trustsThisMachine(from: readonly string[]): boolean {
  const list = new AddressList(from);
  return list.includes('127.0.0.1') || list.includes('::1');
}

/** Paths of the keys that weaken security and are set. */
function dangerousKeys(value: unknown, path: KeyPath): string[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) => dangerousKeys(item, [...path, index]));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const here = [...path, key];
    return key.startsWith('dangerous') && item === true
      ? [formatPath(here)]
      : dangerousKeys(item, here);
  });
}

/** A record without a prototype, so that looking up any name is safe. */
function mapEntries<T, U>(
  entries: Readonly<Record<string, T>>,
  map: (entry: T, name: string) => U | undefined,
): Record<string, U> {
  const result: Record<string, U> = Object.create(null);
  for (const [name, entry] of Object.entries(entries)) {
    const mapped = map(entry, name);
    if (mapped !== undefined) result[name] = mapped;
  }
  return result;
}

/** Plain data only: a `Secret` keeps its bytes to itself, and Node refuses to freeze a Buffer. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  for (const item of Object.values(value)) deepFreeze(item);
  return Object.freeze(value);
}
