/**
 * The listeners of the process: which sockets a configuration needs, who serves them, and how those
 * that nobody names any more end.
 *
 * A socket is found again by its address, caller connections by the name of their listener. New
 * sockets open before anything changes; they wait, and go away again if one of them cannot be opened.
 */
import { AddressList } from '../config/address-list.ts';
import type { ListenAddress, ListenerConfig } from '../config/config.ts';
import { createForwardingWriter } from '../proxy/forwarding.ts';
import { requestFieldsOf } from '../proxy/plans.ts';
import { ListenerObserver } from '../proxy/observer.ts';
import { SharedRequestHead } from '../relay/context.ts';
import { addressText, ListenSocket } from '../server/listen-socket.ts';
import { Listener, type ListenerScene } from '../server/listener.ts';
import type { TlsObserver } from '../server/tls-acceptor.ts';
import { createCallers } from './callers.ts';
import { createDispatcher } from './dispatchers.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

/** What one configuration needs, opened and not in force. */
export interface PreparedListeners {
  /** In the order of the configuration. */
  readonly listeners: readonly PreparedListener[];
  /** Sockets that were opened for it. */
  readonly opened: readonly ListenSocket[];
}

interface PreparedListener {
  readonly config: ListenerConfig;
  readonly scene: ListenerScene;
  readonly sockets: readonly ListenSocket[];
}

/** Addresses that a configuration opened and closed, as text. */
export interface ListenChanges {
  readonly opened: readonly string[];
  readonly closed: readonly string[];
}

