/**
 * One address that is listened on. It outlives the settings of its listener: what is accepted goes to
 * whoever serves it now, and waits while nobody does yet.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { ListenAddress } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import type { SocketEngine } from './raw-socket.ts';

export interface ListenSocketDeps {
  readonly engine: SocketEngine;
  readonly log: Log;
}

type Taker = (socket: Socket) => void;

export class ListenSocket {
  /** As in the configuration; port 0 stays 0. */
  readonly wanted: ListenAddress;
  readonly #server: Server;
  /** Accepted before anybody served them. */
  readonly #early: Socket[] = [];
  #taker: Taker | undefined;

  private constructor(wanted: ListenAddress, server: Server) {
    this.wanted = wanted;
    this.#server = server;
  }

  /**
   * Opens an address; `socketMode` is that of a unix socket. Rejects with what the system said. A
   * socket file that nobody listens on any more is replaced.
   */
  static async open(
    wanted: ListenAddress,
    socketMode: number,
    { engine, log }: ListenSocketDeps,
  ): Promise<ListenSocket> {
    const pauseOnConnect = engine === 'handle';
    const server = createServer({ pauseOnConnect, allowHalfOpen: true, noDelay: true });
    const opened = new ListenSocket(wanted, server);
    server.on('connection', (socket) => opened.#accept(socket));
    if (wanted.kind === 'unix') {
      await removeStaleSocket(wanted.path);
      server.listen({ path: wanted.path });
    } else {
      server.listen({ host: wanted.host, port: wanted.port, backlog: 4096 });
    }
    await once(server, 'listening');
    server.on('error', (error: Error) => {
      log.error({ address: addressText(wanted), error: error.message }, 'listener failed');
    });
    try {
      opened.setMode(socketMode);
    } catch (error) {
      opened.close();
      throw error;
    }
    return opened;
  }

  /** Where it really listens; null once it is closed. */
  get address(): AddressInfo | string | null {
    return this.#server.address();
  }

  /** Gives what is accepted to `taker` from now on, and at once what waits. */
  serve(taker: Taker): void {
    this.#taker = taker;
    for (const socket of this.#early.splice(0)) {
      socket.removeListener('error', ignore);
      if (!socket.destroyed) taker(socket);
    }
  }

  /** Of a unix socket; nothing happens on others. Throws what the system says. */
  setMode(mode: number): void {
    if (this.wanted.kind === 'unix') chmodSync(this.wanted.path, mode);
  }

  /** Accepts no more. Connections that were handed over are not touched. */
  close(): void {
    this.#server.close();
    for (const socket of this.#early.splice(0)) socket.destroy();
  }

  #accept(socket: Socket): void {
    if (this.#taker !== undefined) {
      this.#taker(socket);
      return;
    }
    socket.on('error', ignore);
    this.#early.push(socket);
  }
}

const ignore = (): void => undefined;

/** `host:port` or `unix:/path`. */
export function addressText(address: ListenAddress): string {
  if (address.kind === 'unix') return `unix:${address.path}`;
  return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`;
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
    // Any other error is a listener's that is too busy, or none of our business.
    probe.once('error', (error) => resolve(!('code' in error) || error.code !== 'ECONNREFUSED'));
  });
  if (!answers) unlinkSync(path);
}
