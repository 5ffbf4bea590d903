/**
 * What of a view's data leaves through the admin listener: named fields, and plain data.
 *
 * The last fence before an answer (I5, R46). It does not trust that a view hands over exactly its
 * type; and of the configuration it shows nothing that is not plain data.
 */
import type {
  ConnectionCounts,
  NamedChanges,
  PartitionStatus,
  Readiness,
  ReloadReport,
  StatusData,
  UpstreamPools,
  UpstreamStatus,
} from './view.ts';

/** Stands where something is that is not shown. */
export const HIDDEN = '[secret]';

/** A copy of the declared fields of a readiness. */
export function publicReadiness(data: Readiness): Readiness {
  return { ready: data.ready, reasons: [...data.reasons], degraded: [...data.degraded] };
}

/** A copy of the declared fields of a status. */
export function publicStatus(data: StatusData): StatusData {
  return {
    version: data.version,
    startedAt: data.startedAt,
    uptimeSeconds: data.uptimeSeconds,
    readiness: publicReadiness(data.readiness),
    listeners: data.listeners.map(({ name, mode, addresses, connections, requests, errors }) => ({
      name,
      mode,
      addresses: [...addresses],
      connections,
      requests,
      errors,
    })),
    upstreams: data.upstreams.map(publicUpstream),
    caches: data.caches.map(({ cache, issuer, requests, hits, entries }) => ({
      cache,
      issuer,
      requests,
      hits,
      entries,
    })),
    guards: data.guards.map(({ principal, upstream, state }) => ({ principal, upstream, state })),
  };
}

/** A copy of the declared fields of the pools. */
export function publicPools(data: readonly UpstreamPools[]): readonly UpstreamPools[] {
  return data.map(({ upstream, partitions }) => ({
    upstream,
    partitions: partitions.map(publicPartition),
  }));
}

/** A copy of the declared fields of a reload's report. */
export function publicReload(data: ReloadReport): ReloadReport {
  return {
    result: data.result,
    reason: data.reason,
    faults: data.faults.map(({ file, line, column, path, message, hint }) => ({
      file,
      line,
      column,
      path,
      message,
      hint,
    })),
    warnings: [...data.warnings],
    principals: publicChanges(data.principals),
    upstreams: publicChanges(data.upstreams),
    listeners: { opened: [...data.listeners.opened], closed: [...data.listeners.closed] },
    restartNeeded: [...data.restartNeeded],
  };
}

const publicChanges = ({ added, removed, changed }: NamedChanges): NamedChanges => ({
  added: [...added],
  removed: [...removed],
  changed: [...changed],
});

const MAX_DEPTH = 32;
const USERINFO = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i;
const QUERY = /^([a-z][a-z0-9+.-]*:\/\/[^?]*\?).*/is;
// Keys of the configuration whose value is a secret unless it says where one is.
const SECRET_KEYS = new Set([
  'password',
  'nthash',
  'passphrase',
  'key',
  'pkcs12',
  'secret',
  'token',
]);

/**
 * A copy of plain data with a marker in place of everything else: objects of a class, buffers,
 * functions, the values of secret keys, the userinfo and the query of URLs (that of a key set may have a
 * key in it). References to secrets stay.
 */
export function publicConfig(data: unknown): unknown {
  return plain(data, 0);
}

function publicUpstream(data: UpstreamStatus): UpstreamStatus {
  const { hit, new: opened, waited, rejected, timeout } = data.leases;
  return {
    name: data.name,
    origin: withoutUserinfo(data.origin),
    connections: publicCounts(data.connections),
    leases: { hit, new: opened, waited, rejected, timeout },
    waiters: data.waiters,
    partitions: data.partitions,
    logins: { ok: data.logins.ok, failed: data.logins.failed },
  };
}

function publicPartition(data: PartitionStatus): PartitionStatus {
  const { id, principal, connections, waiters, retired, oldestMs, lastFailure } = data;
  const counts = publicCounts(connections);
  return { id, principal, connections: counts, waiters, retired, oldestMs, lastFailure };
}

function publicCounts(data: ConnectionCounts): ConnectionCounts {
  const { connecting, handshaking, active, idle } = data;
  return { connecting, handshaking, active, idle };
}

function withoutUserinfo(url: string): string {
  return url.replace(USERINFO, `$1${HIDDEN}@`);
}

function withoutQuery(url: string): string {
  return url.replace(QUERY, '$1…');
}

function plain(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return withoutQuery(withoutUserinfo(value));
  if (value === undefined || value === null) return value;
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value !== 'object' || depth > MAX_DEPTH) return HIDDEN;
  if (Array.isArray(value)) return value.map((item) => plain(item, depth + 1));
  if (!isPlainObject(value)) return HIDDEN;
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const hidden = SECRET_KEYS.has(key.toLowerCase()) && !isReference(item);
    // A name such as __proto__ becomes a field of the copy and not its prototype.
    Object.defineProperty(copy, key, {
      value: hidden && item !== undefined ? HIDDEN : plain(item, depth + 1),
      enumerable: true,
    });
  }
  return copy;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** `{ file: PATH }` or `{ env: NAME }`: where a secret is, not what it is. */
function isReference(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !isPlainObject(value)) return false;
  const entries = Object.entries(value);
  const [first] = entries;
  if (entries.length !== 1 || first === undefined) return false;
  return (first[0] === 'file' || first[0] === 'env') && typeof first[1] === 'string';
}