export class Listeners {
  readonly #runtime: Runtime;
  readonly #byName = new Map<string, Listener>();
  readonly #sockets = new Map<ListenSocket, string>();
  /** Out of the configuration, with connections that end. */
  readonly #leaving = new Set<Listener>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    runtime.metrics.onCollect(() => this.#count());
  }

  /** Those of the configuration in force. */
  get all(): readonly Listener[] {
    return [...this.#byName.values()];
  }

  /** Opens what is missing for `generation`. Rejects with what the system said, and leaves nothing open. */
  async prepare(generation: Generation): Promise<PreparedListeners> {
    const { config } = generation;
    const speaksHttp2 = config.listeners.some(({ http2 }) => http2);
    const carrier = speaksHttp2 ? await this.#runtime.carrier() : undefined;
    const scenes = config.listeners.map((one) => ({
      ...createScene(one, generation, this.#runtime),
      carrier: one.http2 ? carrier : undefined,
    }));
    const free = new SocketsToTake(this.#sockets);
    const kept = config.listeners.map(({ name, listen }) =>
      listen.map((address) => free.take(address, name)),
    );
    const opened: ListenSocket[] = [];
    const listeners: PreparedListener[] = [];
    try {
      for (const [at, listener] of config.listeners.entries()) {
        const sockets: ListenSocket[] = [];
        for (const [index, address] of listener.listen.entries()) {
          const known = kept[at]?.[index] ?? free.take(address, undefined);
          const socket =
            known ?? (await ListenSocket.open(address, listener.socketMode, this.#runtime));
          if (known === undefined) opened.push(socket);
          sockets.push(socket);
        }
        const scene = scenes[at];
        if (scene !== undefined) listeners.push({ config: listener, scene, sockets });
      }
    } catch (error) {
      for (const socket of opened) socket.close();
      throw error;
    }
    return { listeners, opened };
  }

  /** Takes back what `prepare` opened. */
  discard({ opened }: PreparedListeners): void {
    for (const socket of opened) socket.close();
  }

  /**
   * Puts what was prepared in force; `graceMs` is what connections of listeners that are gone have
   * left.
   */
  commit({ listeners, opened }: PreparedListeners, graceMs: number): ListenChanges {
    const before = new Map(this.#byName);
    const outdated = new Set(this.#sockets.keys());
    this.#byName.clear();
    this.#sockets.clear();
    for (const { config, scene, sockets } of listeners) {
      const listener = before.get(config.name) ?? createListener(config.name, scene, this.#runtime);
      before.delete(config.name);
      listener.change(scene);
      listener.listen(sockets);
      this.#byName.set(config.name, listener);
      for (const socket of sockets) {
        outdated.delete(socket);
        this.#sockets.set(socket, config.name);
        this.#setMode(socket, config);
      }
      this.#showEnd(config);
    }
    for (const socket of outdated) socket.close();
    for (const listener of before.values()) void this.#leave(listener, graceMs);
    const names = (sockets: Iterable<ListenSocket>): string[] =>
      Array.from(sockets, ({ wanted }) => addressText(wanted));
    return { opened: names(opened), closed: names(outdated) };
  }

  stopAccepting(): void {
    for (const socket of this.#sockets.keys()) socket.close();
  }

  /** Resolves when every connection has ended. */
  async drain(): Promise<void> {
    const listeners = [...this.#byName.values(), ...this.#leaving];
    await Promise.all(listeners.map((listener) => listener.drain()));
  }

  /** Ends everything at once. */
  destroy(): void {
    this.stopAccepting();
    for (const listener of [...this.#byName.values(), ...this.#leaving]) listener.destroy();
  }

  async #leave(listener: Listener, graceMs: number): Promise<void> {
    this.#leaving.add(listener);
    listener.listen([]);
    const late = setTimeout(() => listener.destroy(), graceMs).unref();
    await listener.drain();
    clearTimeout(late);
    this.#leaving.delete(listener);
    if (!this.#byName.has(listener.name)) this.#runtime.metrics.removeListener(listener.name);
  }

  #showEnd({ name, tls }: ListenerConfig): void {
    const { certificateNotAfter } = this.#runtime.metrics;
    // A listener that shows none must not look as if its certificate had ended long ago.
    if (tls === undefined) certificateNotAfter.removeWhere('listener', name);
    else {
      const ends = Math.min(...tls.certificates.map(({ notAfterMs }) => notAfterMs));
      certificateNotAfter.child(name).set(ends / 1000);
    }
  }

  #setMode(socket: ListenSocket, { name, socketMode }: ListenerConfig): void {
    try {
      socket.setMode(socketMode);
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#runtime.log.error({ listener: name, reason }, 'the mode of a socket stays as it was');
    }
  }

  #count(): void {
    const counts = new Map<string, number>();
    for (const { name, connections } of [...this.#byName.values(), ...this.#leaving]) {
      counts.set(name, (counts.get(name) ?? 0) + connections);
    }
    const { downstreamConnections } = this.#runtime.metrics;
    for (const [name, count] of counts) downstreamConnections.child(name).set(count);
  }
}

/** Sockets that are open, each to be taken once. */
class SocketsToTake {
  readonly #sockets: Map<ListenSocket, string>;

  constructor(sockets: ReadonlyMap<ListenSocket, string>) {
    this.#sockets = new Map(sockets);
  }

  /** One with this address of the listener `name`, or of any. A port of the system's choice is its listener's. */
  take(address: ListenAddress, name: string | undefined): ListenSocket | undefined {
    if (name === undefined && address.kind === 'tcp' && address.port === 0) return undefined;
    const text = addressText(address);
    for (const [socket, owner] of this.#sockets) {
      if (addressText(socket.wanted) !== text || (name !== undefined && owner !== name)) continue;
      this.#sockets.delete(socket);
      return socket;
    }
    return undefined;
  }
}

function createListener(name: string, scene: ListenerScene, runtime: Runtime): Listener {
  const { engine, access, log, budget, buffers, context, metrics } = runtime;
  const observer = new ListenerObserver({
    metrics,
    log,
    access,
    listener: name,
    gone: (connection) => created.gone(connection),
  });
  const handshakes = metrics.tlsHandshakes;
  const tlsObserver: TlsObserver = {
    handshake: (result) => handshakes.child(name, result).add(),
  };
  const deps = { engine, context, observer, tlsObserver, buffers, budget };
  const created = new Listener(name, scene, deps);
  return created;
}

function createScene(
  listener: ListenerConfig,
  generation: Generation,
  runtime: Runtime,
): Omit<ListenerScene, 'carrier'> {
  const fields = requestFieldsOf(listener, generation.config.listeners);
  const tls = generation.tls.get(listener.name);
  const scheme = tls === undefined ? 'http' : 'https';
  const callers = createCallers(generation, runtime, listener, fields);
  const { head, idle, body } = listener.timeouts;
  return {
    perClient: listener.limits.perClient,
    trusted: new AddressList(listener.forwarded.trust),
    forwarding: (address, trusted) =>
      createForwardingWriter(listener.forwarded.send, { address, trusted, scheme }),
    tls,
    heads: new SharedRequestHead(fields),
    dispatcher: createDispatcher(generation, runtime, listener, { fields, callers }),
    settings: {
      headMs: head,
      idleMs: idle,
      bodyMs: body,
      limits: { maxBytes: listener.limits.head, maxFields: listener.limits.headers },
      challenge: callers?.check.challenge,
    },
  };
}

/** Where the listeners of a configuration listen, with real ports. */
export const preparedAddresses = ({ listeners }: PreparedListeners): ListenAddress[] =>
  listeners.flatMap(({ sockets }) =>
    sockets.flatMap(({ address }) => address ?? []).map(listenAddress),
  );

/** What a server says of its address, as the configuration writes it. */
export function listenAddress(address: string | { address: string; port: number }): ListenAddress {
  if (typeof address === 'string') return { kind: 'unix', path: address };
  const { address: host, port } = address;
  return { kind: 'tcp', host, port, loopback: host === '::1' || host.startsWith('127.') };
}
