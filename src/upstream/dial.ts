/**
 * Opens one TCP or TLS connection to an upstream, within its deadline.
 *
 * TLS connections offer `http/1.1` alone (R21), resume only a session of the same partition (R12),
 * and come with the channel binding of their certificate.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../clock.ts';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import type { BufferStore } from '../transport/buffer-store.ts';
import { Transport, type TransportOwner } from '../transport/transport.ts';
import { endPointBinding } from './channel-binding.ts';
import { UpstreamConnection } from './connection.ts';
import type { SessionStore } from './session-store.ts';
import type { UpstreamTarget } from './target.ts';
import type { TlsProfile } from './tls-profile.ts';

export interface DialDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly sessions: SessionStore;
  readonly buffers: BufferStore;
}

/** Idle before the kernel probes a silent peer. */
const KEEP_ALIVE_MS = 60_000;

/**
 * Dials `target` for the partition `partition`.
 *
 * Throws `connect-failed`, `connect-timeout` or `tls-failed`, and `downstream-closed` when `signal`
 * aborts. Nothing was sent in any of these cases.
 */
export function dial(
  deps: DialDeps,
  target: UpstreamTarget,
  partition: string,
  signal: AbortSignal,
): Promise<UpstreamConnection> {
  return new Promise((resolve, reject) => {
    const attempt = new Attempt(deps, target, partition, (error, connection) => {
      signal.removeEventListener('abort', abort);
      if (connection === undefined) reject(error);
      else resolve(connection);
    });
    const abort = (): void => attempt.fail('downstream-closed', 'the caller went away', undefined);
    if (signal.aborted) abort();
    else {
      signal.addEventListener('abort', abort, { once: true });
      attempt.start();
    }
  });
}

type Done = (error: ProxyError | undefined, connection: UpstreamConnection | undefined) => void;

class Attempt implements TransportOwner {
  readonly #deps: DialDeps;
  readonly #target: UpstreamTarget;
  readonly #partition: string;
  readonly #done: Done;
  readonly #deadline: Deadline;
  readonly #transport: Transport;
  #ended = false;
  #resumedWith: Uint8Array | undefined;

  constructor(deps: DialDeps, target: UpstreamTarget, partition: string, done: Done) {
    this.#deps = deps;
    this.#target = target;
    this.#partition = partition;
    this.#done = done;
    this.#transport = new Transport(this, deps.buffers);
    this.#deadline = new Deadline(() =>
      this.fail('connect-timeout', `no connection within ${target.connectMs} ms`, undefined),
    );
  }

  start(): void {
    const { host, port, tls } = this.#target;
    this.#deps.deadlines.arm(this.#deadline, this.#target.connectMs);
    // A FIN of the upstream is judged by the connection's owner; in a tunnel the other way goes on.
    const options = { host, port, noDelay: true, keepAlive: true, allowHalfOpen: true } as const;
    const common = {
      ...options,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      onread: this.#transport.onread(),
    };
    if (tls === undefined) {
      const socket = connectTcp(common);
      this.#transport.attach(socket);
      socket.once('connect', () => this.#connected(undefined));
      return;
    }
    const socket = this.#connectTls(common, tls);
    this.#transport.attach(socket);
    socket.once('secureConnect', () => this.#secured(socket));
  }

  #connectTls(common: object, tls: TlsProfile): TLSSocket {
    const { host } = this.#target;
    const session = this.#deps.sessions.find(this.#partition);
    this.#resumedWith = session?.binding;
    // An IP literal has no SNI; the certificate is then checked against the address.
    const servername = tls.servername ?? (isIP(host) === 0 ? host : '');
    const socket = connectTls({
      ...common,
      host,
      secureContext: tls.context,
      servername,
      minVersion: tls.minVersion,
      rejectUnauthorized: tls.rejectUnauthorized,
      ALPNProtocols: [...tls.alpn],
      ...(session === undefined ? {} : { session: session.ticket }),
    });
    socket.on('session', (ticket: Buffer) => {
      this.#deps.sessions.keep(this.#partition, { ticket, binding: this.#bindingOf(socket) });
    });
    return socket;
  }

  #bindingOf(socket: TLSSocket): Uint8Array | undefined {
    if (socket.isSessionReused()) return this.#resumedWith;
    const certificate = socket.getPeerX509Certificate();
    return certificate === undefined ? undefined : endPointBinding(certificate.raw);
  }

  #secured(socket: TLSSocket): void {
    // A peer that selects anything else cannot keep a login on this connection.
    if (socket.alpnProtocol !== false && socket.alpnProtocol !== 'http/1.1') {
      this.fail('tls-failed', `the upstream selected ${socket.alpnProtocol}`, undefined);
      return;
    }
    this.#connected(this.#bindingOf(socket));
  }

  #connected(binding: Uint8Array | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deps.deadlines.disarm(this.#deadline);
    const { clock } = this.#deps;
    const leftMs = (this.#target.tls?.notAfter ?? Infinity) - clock.wall();
    const connection = new UpstreamConnection(this.#transport, {
      binding,
      notAfter: clock.now() + leftMs,
    });
    this.#transport.owner = connection;
    this.#done(undefined, connection);
  }

  fail(
    code: 'connect-failed' | 'connect-timeout' | 'tls-failed' | 'downstream-closed',
    message: string,
    cause: unknown,
  ): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deps.deadlines.disarm(this.#deadline);
    this.#transport.destroy();
    const text = `${this.#target.name} (${this.#target.authority}): ${message}`;
    this.#done(
      new ProxyError(code, text, { side: 'upstream', stage: 'connect', retry: 'safe', cause }),
      undefined,
    );
  }

  received(): boolean {
    // Bytes before the connection is handed over: the peer speaks first, which HTTP never does.
    this.fail('connect-failed', 'the upstream sent bytes before any request', undefined);
    return false;
  }

  drained(): void {
    // Nothing was written.
  }

  ended(): void {
    this.fail('connect-failed', 'the upstream closed the connection', undefined);
  }

  closed(error: Error | undefined): void {
    this.#deps.sessions.forget(this.#partition);
    const tls = this.#target.tls !== undefined && isTlsError(error, this.#transport.socket);
    this.fail(tls ? 'tls-failed' : 'connect-failed', describe(error), error);
  }
}

function isTlsError(error: Error | undefined, socket: Socket | undefined): boolean {
  const code = codeOf(error);
  const wire = [
    'ECONNREFUSED',
    'ENOTFOUND',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ETIMEDOUT',
    'EAI_AGAIN',
  ];
  return socket?.remoteAddress !== undefined || (code !== undefined && !wire.includes(code));
}

const codeOf = (error: Error | undefined): string | undefined =>
  error !== undefined && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

function describe(error: Error | undefined): string {
  if (error === undefined) return 'the connection was closed';
  const code = codeOf(error);
  return code ?? error.message;
}
