/**
 * Every metric of the daemon, as one object whose fields are the families.
 *
 * Decides names, help texts, labels and which series exist before anything happened. Hot paths keep
 * children of these families; `prometheus.ts` reads them at a scrape.
 */
import { ERROR_CODES } from '../errors.ts';
import {
  type Family,
  type Instrument,
  counterFamily,
  gaugeFamily,
  histogramFamily,
  names,
  words,
} from './instruments.ts';
import * as set from './label-words.ts';

/** Names of the configuration: the only open label values there are. */
export interface MetricsNames {
  readonly listeners: readonly string[];
  readonly upstreams: readonly string[];
  readonly principals: readonly string[];
  /** Of tokens. Default none. */
  readonly issuers?: readonly string[];
  /** Pairs that can occur, so that no impossible series is shown; all pairs when absent. */
  readonly routes?: readonly { readonly listener: string; readonly upstream: string }[];
  /** Likewise for logins. */
  readonly logins?: readonly { readonly principal: string; readonly upstream: string }[];
}

export interface MetricsSettings extends MetricsNames {
  /** Of the build. */
  readonly version: string;
}

/** All families; each series that the settings allow exists at 0 from the start. */
export class Metrics {
  readonly #families: Family<Instrument>[] = [];
  readonly #readers = new Set<() => void>();

