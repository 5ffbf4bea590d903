/**
 * What lives as long as the process, whatever the configuration becomes: pool, guard, metrics, time,
 * buffers, TLS sessions, numbers of secrets, our own addresses.
 *
 * What belongs to one configuration is looked up here in the `Generation` in force, or comes with a
 * partition; nothing of a configuration is kept here but limits that cannot change.
 */
import { randomBytes } from 'node:crypto';
import { type GuardSettings, LoginGuard } from '../auth/guard.ts';
import { Acceptors } from '../auth/kerberos/acceptors.ts';
import { systemClock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import { DeadlineWheel } from '../deadlines.ts';
import { ConnectionOpener } from '../establish/opener.ts';
import { SecretVersions } from '../identity/secret-version.ts';
import type { AccessLog } from '../log/access-log.ts';
import { PasswordChecks } from '../inbound/htpasswd/password-checks.ts';
import type { UserDatabaseDeps } from '../inbound/htpasswd/user-database.ts';
import { startHashWorker } from '../inbound/htpasswd/worker-link.ts';
import { TicketCallers } from '../inbound/ticket-callers.ts';
import type { Log } from '../log/log.ts';
import { Metrics, type MetricsNames } from '../metrics/metrics.ts';
import { Pool } from '../pool/pool.ts';
import { CallerIdentities } from '../proxy/caller-identities.ts';
import { createAnswerWriter } from '../proxy/error-response.ts';
import { OwnAddresses } from '../proxy/forward-own.ts';
import type { PartitionPool } from '../proxy/plans.ts';
import { latin1 } from '../relay/bytes.ts';
import { RelayContext } from '../relay/context.ts';
import type { Carrier } from '../server/http2/carrier.ts';
import type { ConnectionBudget } from '../server/listener.ts';
import type { SocketEngine } from '../server/raw-socket.ts';
import { createReadBuffers } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import { dial } from '../upstream/dial.ts';
import { ParentHealth } from '../upstream/parent-health.ts';
import { Resolver } from '../upstream/resolve.ts';
import { SessionStore } from '../upstream/session-store.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import type { AppDeps } from './contract.ts';
import { showDigests, userCacheMeters } from './caller-meters.ts';
import { CurrentSecrets } from './current-secrets.ts';
import { KerberosTickets } from './kerberos.ts';
import { loginMeters, poolMetrics } from './meters.ts';

/** Heads of upstreams may be larger than callers': Kerberos tokens, many cookies. */
const RESPONSE_LIMITS = { maxBytes: 64 * 1024, maxFields: 500 };

export interface RuntimeDeps extends AppDeps {
  readonly engine: SocketEngine;
}

export class Runtime {
  readonly clock = systemClock;
  readonly startedAt = systemClock.wall();
  readonly version: string;
  readonly log: Log;
  readonly access: AccessLog;
  readonly engine: SocketEngine;
  readonly deadlines = new DeadlineWheel(systemClock);
  readonly buffers = createReadBuffers();
  #carrier: Promise<Carrier> | undefined;
  readonly metrics: Metrics;
  readonly guard: LoginGuard;
  readonly versions = new SecretVersions();
  readonly resolver: Resolver;
  readonly health: ParentHealth;
  readonly own = new OwnAddresses();
  /** Id of this process in Via. */
  readonly viaId = `sidekerb-${randomBytes(6).toString('hex')}`;
  readonly budget: ConnectionBudget;
  /** Identities that callers bring. */
  readonly callers: CallerIdentities;
  /** What the user databases of callers share. */
  readonly userDatabases: UserDatabaseDeps & { readonly checks: PasswordChecks };
  readonly kerberos: KerberosTickets;
  /** Who takes callers' tickets. */
  readonly acceptors: Acceptors;
  readonly tickets = new TicketCallers(systemClock);
  /** By principal name; those of principals that are gone stay for logins under way. */
  readonly guardSettings = new Map<string, GuardSettings>();
  readonly secrets = new CurrentSecrets();
  readonly pool: Pool<UpstreamConnection, OpeningRequest>;
  /** The pool as plans ask it for partitions. */
  readonly partitions: PartitionPool;
  readonly context: RelayContext;

  /** `config` is the first one: it has the limits of the pool. */
  constructor(config: Config, deps: RuntimeDeps) {
    this.version = deps.version;
    this.log = deps.log;
    this.access = deps.access;
    this.engine = deps.engine;
    this.resolver = new Resolver(deps.lookup);
    this.health = new ParentHealth({
      deadlines: this.deadlines,
      log: deps.log,
      tryDial: (parent, signal) => this.#tryDial(parent, signal),
    });
    this.metrics = new Metrics({ ...metricsNames(config), version: deps.version });
    this.metrics.rawSocket.child(deps.engine).set(1);
    this.metrics.onCollect(() => showDigests(this.metrics));
    this.guard = new LoginGuard({ clock: systemClock, log: deps.log });
    this.budget = { limit: config.limits.connections, used: 0 };
    this.callers = new CallerIdentities({
      deadlines: this.deadlines,
      max: config.limits.partitions,
      realms: config.kerberos.realms,
    });
    const { clock, deadlines, log } = this;
    this.userDatabases = {
      clock,
      checks: new PasswordChecks({ deadlines, log, start: startHashWorker }),
      meters: userCacheMeters(this.metrics),
    };
    const onHelperRestart = (): void => this.metrics.kerberosHelperRestarts.child().add(1);
    this.kerberos = new KerberosTickets({
      callerPasswords: (identity) => this.callers.passwordOf(identity),
      deadlines,
      clock,
      log,
      onHelperRestart,
    });
    const { acceptorHelper: helper } = deps;
    this.acceptors = new Acceptors({ deadlines, clock, log, onHelperRestart, helper });
    this.pool = this.#createPool(config.limits, deps.legs);
    this.partitions = {
      partition: (input) => this.pool.partition(this.secrets.apply(input)),
    };
    this.context = this.#createContext();
  }

  /** Of HTTP/2 requests; loaded for the first configuration that has such listeners, as it takes its time. */
  carrier(): Promise<Carrier> {
    this.#carrier ??= import('../server/http2/carrier.ts').then((module) => new module.Carrier());
    return this.#carrier;
  }

  /** Ends what callers are served with; listeners are closed before. */
  async close(): Promise<void> {
    this.pool.close();
    this.health.close();
    this.userDatabases.checks.close();
    await Promise.all([this.kerberos.close(), this.acceptors.close()]);
    this.deadlines.stop();
  }

  async #tryDial(parent: UpstreamTarget, signal: AbortSignal): Promise<void> {
    const { clock, deadlines, buffers } = this;
    // A try leaves no TLS session behind.
    const deps = { clock, deadlines, buffers, sessions: new SessionStore(1) };
    const connection = await dial(deps, parent, 'try', signal);
    connection.destroy();
  }

  #createPool(
    limits: Config['limits'],
    legs: AppDeps['legs'],
  ): Pool<UpstreamConnection, OpeningRequest> {
    const factory = new ConnectionOpener({
      clock: systemClock,
      deadlines: this.deadlines,
      sessions: new SessionStore(limits.partitions),
      buffers: this.buffers,
      guard: this.guard,
      meters: loginMeters(this.metrics),
      log: this.log,
      kerberos: this.kerberos,
      guardSettings: this.guardSettings,
      random: randomBytes,
      legs,
    });
    const pool = new Pool<UpstreamConnection, OpeningRequest>(
      {
        clock: systemClock,
        deadlines: this.deadlines,
        factory,
        metrics: poolMetrics(this.metrics),
        log: this.log,
      },
      limits,
    );
    // A login that ended may be what the next one waited for.
    this.guard.subscribe({ loginEnded: () => pool.reconsider() });
    return pool;
  }

  #createContext(): RelayContext {
    return new RelayContext({
      clock: systemClock,
      deadlines: this.deadlines,
      pool: this.pool,
      answers: createAnswerWriter(() => systemClock.wall()),
      log: this.log,
      via: {
        line11: latin1(`Via: 1.1 ${this.viaId}\r\n`),
        line10: latin1(`Via: 1.0 ${this.viaId}\r\n`),
      },
      responseLimits: RESPONSE_LIMITS,
    });
  }
}

/** Names of a configuration that series are made for. */
export function metricsNames({ listeners, upstreams, principals }: Config): MetricsNames {
  const clients = listeners.flatMap((listener) => listener.clients);
  return {
    issuers: clients.flatMap((one) => (one.kind === 'jwt' ? [one.issuer] : [])),
    listeners: listeners.map(({ name }) => name),
    upstreams: Object.keys(upstreams),
    principals: Object.keys(principals),
  };
}
