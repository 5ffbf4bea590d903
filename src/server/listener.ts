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
import { type SecureConnection, TlsAcceptor, type TlsObserver } from './tls-acceptor.ts';
import type { ListenerTls } from './tls-profile.ts';

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
  /** undefined: callers speak plain HTTP. */
  readonly tls: ListenerTls | undefined;
}

export interface ListenerDeps {
  readonly engine: SocketEngine;
  readonly context: RelayContext;
  /** Told of everything; calls `gone` when a connection is. */
  readonly observer: DownstreamObserver;
  readonly tlsObserver: TlsObserver;
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
  /** Under which certificates its handshake was; undefined: plain HTTP. */
  readonly tls: ListenerTls | undefined;
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
  /** Sockets of TLS connections, with the key that each is counted under, from accept to close. */
  readonly #secured = new Map<Socket, string>();
  readonly #acceptors = new Map<ListenSocket, TlsAcceptor>();
  #draining = false;
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
    for (const socket of this.#acceptors.keys()) {
      if (!sockets.includes(socket)) this.#acceptors.delete(socket);
    }
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
    for (const [connection, { address, tls }] of this.#connections) {
      connection.forwarding = this.#forwarding(address);
      // Who was let in under other authorities has to show himself again (R51).
      const isOther = tls?.trust !== scene.tls?.trust;
      if (isOther || (tls === undefined) !== (scene.tls === undefined)) connection.drain();
    }
  }

  stopAccepting(): void {
    for (const socket of this.#sockets) socket.close();
  }

  /** Lets each connection end after the request in work. Resolves when all are gone. */
  drain(): Promise<void> {
    this.#draining = true;
    for (const connection of this.#connections.keys()) connection.drain();
    // A socket that was opened for later says nothing; a handshake in work goes on, and ends then.
    for (const socket of this.#secured.keys()) if (socket.bytesRead === 0) socket.destroy();
    if (this.#isEmpty) return Promise.resolve();
    return new Promise((resolve) => {
      this.#drained.push(resolve);
    });
  }

  /** Closes what is left at once. */
  destroy(): void {
    for (const connection of this.#connections.keys()) connection.destroy();
    for (const connection of this.#turnedAway) connection.destroy();
    for (const socket of this.#secured.keys()) socket.destroy();
  }

  /** Called when a connection is gone. */
  gone(connection: Downstream): void {
    const origin = this.#connections.get(connection);
    if (this.#turnedAway.delete(connection) || origin === undefined) return;
    this.#connections.delete(connection);
    // The place of a TLS connection is its socket's.
    if (origin.tls === undefined) this.#leave(connection.remoteAddress);
    this.#tellDrained();
  }

  get #isEmpty(): boolean {
    return this.#connections.size === 0 && this.#secured.size === 0;
  }

  #tellDrained(): void {
    if (!this.#isEmpty) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  /** Gives the place of a caller `key` back. */
  #leave(key: string): void {
    this.#deps.budget.used -= 1;
    const left = (this.#perAddress.get(key) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(key);
    else this.#perAddress.set(key, left);
  }

  #accept(accepted: Socket, socket: ListenSocket): void {
    const address = addressOf(accepted);
    const key = address ?? UNIX;
    const { tls } = this.#scene;
    if (tls !== undefined) {
      this.#acceptSecure(accepted, socket, key);
      return;
    }
    const transport = acceptTransport(this.#deps.engine, accepted, this.#deps.buffers);
    const connection = new Downstream(this.#downstream, transport, key, this.#forwarding(address));
    const refusal = this.#admit(key);
    if (refusal === undefined) {
      this.#connections.set(connection, { socket, address, tls });
      return;
    }
    this.#turnedAway.add(connection);
    if (this.#turnedAway.size > MAX_TURNED_AWAY) connection.destroy();
    else connection.refuse(refusal);
  }

  // A handshake costs more than an answer: who has no place gets none, and so no answer either.
  #acceptSecure(accepted: Socket, socket: ListenSocket, key: string): void {
    if (this.#admit(key) !== undefined) {
      accepted.destroy();
      return;
    }
    this.#secured.set(accepted, key);
    accepted.once('close', () => {
      this.#secured.delete(accepted);
      this.#leave(key);
      this.#tellDrained();
    });
    this.#acceptorOf(socket)?.accept(accepted);
  }

  #acceptorOf(socket: ListenSocket): TlsAcceptor | undefined {
    const { tls } = this.#scene;
    const known = this.#acceptors.get(socket);
    if (tls === undefined || known?.profile === tls) return known;
    const acceptor: TlsAcceptor = new TlsAcceptor(tls, this.#deps.tlsObserver, (connection) =>
      this.#secure(connection, socket, tls),
    );
    this.#acceptors.set(socket, acceptor);
    return acceptor;
  }

  #secure(
    { socket: secure, certificate }: SecureConnection,
    from: ListenSocket,
    tls: ListenerTls,
  ): void {
    // The authorities changed during the handshake.
    if (tls.trust !== this.#scene.tls?.trust) {
      secure.destroy();
      return;
    }
    const address = addressOf(secure);
    const transport = acceptTransport('public', secure, this.#deps.buffers);
    const key = address ?? UNIX;
    const connection = new Downstream(this.#downstream, transport, key, this.#forwarding(address));
    connection.certificate = certificate;
    this.#connections.set(connection, { socket: from, address, tls });
    if (this.#draining || !this.#sockets.includes(from)) connection.drain();
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

/** Without the form of IPv6 that IPv4 has on sockets for both; undefined on unix sockets. */
const addressOf = (socket: Socket): string | undefined =>
  socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