  readonly requests = this.#add(
    counterFamily(
      'sidekerb_requests_total',
      'Requests answered, by the class of the status sent to the caller.',
      names('listener'),
      names('upstream'),
      words('class', set.STATUS_CLASSES),
    ),
  );
  readonly requestDuration = this.#add(
    histogramFamily(
      'sidekerb_request_duration_seconds',
      'Time from the end of the request head to the last byte of the answer.',
      set.EXCHANGE_BOUNDS,
      names('listener'),
      names('upstream'),
    ),
  );
  readonly upstreamFirstByte = this.#add(
    histogramFamily(
      'sidekerb_upstream_first_byte_seconds',
      'Time from the first byte sent upstream to the first byte of the final answer.',
      set.EXCHANGE_BOUNDS,
      names('upstream'),
    ),
  );
  readonly errors = this.#add(
    counterFamily(
      'sidekerb_errors_total',
      'Requests that ended in an error of the daemon, by reason.',
      names('listener'),
      words('reason', ERROR_CODES),
    ),
  );
  readonly downstreamConnections = this.#add(
    gaugeFamily(
      'sidekerb_downstream_connections',
      'Connections of callers that are open now.',
      names('listener'),
    ),
  );
  readonly tlsHandshakes = this.#add(
    counterFamily(
      'sidekerb_tls_handshakes_total',
      'TLS handshakes of callers.',
      names('listener'),
      words('result', set.TLS_RESULTS),
    ),
  );
  readonly certificateNotAfter = this.#add(
    gaugeFamily(
      'sidekerb_tls_certificate_not_after_timestamp_seconds',
      'When the first certificate that a listener shows ends, in seconds since 1970.',
      names('listener'),
    ),
  );
  readonly tunnels = this.#add(
    gaugeFamily('sidekerb_tunnels', 'Tunnels that are open now.', names('listener')),
  );
  readonly bytes = this.#add(
    counterFamily(
      'sidekerb_bytes_total',
      'Bytes received from (in) and sent to (out) callers.',
      names('listener'),
      words('direction', set.DIRECTIONS),
    ),
  );

  readonly inboundAuth = this.#add(
    counterFamily(
      'sidekerb_inbound_auth_total',
      'Requests by what the listener found out about their caller, before any upstream was asked.',
      names('listener'),
      words('client', set.CLIENTS),
      words('result', set.INBOUND_RESULTS),
    ),
  );

  readonly upstreamConnections = this.#add(
    gaugeFamily(
      'sidekerb_upstream_connections',
      'Upstream connections that are open now; tied ones carry an identity.',
      names('upstream'),
      words('state', set.CONNECTION_STATES),
      words('binding', set.BINDINGS),
    ),
  );
  readonly connectionsOpened = this.#add(
    counterFamily(
      'sidekerb_upstream_connections_opened_total',
      'Upstream connections that were opened.',
      names('upstream'),
    ),
  );
  readonly connectionsClosed = this.#add(
    counterFamily(
      'sidekerb_upstream_connections_closed_total',
      'Upstream connections that were closed, by reason.',
      names('upstream'),
      words('reason', set.CLOSE_REASONS),
    ),
  );
  readonly leaseRequests = this.#add(
    counterFamily(
      'sidekerb_pool_lease_requests_total',
      'Requests for a pooled connection, by how they ended; hits over all is the reuse ratio.',
      names('upstream'),
      words('result', set.LEASE_RESULTS),
    ),
  );
  readonly leaseWait = this.#add(
    histogramFamily(
      'sidekerb_pool_lease_wait_seconds',
      'Time that requests stood in line for a connection.',
      set.LEASE_WAIT_BOUNDS,
      names('upstream'),
    ),
  );
  readonly poolWaiters = this.#add(
    gaugeFamily('sidekerb_pool_waiters', 'Requests in line for a connection.', names('upstream')),
  );
  readonly poolPartitions = this.#add(
    gaugeFamily('sidekerb_pool_partitions', 'Partitions of the pool.', names('upstream')),
  );
  readonly connectionRequests = this.#add(
    histogramFamily(
      'sidekerb_connection_requests',
      'Requests that a connection carried, counted when it closes.',
      set.CONNECTION_REQUEST_BOUNDS,
      names('upstream'),
      words('binding', set.BINDINGS),
    ),
  );

  readonly handshakes = this.#add(
    counterFamily(
      'sidekerb_handshakes_total',
      'Logins of upstream connections, by result.',
      names('upstream'),
      words('hop', set.HOPS),
      words('scheme', set.SCHEMES),
      words('result', set.HANDSHAKE_RESULTS),
    ),
  );
  readonly handshakeDuration = this.#add(
    histogramFamily(
      'sidekerb_handshake_duration_seconds',
      'Time that a login took, from its first message to the verdict.',
      set.HANDSHAKE_BOUNDS,
      words('hop', set.HOPS),
      words('scheme', set.SCHEMES),
    ),
  );
  readonly handshakeLegs = this.#add(
    histogramFamily(
      'sidekerb_handshake_legs',
      'Requests that a login took.',
      set.LEG_BOUNDS,
      words('hop', set.HOPS),
      words('scheme', set.SCHEMES),
    ),
  );
  readonly connectionsTied = this.#add(
    counterFamily(
      'sidekerb_connections_tied_total',
      'Upstream connections that became tied to an identity, by cause.',
      names('upstream'),
      words('cause', set.TIE_CAUSES),
    ),
  );
  readonly reauthentications = this.#add(
    counterFamily(
      'sidekerb_reauthentications_total',
      'Logins that were asked for again, by reason.',
      names('upstream'),
      words('reason', set.REAUTHENTICATION_REASONS),
    ),
  );
  readonly policyRefusals = this.#add(
    counterFamily(
      'sidekerb_policy_refusals_total',
      'Exchanges that a rule of isolation refused.',
      words('rule', set.POLICY_RULES),
    ),
  );
  readonly unauthenticatedAccepts = this.#add(
    counterFamily(
      'sidekerb_unauthenticated_accepts_total',
      'Connections of a configured login on which the upstream asked for none.',
      names('upstream'),
    ),
  );
  readonly guardState = this.#add(
    gaugeFamily(
      'sidekerb_guard_state',
      'Lockout guard: 0 closed, 1 half-open, 2 open.',
      names('principal'),
      names('upstream'),
    ),
  );
  readonly kerberosHelperRestarts = this.#add(
    counterFamily(
      'sidekerb_kerberos_helper_restarts_total',
      'Kerberos helper processes that were replaced.',
    ),
  );
  readonly credentialGeneration = this.#add(
    gaugeFamily(
      'sidekerb_credential_generation',
      'Version of the secret in use; it grows when the secret changes.',
      names('credential'),
    ),
  );

  readonly cacheRequests = this.#add(
    counterFamily(
      'sidekerb_cache_requests_total',
      'Look-ups in a cache; hits over these is its hit rate.',
      words('cache', set.CACHES),
      names('issuer'),
    ),
  );
  readonly cacheHits = this.#add(
    counterFamily(
      'sidekerb_cache_hits_total',
      'Look-ups that the cache answered.',
      words('cache', set.CACHES),
      names('issuer'),
    ),
  );
  readonly cacheEvictions = this.#add(
    counterFamily(
      'sidekerb_cache_evictions_total',
      'Entries that left a cache, by reason.',
      words('cache', set.CACHES),
      names('issuer'),
      words('reason', set.CACHE_EVICTION_REASONS),
    ),
  );
  readonly cacheEntries = this.#add(
    gaugeFamily(
      'sidekerb_cache_entries',
      'Entries of a cache.',
      words('cache', set.CACHES),
      names('issuer'),
    ),
  );
  readonly jwksRefreshes = this.#add(
    counterFamily(
      'sidekerb_jwks_refreshes_total',
      'Times that the keys of an issuer were loaded from their URL.',
      names('issuer'),
      words('result', set.REFRESH_RESULTS),
    ),
  );
  readonly jwksLastSuccess = this.#add(
    gaugeFamily(
      'sidekerb_jwks_last_success_timestamp_seconds',
      'When the keys of an issuer were last loaded; 0: never.',
      names('issuer'),
    ),
  );

  readonly configReloads = this.#add(
    counterFamily(
      'sidekerb_config_reloads_total',
      'Times that the configuration was read again; after a failed one nothing is changed.',
      words('result', set.RELOAD_RESULTS),
    ),
  );
  readonly invariantViolations = this.#add(
    counterFamily(
      'sidekerb_invariant_violations_total',
      'Broken promises of the code; any growth is a defect.',
      words('invariant', set.INVARIANTS),
    ),
  );
  readonly rawSocket = this.#add(
    gaugeFamily(
      'sidekerb_raw_socket',
      'Which way bytes reach sockets; 1 for the one in use.',
      words('engine', set.SOCKET_ENGINES),
    ),
  );
  readonly buildInfo = this.#add(
    gaugeFamily(
      'sidekerb_build_info',
      'Versions of this build; always 1.',
      names('version'),
      names('node'),
      names('openssl'),
    ),
  );

  constructor(settings: MetricsSettings) {
    this.buildInfo.child(settings.version, process.versions.node, process.versions.openssl).set(1);
    for (const cache of set.CACHES) if (cache !== 'jwt') this.#addCache(cache, set.NO_ISSUER);
    this.addNames(settings);
  }

  /** All families in the order in which they are shown. */
  get families(): readonly Family<Instrument>[] {
    return this.#families;
  }

  /** Registers a part that keeps gauges in its own books: `read` sets them before each scrape. */
  onCollect(read: () => void): void {
    this.#readers.add(read);
  }

  /** Brings every gauge up to date. Whoever shows the families calls it first. */
  collect(): void {
    for (const read of this.#readers) read();
  }

  /** Makes the series of names that are new; those that exist go on. */
  addNames({ listeners, upstreams, principals, issuers = [], ...pairings }: MetricsNames): void {
    for (const listener of listeners) this.#populate({ listener });
    for (const upstream of upstreams) this.#populate({ upstream });
    for (const principal of principals) this.#populate({ credential: principal });
    for (const issuer of issuers) {
      this.#addCache('jwt', issuer);
      for (const result of set.REFRESH_RESULTS) this.jwksRefreshes.child(issuer, result);
      this.jwksLastSuccess.child(issuer);
    }
    const targets = [...upstreams, set.NO_UPSTREAM];
    const routes = pairings.routes ?? pairs('listener', listeners, 'upstream', targets);
    for (const route of routes) this.#populate({ ...route });
    const logins = pairings.logins ?? pairs('principal', principals, 'upstream', upstreams);
    for (const login of logins) this.#populate({ ...login });
  }

  /** Forgets every series of a listener that a reload removed, once its connections are gone. */
  removeListener(listener: string): void {
    for (const family of this.#families) family.removeWhere('listener', listener);
  }

  /** Forgets every series of an upstream that a reload removed. */
  removeUpstream(upstream: string): void {
    for (const family of this.#families) family.removeWhere('upstream', upstream);
  }

  /** Forgets every series of a principal that a reload removed. */
  removePrincipal(principal: string): void {
    for (const family of this.#families) {
      family.removeWhere('principal', principal);
      family.removeWhere('credential', principal);
    }
  }

  #addCache(cache: set.CacheWord, issuer: string): void {
    this.cacheRequests.child(cache, issuer);
    this.cacheHits.child(cache, issuer);
    this.cacheEntries.child(cache, issuer);
    for (const reason of set.CACHE_EVICTION_REASONS) {
      this.cacheEvictions.child(cache, issuer, reason);
    }
  }

  /** Forgets every series of an issuer that a reload removed. */
  removeIssuer(issuer: string): void {
    for (const family of this.#families) family.removeWhere('issuer', issuer);
  }

  #populate(fixed: Readonly<Record<string, string>>): void {
    for (const family of this.#families) {
      if (Object.keys(fixed).every((key) => family.labels.some((label) => label.name === key))) {
        family.populate(fixed);
      }
    }
  }

  #add<F extends Family<Instrument>>(family: F): F {
    this.#families.push(family);
    return family;
  }
}

function pairs<A extends string, B extends string>(
  first: A,
  firsts: readonly string[],
  second: B,
  seconds: readonly string[],
): Record<A | B, string>[] {
  return firsts.flatMap((one) =>
    seconds.map((other) => ({ [first]: one, [second]: other }) as Record<A | B, string>),
  );
}
