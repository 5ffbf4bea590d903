/**
 * One listener: its sockets, the connections on them, and their end.
 *
 * Accepting, limits per process and per caller, and draining are decided here; what is said on a
 * connection is relay/'s.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import {
  type AddressInfo,
  BlockList,
  connect,
  createServer,
  type Server,
  type Socket,
} from 'node:net';
import { once } from 'node:events';
import type { ListenAddress } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import type { Log } from '../log/log.ts';
import { Downstream, type DownstreamDeps } from '../relay/downstream.ts';
import type { ForwardingWriter } from '../relay/plan.ts';
import type { BufferStore } from '../transport/buffer-store.ts';
import { acceptTransport, type SocketEngine } from './raw-socket.ts';

export interface ListenerSettings {
  readonly name: string;
  readonly addresses: readonly ListenAddress[];
  /** Mode of unix sockets. */
  readonly socketMode: number;
  /** Connections per caller address; 0: no limit. */
  readonly perClient: number;
  /** Callers whose forwarding fields are believed. */
  readonly trusted: BlockList;
}

export interface ListenerDeps {
  readonly engine: SocketEngine;
  readonly log: Log;
  readonly downstream: DownstreamDeps;
  readonly forwarding: (address: string | undefined, trusted: boolean) => ForwardingWriter;
  readonly buffers: BufferStore;
  /** Connections of all listeners; asked and told. */
  readonly budget: ConnectionBudget;
}

/** Connections of callers in all, over all listeners. */
export interface ConnectionBudget {
  readonly limit: number;
  used: number;
}

const UNIX = 'unix';
/** Connections that are told why they are not served; more are closed without a word. */
const MAX_TURNED_AWAY = 256;

export class Listener {
  readonly name: string;
  readonly #settings: ListenerSettings;
  readonly #deps: ListenerDeps;
  readonly #servers: Server[] = [];
  readonly #connections = new Set<Downstream>();
  /** Refused and not gone yet. They take no place of those that are served. */
  readonly #turnedAway = new Set<Downstream>();
  readonly #perAddress = new Map<string, number>();
  #idle: (() => void) | undefined;

  constructor(settings: ListenerSettings, deps: ListenerDeps) {
    this.name = settings.name;
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Connections that are served now. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Where it listens; known after `open`. */
  get addresses(): (AddressInfo | string)[] {
    return this.#servers.map((server) => server.address()).filter((address) => address !== null);
  }

  /** Opens all addresses, or none: rejects with what the system said of the first that failed. */
  async open(): Promise<void> {
    try {
      for (const address of this.#settings.addresses) await this.#listen(address);
    } catch (error) {
      this.stopAccepting();
      throw error;
    }
  }

  stopAccepting(): void {
    for (const server of this.#servers) server.close();
  }

  /** Lets each connection end after the request in work. Resolves when all are gone. */
  drain(): Promise<void> {
    for (const connection of this.#connections) connection.drain();
    if (this.#connections.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  /** Closes what is left at once. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
    for (const connection of this.#turnedAway) connection.destroy();
  }

  /** Called when a connection is gone. */
  gone(connection: Downstream): void {
    if (this.#turnedAway.delete(connection) || !this.#connections.delete(connection)) return;
    this.#deps.budget.used -= 1;
    const left = (this.#perAddress.get(connection.remoteAddress) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(connection.remoteAddress);
    else this.#perAddress.set(connection.remoteAddress, left);
    if (this.#connections.size === 0) this.#idle?.();
  }

  async #listen(address: ListenAddress): Promise<void> {
    const pauseOnConnect = this.#deps.engine === 'handle';
    const server = createServer({ pauseOnConnect, allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
    if (address.kind === 'unix') {
      await removeStaleSocket(address.path);
      server.listen({ path: address.path });
    } else {
      server.listen({ host: address.host, port: address.port, backlog: 4096 });
    }
    await once(server, 'listening');
    this.#servers.push(server);
    server.on('error', (error: Error) => {
      this.#deps.log.error({ listener: this.name, error: error.message }, 'listener failed');
    });
    if (address.kind === 'unix') chmodSync(address.path, this.#settings.socketMode);
  }

  #accept(socket: Socket): void {
    const address = socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
    const key = address ?? UNIX;
    const { downstream, engine } = this.#deps;
    const transport = acceptTransport(engine, socket, this.#deps.buffers);
    const trusted = address !== undefined && isTrusted(this.#settings.trusted, address);
    const forwarding = this.#deps.forwarding(address, trusted);
    const connection = new Downstream(downstream, transport, key, forwarding);
    const refusal = this.#admit(key);
    if (refusal === undefined) {
      this.#connections.add(connection);
      return;
    }
    this.#turnedAway.add(connection);
    if (this.#turnedAway.size > MAX_TURNED_AWAY) connection.destroy();
    else connection.refuse(refusal);
  }

  /** Counts a connection of the caller `key`, or says why it is not served. */
  #admit(key: string): ProxyError | undefined {
    const { budget } = this.#deps;
    const { perClient } = this.#settings;
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

const isTrusted = (list: BlockList, address: string): boolean =>
  list.check(address, address.includes(':') ? 'ipv6' : 'ipv4');

/** A list of addresses and CIDR ranges, as `forwarded.trust` has them. */
export function trustList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/', 2);
    const family = address.includes(':') ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/**
 * Removes a socket file that nobody listens on any more, left by a process that was killed. A file
 * that is no socket, or one that answers, stays: `listen` then fails with EADDRINUSE.
 */
async function removeStaleSocket(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isSocket()) return;
  const answers = await new Promise<boolean>((resolve) => {
    const probe = connect({ path });
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
  if (!answers) unlinkSync(path);
}
