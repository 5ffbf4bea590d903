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
import type { ClientCertificate } from '../identity/client-certificate.ts';
import {
  type Dispatcher,
  Downstream,
  type DownstreamDeps,
  type DownstreamObserver,
  type DownstreamSettings,
} from '../relay/downstream.ts';
import type { RelayContext, SharedRequestHead } from '../relay/context.ts';
import type { ForwardingWriter } from '../relay/plan.ts';
import type { SocketEnd } from '../transport/socket-pair.ts';
import { type ReadBuffers, Transport } from '../transport/transport.ts';
import { AddressCounts } from './address-counts.ts';
import { CallerSession } from './http2/caller-session.ts';
import type { Carrier } from './http2/carrier.ts';
import type { ListenSocket } from './listen-socket.ts';
import { PrefaceReader } from './preface.ts';
import { acceptTransport, NOBODY, type SocketEngine } from './raw-socket.ts';
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
  /** For callers of HTTP/2: by ALPN, or without TLS from the first byte on; undefined: HTTP/1.1 alone. */
  readonly carrier: Carrier | undefined;
  /** undefined: callers speak without TLS. */
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
  /** The address as it is counted and logged. */
  readonly key: string;
  /** Under which certificates its handshake was; undefined: without TLS. */
  readonly tls: ListenerTls | undefined;
  /** What the caller showed in it. */
  readonly certificate: ClientCertificate | undefined;
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
  readonly #connections = new Map<Downstream | CallerSession | PrefaceReader, Origin>();
  /** Sockets of TLS connections, from accept to close; each has the place of its connection. */
  readonly #secured = new Set<Socket>();
  readonly #acceptors = new Map<ListenSocket, TlsAcceptor>();
  #isDraining = false;
  /** Refused and not gone yet. They take no place of those that are served. */
  readonly #turnedAway = new Set<Downstream>();
  readonly #perAddress = new AddressCounts();
  /** Requests on HTTP/2 connections; elsewhere a connection has one at a time. */
  readonly #streams = new AddressCounts();
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
      // Who was let in under other authorities has to show himself again (R51).
      const isOther = tls?.trust !== scene.tls?.trust;
      if (isOther || (tls === undefined) !== (scene.tls === undefined)) connection.drain();
      if (!(connection instanceof PrefaceReader)) connection.forwarding = this.#forwarding(address);
    }
  }

  stopAccepting(): void {
    for (const socket of this.#sockets) socket.close();
  }

  /** Lets each connection end after the request in work. Resolves when all are gone. */
  drain(): Promise<void> {
    this.#isDraining = true;
    for (const connection of this.#connections.keys()) connection.drain();
    // A socket that was opened for later says nothing; a handshake in work goes on, and ends then.
    for (const socket of this.#secured) if (socket.bytesRead === 0) socket.destroy();
    if (this.#isEmpty) return Promise.resolve();
    return new Promise((resolve) => {
      this.#drained.push(resolve);
    });
  }

  /** Closes what is left at once. */
  destroy(): void {
    for (const connection of this.#connections.keys()) connection.destroy();
    for (const connection of this.#turnedAway) connection.destroy();
    for (const socket of this.#secured) socket.destroy();
  }

  /** Called when a connection is gone. */
  gone(connection: Downstream | CallerSession | PrefaceReader): void {
    const origin = this.#connections.get(connection);
    if (origin === undefined) {
      if (!(connection instanceof Downstream)) return;
      if (connection.multiplexed) this.#streams.remove(connection.remoteAddress);
      else this.#turnedAway.delete(connection);
      return;
    }
    this.#connections.delete(connection);
    // The place of a TLS connection is its socket's.
    if (origin.tls === undefined) this.#leave(origin.key);
    this.#tellDrained();
  }

  get #isEmpty(): boolean {
    return this.#connections.size === 0 && this.#secured.size === 0;
  }

  #tellDrained(): void {
    if (!this.#isEmpty) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  #accept(accepted: Socket, socket: ListenSocket): void {
    const address = addressOf(accepted);
    const origin = {
      socket,
      address,
      key: address ?? UNIX,
      tls: undefined,
      certificate: undefined,
    };
    const refusal = this.#admit(origin.key);
    if (this.#scene.tls !== undefined) {
      // A handshake costs more than an answer: who has no place gets none, and so no answer either.
      if (refusal === undefined) this.#acceptSecure(accepted, origin, this.#scene.tls);
      else accepted.destroy();
      return;
    }
    if (refusal !== undefined) this.#turnAway(this.#http1(accepted, origin), refusal);
    else if (this.#scene.carrier !== undefined) this.#askVersion(accepted, origin);
    else this.#connections.set(this.#http1(accepted, origin), origin);
  }

  #acceptSecure(accepted: Socket, { socket, key }: Origin, tls: ListenerTls): void {
    this.#secured.add(accepted);
    accepted.once('close', () => {
      this.#secured.delete(accepted);
      this.#leave(key);
      this.#tellDrained();
    });
    let acceptor = this.#acceptors.get(socket);
    if (acceptor?.profile !== tls) {
      const { tlsObserver } = this.#deps;
      acceptor = new TlsAcceptor(tls, tlsObserver, (secure) => this.#serve(secure, socket, tls));
      this.#acceptors.set(socket, acceptor);
    }
    acceptor.accept(accepted);
  }

  /** A handshake is done; its socket has a place. */
  #serve(secure: SecureConnection, from: ListenSocket, tls: ListenerTls): void {
    const { socket, certificate } = secure;
    // The listener changed during the handshake: its authorities, or to plain HTTP; or it ends.
    const now = this.#scene.tls;
    if (now === undefined || now.trust !== tls.trust || this.#isDraining) {
      socket.destroy();
      return;
    }
    const address = addressOf(socket);
    const origin = { socket: from, address, key: address ?? UNIX, tls, certificate };
    if (secure.protocol === 'h2') this.#serveHttp2(socket, origin);
    else this.#connections.set(this.#http1(socket, origin, 'public'), origin);
    if (this.#sockets.includes(from)) return;
    for (const [connection, other] of this.#connections) if (other === origin) connection.drain();
  }

  #turnAway(connection: Downstream, refusal: ProxyError): void {
    this.#turnedAway.add(connection);
    if (this.#turnedAway.size > MAX_TURNED_AWAY) connection.destroy();
    else connection.refuse(refusal);
  }

  #http1(
    accepted: Socket,
    { key, address, certificate }: Origin,
    engine: SocketEngine = this.#deps.engine,
  ): Downstream {
    const transport = acceptTransport(engine, accepted, this.#deps.buffers);
    const forwarding = this.#forwarding(address);
    const connection = new Downstream(this.#downstream, transport, key, forwarding);
    connection.certificate = certificate;
    return connection;
  }

  /** Waits for the first bytes of an admitted connection. */
  #askVersion(accepted: Socket, origin: Origin): void {
    const reader = new PrefaceReader(accepted, {
      deadlines: this.#deps.context.deadlines,
      headMs: this.#scene.settings.headMs,
      told: (version, first) => {
        this.#connections.delete(reader);
        if (version === 'http2') {
          accepted.unshift(first);
          this.#serveHttp2(accepted, origin);
          return;
        }
        const connection = this.#http1(accepted, origin);
        this.#connections.set(connection, origin);
        const { transport } = connection;
        transport.bytesRead += first.length;
        if (!connection.received(first, 0, first.length)) transport.pause();
      },
      gone: () => this.gone(reader),
    });
    this.#connections.set(reader, origin);
  }

  /** Speaks HTTP/2 on an admitted socket; what was read of it was given back with `unshift`. */
  #serveHttp2(socket: Socket, origin: Origin): void {
    const { context } = this.#deps;
    const { settings, carrier } = this.#scene;
    if (carrier === undefined) {
      // The listener has become one of HTTP/1.1 since this was agreed on.
      socket.destroy();
      if (origin.tls === undefined) this.#leave(origin.key);
      this.#tellDrained();
      return;
    }
    const session = new CallerSession(socket, this.#forwarding(origin.address), {
      context,
      carrier,
      scheme: origin.tls === undefined ? 'http' : 'https',
      settings,
      connect: (end, forwarding) => this.#connectStream(end, origin, forwarding),
      closed: (ended) => this.gone(ended),
    });
    this.#connections.set(session, origin);
  }

  /** One request of an HTTP/2 connection, as one on a connection of its own. */
  #connectStream(
    end: SocketEnd,
    { key, certificate }: Origin,
    forwarding: ForwardingWriter,
  ): Downstream {
    const transport = new Transport(NOBODY, this.#deps.buffers);
    transport.attachEvents(end);
    const deps = { ...this.#downstream, multiplexed: true };
    const connection = new Downstream(deps, transport, key, forwarding);
    connection.certificate = certificate;
    const { perClient } = this.#scene;
    const isOver = perClient > 0 && this.#streams.of(key) >= perClient;
    this.#streams.add(key);
    if (isOver) connection.refuse(clientLimit('too many requests of this caller'));
    return connection;
  }

  /** Gives the place of a caller `key` back. */
  #leave(key: string): void {
    this.#deps.budget.used -= 1;
    this.#perAddress.remove(key);
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
    if (budget.used >= budget.limit) {
      return refusal('connection-limit', 'too many connections in all');
    }
    if (perClient > 0 && this.#perAddress.of(key) >= perClient) {
      return clientLimit('too many connections of this caller');
    }
    budget.used += 1;
    this.#perAddress.add(key);
    return undefined;
  }
}

/** Without the form of IPv6 that IPv4 has on sockets for both; undefined on unix sockets. */
const addressOf = (socket: Socket): string | undefined =>
  socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');

function refusal(code: 'connection-limit' | 'client-limit', message: string): ProxyError {
  return new ProxyError(code, message, { side: 'downstream', stage: 'connect' });
}

const clientLimit = (message: string): ProxyError => refusal('client-limit', message);
