/**
 * The composition root: a `Config` in, a running daemon out. Reads top to bottom as the wiring.
 *
 * Everything that needs no network is made before a port opens (I8); listeners open last, all or
 * none. Draining: not ready at once, accept for `shutdown.delay`, then let requests end for `grace`.
 */
import { randomBytes } from 'node:crypto';
import { createAdminServer, type AdminServer } from './admin/admin-server.ts';
import type { AdminView } from './admin/view.ts';
import { adminAddress, createAdminView } from './app/admin-view.ts';
import { createForwardDispatcher } from './app/forward.ts';
import { createIdentity, Generations, type LoginIdentity } from './app/identities.ts';
import { createKerberos } from './app/kerberos.ts';
import { loginMeters, poolMetrics } from './app/meters.ts';
import { createTarget, poolLimits } from './app/targets.ts';
import { LoginGuard } from './auth/guard.ts';
import type { KerberosProvider } from './auth/kerberos/provider.ts';
import { systemClock } from './clock.ts';
import type {
  Config,
  ListenAddress,
  ListenerConfig,
  ReverseListenerConfig,
} from './config/config.ts';
import { DeadlineWheel } from './deadlines.ts';
import { ConnectionOpener } from './establish/opener.ts';
import { NO_IDENTITY } from './identity/identity.ts';
import type { AccessLog } from './log/access-log.ts';
import type { Log } from './log/log.ts';
import { Metrics } from './metrics/metrics.ts';
import { DIRECT_UPSTREAM } from './metrics/label-words.ts';
import { createMetricsText } from './metrics/prometheus.ts';
import type { ConnectionFactory } from './pool/factory.ts';
import { Pool } from './pool/pool.ts';
import { createAnswerWriter } from './proxy/error-response.ts';
import { OwnAddresses } from './proxy/forward-own.ts';
import { directLimits } from './proxy/forward-plans.ts';
import { createForwardingWriter } from './proxy/forwarding.ts';
import { ListenerObserver } from './proxy/observer.ts';
import { createRoute } from './proxy/plans.ts';
import { ReverseDispatcher } from './proxy/reverse.ts';
import { RouteTable } from './proxy/route-table.ts';
import { latin1 } from './relay/bytes.ts';
import { RelayContext, SharedRequestHead } from './relay/context.ts';
import type { Dispatcher } from './relay/downstream.ts';
import { type ConnectionBudget, Listener, trustList } from './server/listener.ts';
import { chooseEngine, type SocketEngine } from './server/raw-socket.ts';
import { createReadBuffers } from './transport/transport.ts';
import type { UpstreamConnection } from './upstream/connection.ts';
import type { OpeningRequest } from './upstream/opening-request.ts';
import { type Lookup, Resolver } from './upstream/resolve.ts';
import { SessionStore } from './upstream/session-store.ts';
import type { UpstreamTarget } from './upstream/target.ts';
import { RequestFields } from './wire/request-fields.ts';

export interface AppDeps {
  readonly log: Log;
  readonly access: AccessLog;
  readonly version: string;
  /** How callers' sockets are read; default: what the self-test of this Node finds to work. */
  readonly engine?: SocketEngine;
  /** How names of forward targets are looked up; default: as the system does. */
  readonly lookup?: Lookup;
}

export interface AppAddresses {
  /** By listener name. */
  readonly listeners: Readonly<Record<string, readonly ListenAddress[]>>;
  readonly admin: readonly ListenAddress[];
  readonly probes: readonly ListenAddress[];
}

export interface App {
  /** Where it listens, with real ports. */
  readonly addresses: AppAddresses;
  /** Ends gracefully: not ready, delay, grace, then closed. May be called twice. */
  drain(): Promise<void>;
  /** Ends at once. May be called twice. */
  close(): Promise<void>;
}

/** Heads of upstreams may be larger than callers': Kerberos tokens, many cookies. */
const RESPONSE_LIMITS = { maxBytes: 64 * 1024, maxFields: 500 };

