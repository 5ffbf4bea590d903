/**
 * What the admin listener may see and do of the running daemon. `app.ts` implements it.
 *
 * Plain data only; `public-data.ts` copies the named fields and nothing else, so that a view which
 * hands over more shows no more (R46).
 */

/** Whether the daemon may get traffic. */
export interface Readiness {
  readonly ready: boolean;
  /** Why it is not ready; empty when it is. */
  readonly reasons: readonly string[];
  /** Trouble that leaves it ready. */
  readonly degraded: readonly string[];
}

/** Connections of one upstream or partition, by state. */
export interface ConnectionCounts {
  readonly connecting: number;
  readonly handshaking: number;
  readonly active: number;
  readonly idle: number;
}

/** How requests for a connection ended. `hit` over the sum is the hit rate. */
export interface LeaseCounts {
  readonly hit: number;
  readonly new: number;
  readonly waited: number;
  readonly rejected: number;
  readonly timeout: number;
}

export interface ListenerStatus {
  readonly name: string;
  readonly mode: string;
  /** As `host:port` or `unix:/path`, the real port. */
  readonly addresses: readonly string[];
  readonly connections: number;
  readonly requests: number;
  readonly errors: number;
}

export interface UpstreamStatus {
  readonly name: string;
  /** Scheme, host and port, without userinfo and path. */
  readonly origin: string;
  readonly connections: ConnectionCounts;
  readonly leases: LeaseCounts;
  readonly waiters: number;
  readonly partitions: number;
  readonly logins: { readonly ok: number; readonly failed: number };
}

export interface GuardStatus {
  readonly principal: string;
  readonly upstream: string;
  readonly state: 'closed' | 'half-open' | 'open';
}

/** A cache that has been looked into. `hits` over `requests` is its hit rate. */
export interface CacheStatus {
  readonly cache: string;
  /** Of tokens; undefined for other caches. */
  readonly issuer?: string | undefined;
  readonly requests: number;
  readonly hits: number;
  readonly entries: number;
}

/** Data of the status page. */
export interface StatusData {
  readonly version: string;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly readiness: Readiness;
  readonly listeners: readonly ListenerStatus[];
  readonly upstreams: readonly UpstreamStatus[];
  readonly caches: readonly CacheStatus[];
  readonly guards: readonly GuardStatus[];
}

/** One partition; its id means nothing outside this process and after it. */
export interface PartitionStatus {
  readonly id: string;
  /** Configured name; undefined where connections carry no identity. */
  readonly principal?: string | undefined;
  readonly connections: ConnectionCounts;
  readonly waiters: number;
  /** True after a flush, drain or rotation: nothing new is leased here. */
  readonly retired: boolean;
  /** Age of its oldest connection; undefined without one. */
  readonly oldestMs?: number | undefined;
  /** Code of the latest failure to open a connection. */
  readonly lastFailure?: string | undefined;
}

export interface UpstreamPools {
  readonly upstream: string;
  readonly partitions: readonly PartitionStatus[];
}

/** Names that a new configuration added, took away, or gave another meaning. */
export interface NamedChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export interface ReloadFault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Of the key, as `upstreams.crm.url`. */
  readonly path: string;
  readonly message: string;
  readonly hint: string | undefined;
}

/** What became of a reload. */
export interface ReloadReport {
  /** `failed`: nothing changed. */
  readonly result: 'ok' | 'failed';
  /** Why it failed, where no file is at fault. */
  readonly reason: string | undefined;
  readonly faults: readonly ReloadFault[];
  /** What is no fault and yet will not work as it stands. */
  readonly warnings: readonly string[];
  /** Changed: the secret or the account. */
  readonly principals: NamedChanges;
  readonly upstreams: NamedChanges;
  /** Addresses that were opened and closed. */
  readonly listeners: { readonly opened: readonly string[]; readonly closed: readonly string[] };
  /** Keys that were changed in the file and keep the value of the start. */
  readonly restartNeeded: readonly string[];
}

export interface AdminView {
  ready(): Readiness;
  status(): StatusData;
  pools(): readonly UpstreamPools[];
  /** The effective configuration as plain data. Whatever is not plain data is shown as a marker. */
  config(): unknown;
  /** Effective for connections leased before, too (R50). False: no such upstream. */
  drainUpstream(name: string): boolean;
  /** Likewise for every connection of a principal; also closes its guard. False: no such principal. */
  flushPrincipal(name: string): boolean;
  /** Reads the configuration again and puts it in force, or changes nothing (I10). Never rejects. */
  reload(): Promise<ReloadReport>;
}
