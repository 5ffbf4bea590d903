/**
 * The order of start and end. Everything that needs no network is made before a port opens (I8);
 * listeners open last, all or none. Draining: not ready at once, accept for `shutdown.delay`, then
 * let requests end for `grace`.
 */
import { createAdminServer, type AdminServer } from '../admin/admin-server.ts';
import type { AdminView, ReloadReport } from '../admin/view.ts';
import type { ListenAddress } from '../config/config.ts';
import type { LoadResult } from '../config/load.ts';
import { GUARD_STATES } from '../metrics/label-words.ts';
import { createMetricsText } from '../metrics/prometheus.ts';
import { adminAddress, createAdminView } from './admin-view.ts';
import type { App, AppAddresses, Reloadable, ReloadCause } from './contract.ts';
import { admitCallers, type Generation, putInForce } from './generation.ts';
import { listenAddress, Listeners, preparedAddresses } from './listeners.ts';
import { reload, type ReloadDeps } from './reload.ts';
import type { Runtime } from './runtime.ts';
import { ConfigWatch } from './watch.ts';

export class Daemon implements App {
  readonly #runtime: Runtime;
  readonly #source: Reloadable | undefined;
  readonly #watch: ConfigWatch | undefined;
  readonly #reloads: ReloadDeps;
  readonly #listeners: Listeners;
  #generation: Generation;
  readonly #servers: AdminServer[] = [];
  readonly #admin: ListenAddress[] = [];
  readonly #probes: ListenAddress[] = [];
  #state: 'starting' | 'ready' | 'draining' | 'closed' = 'starting';
  #ending: Promise<void> | undefined;
  /** The last reload that was asked for. */
  #reloading: Promise<unknown> = Promise.resolve();

  /** Without a `source` there is no reload. */
  constructor(runtime: Runtime, generation: Generation, source?: Reloadable) {
    this.#runtime = runtime;
    this.#source = source;
    this.#generation = generation;
    this.#listeners = new Listeners(runtime);
    putInForce(generation, runtime);
    admitCallers(generation, runtime);
    const { deadlines } = runtime;
    if (source !== undefined) {
      this.#watch = new ConfigWatch({ source, deadlines, changed: () => this.reload('watch') });
    }
    this.#reloads = {
      runtime,
      listeners: this.#listeners,
      started: generation.config,
      current: () => this.#generation,
      accept: (next, addresses) => this.#accept(next, addresses),
      refusal: () => (this.#state === 'ready' ? undefined : `the daemon is ${this.#state}`),
    };
    this.#showGuard();
  }

  get addresses(): AppAddresses {
    const all = this.#listeners.all;
    const listeners = all.map((one) => [one.name, one.addresses.map(listenAddress)]);
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
      const prepared = await this.#listeners.prepare(this.#generation);
      this.#accept(this.#generation, preparedAddresses(prepared));
      this.#listeners.commit(prepared, 0);
    } catch (error) {
      await this.close();
      throw error;
    }
    this.#state = 'ready';
    this.#watch?.follow(this.#generation.config.watch);
  }

  reload(cause: ReloadCause): Promise<ReloadReport> {
    const running = this.#reloading.then(() => this.#reload(cause));
    this.#reloading = running;
    return running;
  }

  drain(): Promise<void> {
    this.#ending ??= this.#drain();
    return this.#ending;
  }

  async close(): Promise<void> {
    this.#state = 'closed';
    this.#watch?.follow(false);
    this.#source?.close();
    this.#listeners.destroy();
    this.#generation.callerSources.end();
    this.#runtime.pool.close();
    await Promise.all(this.#servers.map((server) => server.close()));
    await this.#runtime.close();
  }

  async #reload(cause: ReloadCause): Promise<ReloadReport> {
    const source = this.#source;
    const load = async (): Promise<LoadResult> => {
      if (source === undefined) throw new Error('there is no file to read again');
      return await source.load();
    };
    const report = await reload(this.#reloads, load, cause);
    if (this.#state === 'ready') this.#watch?.follow(this.#generation.config.watch);
    return report;
  }

  #accept(next: Generation, addresses: readonly ListenAddress[]): void {
    this.#generation = next;
    const all = [...addresses, ...this.#admin, ...this.#probes];
    this.#runtime.own.replace(all.filter((address) => address.kind === 'tcp'));
  }

  async #drain(): Promise<void> {
    const { delay, grace } = this.#generation.config.shutdown;
    this.#state = 'draining';
    this.#watch?.follow(false);
    if (delay > 0) await after(delay);
    this.#listeners.stopAccepting();
    await within(this.#listeners.drain(), grace);
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
      listeners: () => this.#listeners.all,
      reload: () => this.reload('api'),
      readiness: () => {
        const reasons = this.#reasons();
        return { ready: reasons.length === 0, reasons };
      },
    });
  }

  /** Why the daemon is not ready. Keys that were loaded once never count again. */
  #reasons(): string[] {
    if (this.#state !== 'ready') return [this.#state];
    const { unloaded } = this.#generation.callerSources;
    return unloaded.map((issuer) => `the keys of ${issuer} are not loaded yet`);
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
