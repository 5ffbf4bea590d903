/**
 * One listener: its sockets, the connections on them, and their end.
 *
 * Accepting, limits per process and per caller, and draining are decided here; what is said on a
 * connection is relay/'s. Settings and sockets may be exchanged while connections are open: they
 * count from the next accept, and from the next request of each connection on.
 */
import type { AddressInfo, Socket } from 'node:net';
import type { AddressList } from '../config/address-list.ts';
import { ProxyError } from '../errors.ts';
import {
  type Dispatcher,
  Downstream,
  type DownstreamDeps,
  type DownstreamObserver,
  type DownstreamSettings,
} from '../relay/downstream.ts';
import type { RelayContext, SharedRequestHead } from '../relay/context.ts';
import type { ForwardingWriter } from '../relay/plan.ts';
import type { ReadBuffers } from '../transport/transport.ts';
import type { ListenSocket } from './listen-socket.ts';
import { acceptTransport, type SocketEngine } from './raw-socket.ts';

/** What one configuration makes of a listener. */
export interface ListenerScene {
  /** Connections per caller address; 0: no limit. */
  readonly perClient: number;
  /** Callers whose forwarding fields are believed. */
  readonly trusted: AddressList;
  readonly forwarding: (address: string | undefined, trusted: boolean) => ForwardingWriter;
  readonly heads: SharedRequestHead;
  readonly dispatcher: Dispatcher;
  readonly settings: DownstreamSettings;
}

export interface ListenerDeps {
  readonly engine: SocketEngine;
  readonly context: RelayContext;
  /** Told of everything; calls `gone` when a connection is. */
  readonly observer: DownstreamObserver;
  readonly buffers: ReadBuffers;
  /** Connections of all listeners; asked and told. */
  readonly budget: ConnectionBudget;
}

/** Connections of callers in all, over all listeners. */
export interface ConnectionBudget {
  limit: number;
  used: number;
}

const UNIX = 'unix';
/** Connections that are told why they are not served; more are closed without a word. */
const MAX_TURNED_AWAY = 256;

/** Where a connection came from. */
interface Origin {
  readonly socket: ListenSocket;
  readonly address: string | undefined;
}

interface LatestWriter {
  readonly scene: ListenerScene;
  readonly address: string | undefined;
  readonly writer: ForwardingWriter;
}

export class Listener {
  readonly name: string;
  readonly #deps: ListenerDeps;
  /** Read by each connection at its next request. */
  readonly #downstream: { -readonly [K in keyof DownstreamDeps]: DownstreamDeps[K] };
  #scene: ListenerScene;
  #latest: LatestWriter | undefined;
  #sockets: readonly ListenSocket[] = [];
  readonly #connections = new Map<Downstream, Origin>();
  /** Refused and not gone yet. They take no place of those that are served. */
  readonly #turnedAway = new Set<Downstream>();
  readonly #perAddress = new Map<string, number>();
  /** Told when no connection is left. */
  readonly #drained: (() => void)[] = [];

  constructor(name: string, scene: ListenerScene, deps: ListenerDeps) {
    this.name = name;
    this.#scene = scene;
    this.#deps = deps;
    const { heads, dispatcher, settings } = scene;
    const { context, observer } = deps;
    this.#downstream = { context, observer, heads, dispatcher, settings };
  }

  /** Connections that are served now. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Where it listens. */
  get addresses(): (AddressInfo | string)[] {
    return this.#sockets.map(({ address }) => address).filter((address) => address !== null);
  }

  /** Serves these sockets. Connections from others that it had are drained. */
  listen(sockets: readonly ListenSocket[]): void {
    this.#sockets = sockets;
    for (const socket of sockets) socket.serve((accepted) => this.#accept(accepted, socket));
    for (const [connection, { socket }] of this.#connections) {
      if (!sockets.includes(socket)) connection.drain();
    }
  }

  /** The scene from now on. A request whose head has begun keeps the one it began in. */
  change(scene: ListenerScene): void {
    this.#scene = scene;
    this.#downstream.heads = scene.heads;
    this.#downstream.dispatcher = scene.dispatcher;
    this.#downstream.settings = scene.settings;
    for (const [connection, { address }] of this.#connections) {
      connection.forwarding = this.#forwarding(address);
    }
  }

  stopAccepting(): void {
    for (const socket of this.#sockets) socket.close();
  }

  /** Lets each connection end after the request in work. Resolves when all are gone. */
  drain(): Promise<void> {
    for (const connection of this.#connections.keys()) connection.drain();
    if (this.#connections.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#drained.push(resolve);
    });
  }

  /** Closes what is left at once. */
  destroy(): void {
    for (const connection of this.#connections.keys()) connection.destroy();
    for (const connection of this.#turnedAway) connection.destroy();
  }

  /** Called when a connection is gone. */
  gone(connection: Downstream): void {
    if (this.#turnedAway.delete(connection) || !this.#connections.delete(connection)) return;
    this.#deps.budget.used -= 1;
    const left = (this.#perAddress.get(connection.remoteAddress) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(connection.remoteAddress);
    else this.#perAddress.set(connection.remoteAddress, left);
    if (this.#connections.size > 0) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  #accept(accepted: Socket, socket: ListenSocket): void {
    const address = accepted.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
    const key = address ?? UNIX;
    const transport = acceptTransport(this.#deps.engine, accepted, this.#deps.buffers);
    const connection = new Downstream(this.#downstream, transport, key, this.#forwarding(address));
    const refusal = this.#admit(key);
    if (refusal === undefined) {
      this.#connections.set(connection, { socket, address });
      return;
    }
    this.#turnedAway.add(connection);
    if (this.#turnedAway.size > MAX_TURNED_AWAY) connection.destroy();
    else connection.refuse(refusal);
  }

  /** Most callers of a listener come from few addresses: the latest one's writer is kept. */
  #forwarding(address: string | undefined): ForwardingWriter {
    const latest = this.#latest;
    if (latest?.scene === this.#scene && latest.address === address) return latest.writer;
    const { trusted, forwarding } = this.#scene;
    const writer = forwarding(address, address !== undefined && trusted.includes(address));
    this.#latest = { scene: this.#scene, address, writer };
    return writer;
  }

  /** Counts a connection of the caller `key`, or says why it is not served. */
  #admit(key: string): ProxyError | undefined {
    const { budget } = this.#deps;
    const { perClient } = this.#scene;
    const ofAddress = this.#perAddress.get(key) ?? 0;
    const facts = { side: 'downstream', stage: 'connect' } as const;
    if (budget.used >= budget.limit) {
      return new ProxyError('connection-limit', 'too many connections in all', facts);
    }
    if (perClient > 0 && ofAddress >= perClient) {
      return new ProxyError('client-limit', 'too many connections of this caller', facts);
    }
    budget.used += 1;
    this.#perAddress.set(key, ofAddress + 1);
    return undefined;
  }
}