/** Starts the daemon. Rejects with the system's error when a listener cannot be opened. */
export async function startApp(config: Config, deps: AppDeps): Promise<App> {
  const engine = deps.engine ?? (await chooseEngine());
  const daemon = new Daemon(config, deps, engine);
  await daemon.open();
  return daemon;
}

class Daemon implements App {
  readonly #config: Config;
  readonly #deps: AppDeps;
  readonly #engine: SocketEngine;
  readonly #startedAt = systemClock.wall();
  readonly #deadlines = new DeadlineWheel(systemClock);
  readonly #buffers = createReadBuffers();
  readonly #metrics: Metrics;
  readonly #guard: LoginGuard;
  readonly #identities: ReadonlyMap<string, LoginIdentity>;
  readonly #kerberos: KerberosProvider | undefined;
  readonly #targets: ReadonlyMap<string, UpstreamTarget>;
  readonly #pool: Pool<UpstreamConnection, OpeningRequest>;
  readonly #context: RelayContext;
  readonly #viaId = `sidekerb-${randomBytes(6).toString('hex')}`;
  readonly #own = new OwnAddresses();
  readonly #resolver: Resolver;
  readonly #budget: ConnectionBudget;
  readonly #listeners: readonly Listener[];
  readonly #servers: AdminServer[] = [];
  readonly #admin: ListenAddress[] = [];
  readonly #probes: ListenAddress[] = [];
  #state: 'starting' | 'ready' | 'draining' | 'closed' = 'starting';
  #ending: Promise<void> | undefined;

