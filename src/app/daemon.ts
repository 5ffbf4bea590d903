/**
 * The order of start and end. Everything that needs no network is made before a port opens (I8);
 * listeners open last, all or none. Draining: not ready at once, accept for `shutdown.delay`, then
 * let requests end for `grace`.
 */
import { createAdminServer, type AdminServer } from '../admin/admin-server.ts';
import type { AdminView } from '../admin/view.ts';
import type { ListenAddress } from '../config/config.ts';
import { GUARD_STATES } from '../metrics/label-words.ts';
import { createMetricsText } from '../metrics/prometheus.ts';
import type { Listener } from '../server/listener.ts';
import { adminAddress, createAdminView } from './admin-view.ts';
import type { App, AppAddresses } from './contract.ts';
import { type Generation, putInForce } from './generation.ts';
import { createListener, listenAddress } from './listeners.ts';
import type { Runtime } from './runtime.ts';

export class Daemon implements App {
  readonly #runtime: Runtime;
  readonly #generation: Generation;
  readonly #listeners: readonly Listener[];
  readonly #servers: AdminServer[] = [];
  readonly #admin: ListenAddress[] = [];
  readonly #probes: ListenAddress[] = [];
  #state: 'starting' | 'ready' | 'draining' | 'closed' = 'starting';
  #ending: Promise<void> | undefined;

  constructor(runtime: Runtime, generation: Generation) {
    this.#runtime = runtime;
    this.#generation = generation;
    putInForce(generation, runtime);
    this.#listeners = generation.config.listeners.map((listener) =>
      createListener(listener, generation, runtime),
    );
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

  /** Opens every address, or none: rejects with what the system said of the first that failed. */
  async open(): Promise<void> {
    this.#runtime.deadlines.start();
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
    this.#runtime.pool.close();
    await Promise.all(this.#servers.map((server) => server.close()));
    await this.#runtime.close();
  }

  #learnOwn(addresses: readonly ListenAddress[]): void {
    this.#runtime.own.learn(addresses.filter((address) => address.kind === 'tcp'));
  }

  async #drain(): Promise<void> {
    const { delay, grace } = this.#generation.config.shutdown;
    this.#state = 'draining';
    if (delay > 0) await after(delay);
    for (const listener of this.#listeners) listener.stopAccepting();
    const drained = Promise.all(this.#listeners.map((listener) => listener.drain()));
    await within(drained, grace);
    await this.close();
  }

  async #openAdmin(): Promise<void> {
    const { admin } = this.#generation.config;
    if (admin === undefined) return;
    const view = this.#view();
    const metrics = createMetricsText(this.#runtime.metrics);
    const open = async (
      kind: 'admin' | 'probes',
      listen: readonly ListenAddress[],
      opened: ListenAddress[],
    ): Promise<void> => {
      for (const address of listen) {
        const server = createAdminServer(
          { view, metrics, log: this.#runtime.log },
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
      runtime: this.#runtime,
      generation: () => this.#generation,
      listeners: () => this.#listeners,
      readiness: () => ({
        ready: this.#state === 'ready',
        reasons: this.#state === 'ready' ? [] : [this.#state],
      }),
    });
  }

  #showGuard(): void {
    const { metrics, guard } = this.#runtime;
    metrics.onCollect(() => {
      const { identities, config } = this.#generation;
      for (const { principal, account, generation } of identities.values()) {
        metrics.credentialGeneration.child(principal).set(generation);
        for (const upstream of Object.keys(config.upstreams)) {
          const state = guard.state(account, upstream, generation);
          metrics.guardState.child(principal, upstream).set(GUARD_STATES[state]);
        }
      }
    });
  }
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