  constructor(config: Config, deps: AppDeps, engine: SocketEngine) {
    this.#config = config;
    this.#deps = deps;
    this.#engine = engine;
    this.#resolver = new Resolver(deps.lookup);
    this.#metrics = createMetrics(config, deps.version);
    this.#metrics.rawSocket.child(engine).set(1);
    this.#guard = new LoginGuard({ clock: systemClock, log: deps.log });
    const generations = new Generations();
    const principals = Object.values(config.principals);
    this.#identities = new Map(
      principals.map((one) => [one.name, createIdentity(one, generations)]),
    );
    this.#targets = new Map(
      Object.values(config.upstreams).map((one) => [one.name, createTarget(one)]),
    );
    this.#kerberos = createKerberos({
      config,
      identities: this.#identities,
      deadlines: this.#deadlines,
      clock: systemClock,
      log: deps.log,
      onHelperRestart: () => this.#metrics.kerberosHelperRestarts.child().add(1),
    });
    this.#pool = this.#createPool();
    this.#context = this.#createContext();
    this.#budget = { limit: config.limits.connections, used: 0 };
    this.#listeners = config.listeners.map((listener) => this.#createListener(listener));
    this.#showGuard();
  }

  get addresses(): AppAddresses {
    const listeners = this.#listeners.map((one) => [one.name, one.addresses.map(listenAddress)]);
    return {
      listeners: Object.fromEntries(listeners) as AppAddresses['listeners'],
      admin: this.#admin,
      probes: this.#probes,
    };
  }

  async open(): Promise<void> {
    this.#deadlines.start();
    try {
      await this.#openAdmin();
      this.#learnOwn([...this.#admin, ...this.#probes]);
      for (const listener of this.#listeners) {
        await listener.open();
        this.#learnOwn(listener.addresses.map(listenAddress));
      }
    } catch (error) {
      await this.close();
      throw error;
    }
    this.#state = 'ready';
  }

  drain(): Promise<void> {
    this.#ending ??= this.#drain();
    return this.#ending;
  }

  async close(): Promise<void> {
    this.#state = 'closed';
    for (const listener of this.#listeners) {
      listener.stopAccepting();
      listener.destroy();
    }
    this.#pool.close();
    await Promise.all(this.#servers.map((server) => server.close()));
    await this.#kerberos?.close();
    this.#deadlines.stop();
  }

  #learnOwn(addresses: readonly ListenAddress[]): void {
    this.#own.learn(addresses.filter((address) => address.kind === 'tcp'));
  }

  async #drain(): Promise<void> {
    const { delay, grace } = this.#config.shutdown;
    this.#state = 'draining';
    if (delay > 0) await after(delay);
    for (const listener of this.#listeners) listener.stopAccepting();
    const drained = Promise.all(this.#listeners.map((listener) => listener.drain()));
    await within(drained, grace);
    await this.close();
  }

  #createPool(): Pool<UpstreamConnection, OpeningRequest> {
    const config = this.#config;
    const guardSettings = new Map(
      Object.values(config.principals).map(({ name, guard }) => [
        name,
        { rejections: guard.rejections, probeAfterMs: guard.probeAfter },
      ]),
    );
    const factory: ConnectionFactory<UpstreamConnection, OpeningRequest> = new ConnectionOpener({
      clock: systemClock,
      deadlines: this.#deadlines,
      sessions: new SessionStore(config.limits.partitions),
      buffers: this.#buffers,
      guard: this.#guard,
      meters: loginMeters(this.#metrics),
      log: this.#deps.log,
      kerberos: this.#kerberos,
      targets: this.#targets,
      guardSettings,
      random: randomBytes,
    });
    const pool = new Pool(
      {
        clock: systemClock,
        deadlines: this.#deadlines,
        factory,
        metrics: poolMetrics(this.#metrics),
        log: this.#deps.log,
      },
      config.limits,
    );
    for (const upstream of Object.values(config.upstreams)) {
      pool.addUpstream(upstream.name, poolLimits(upstream.pool));
    }
    if (config.listeners.some(({ mode }) => mode === 'forward')) {
      pool.addUpstream(DIRECT_UPSTREAM, directLimits(config.limits.upstreamConnections));
    }
    // A login that ended may be what the next one waited for.
    this.#guard.subscribe({ loginEnded: () => pool.reconsider() });
    return pool;
  }

  #createContext(): RelayContext {
    return new RelayContext({
      clock: systemClock,
      deadlines: this.#deadlines,
      pool: this.#pool,
      answers: createAnswerWriter(() => systemClock.wall()),
      log: this.#deps.log,
      via: {
        line11: latin1(`Via: 1.1 ${this.#viaId}\r\n`),
        line10: latin1(`Via: 1.0 ${this.#viaId}\r\n`),
      },
      responseLimits: RESPONSE_LIMITS,
    });
  }

  #createListener(listener: ListenerConfig): Listener {
    const fields = new RequestFields(listener.identityHeaders);
    const { access, log } = this.#deps;
    const { head, idle, body } = listener.timeouts;
    const created: Listener = new Listener(
      {
        name: listener.name,
        addresses: listener.listen,
        socketMode: listener.socketMode,
        perClient: listener.limits.perClient,
        trusted: trustList(listener.forwarded.trust),
      },
      {
        engine: this.#engine,
        log,
        budget: this.#budget,
        buffers: this.#buffers,
        forwarding: (address, trusted) =>
          createForwardingWriter(listener.forwarded.send, { address, trusted, scheme: 'http' }),
        downstream: {
          context: this.#context,
          heads: new SharedRequestHead(fields),
          settings: {
            headMs: head,
            idleMs: idle,
            bodyMs: body,
            limits: { maxBytes: listener.limits.head, maxFields: listener.limits.headers },
          },
          dispatcher: this.#createDispatcher(listener, fields),
          observer: new ListenerObserver({
            metrics: this.#metrics,
            log,
            access,
            listener: listener.name,
            gone: (connection) => created.gone(connection),
          }),
        },
      },
    );
    this.#metrics.onCollect(() =>
      this.#metrics.downstreamConnections.child(listener.name).set(created.connections),
    );
    return created;
  }

  #createDispatcher(listener: ListenerConfig, fields: RequestFields): Dispatcher {
    if (listener.mode === 'reverse') return this.#createReverse(listener, fields);
    const deps = {
      pool: this.#pool,
      metrics: this.#metrics,
      resolver: this.#resolver,
      own: this.#own,
      viaId: this.#viaId,
      keepsText: this.#deps.access.enabled,
    };
    return createForwardDispatcher(deps, listener, fields);
  }

  #createReverse(listener: ReverseListenerConfig, fields: RequestFields): ReverseDispatcher {
    const deps = { pool: this.#pool, metrics: this.#metrics };
    const routes = listener.routes.map((route) => {
      const upstream = this.#config.upstreams[route.upstream];
      const target = this.#targets.get(route.upstream);
      if (upstream === undefined || target === undefined) throw new Error(`no ${route.upstream}`);
      const { principal } = route;
      const identity = principal === undefined ? undefined : this.#identities.get(principal);
      // A principal that does not exist must never mean "nobody" (fail closed).
      if (principal !== undefined && identity === undefined) throw new Error(`no ${principal}`);
      const logsPrincipals = this.#config.log.principals;
      const facts = { listener, route, upstream, target, fields, logsPrincipals };
      return createRoute(deps, { ...facts, identity: identity ?? NO_IDENTITY });
    });
    return new ReverseDispatcher({
      routes: new RouteTable(routes),
      scheme: 'http',
      hosts: listener.listen.every(({ kind }) => kind === 'unix') ? undefined : listener.hosts,
      pageRule: true,
      viaId: this.#viaId,
      keepsText: this.#deps.access.enabled,
    });
  }

  async #openAdmin(): Promise<void> {
    const { admin } = this.#config;
    if (admin === undefined) return;
    const view = this.#view();
    const metrics = createMetricsText(this.#metrics);
    const open = async (
      kind: 'admin' | 'probes',
      listen: readonly ListenAddress[],
      opened: ListenAddress[],
    ): Promise<void> => {
      for (const address of listen) {
        const server = createAdminServer(
          { view, metrics, log: this.#deps.log },
          { kind, listen: adminAddress(address, admin.socketMode), hosts: admin.hosts ?? [] },
        );
        opened.push(listenAddress(await server.listen()));
        this.#servers.push(server);
      }
    };
    await open('admin', admin.listen, this.#admin);
    if (admin.probes !== undefined) await open('probes', admin.probes.listen, this.#probes);
  }

  #view(): AdminView {
    return createAdminView({
      config: this.#config,
      version: this.#deps.version,
      startedAt: this.#startedAt,
      wall: () => systemClock.wall(),
      metrics: this.#metrics,
      pool: this.#pool,
      guard: this.#guard,
      identities: this.#identities,
      listeners: this.#listeners,
      readiness: () => ({
        ready: this.#state === 'ready',
        reasons: this.#state === 'ready' ? [] : [this.#state],
      }),
    });
  }

  #showGuard(): void {
    const states = { closed: 0, 'half-open': 1, open: 2 } as const;
    this.#metrics.onCollect(() => {
      for (const { principal, account, generation } of this.#identities.values()) {
        this.#metrics.credentialGeneration.child(principal).set(generation);
        for (const upstream of Object.keys(this.#config.upstreams)) {
          const state = this.#guard.state(account, upstream, generation);
          this.#metrics.guardState.child(principal, upstream).set(states[state]);
        }
      }
    });
  }
}

function createMetrics(config: Config, version: string): Metrics {
  return new Metrics({
    listeners: config.listeners.map(({ name }) => name),
    upstreams: Object.keys(config.upstreams),
    principals: Object.keys(config.principals),
    version,
  });
}

function listenAddress(address: string | { address: string; port: number }): ListenAddress {
  if (typeof address === 'string') return { kind: 'unix', path: address };
  const { address: host, port } = address;
  return { kind: 'tcp', host, port, loopback: host === '::1' || host.startsWith('127.') };
}

const after = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

/** Settles with `work`, or after `ms`; no timer is left behind to keep the process alive. */
async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, ms);
  await Promise.race([work, late.promise]);
  clearTimeout(timer);
}
