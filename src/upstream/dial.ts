/**
 * Opens one TCP or TLS connection to an upstream, within its deadline.
 *
 * TLS connections offer `http/1.1` alone (R21), resume only a session of the same partition (R12),
 * and come with the channel binding of their certificate.
 */
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../clock.ts';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import { type ReadBuffers, Transport, type TransportOwner } from '../transport/transport.ts';
import { endPointBinding } from './channel-binding.ts';
import { UpstreamConnection } from './connection.ts';
import type { SessionStore } from './session-store.ts';
import type { ResolvedAddress, UpstreamTarget } from './target.ts';
import type { TlsProfile } from './tls-profile.ts';

export interface DialDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly sessions: SessionStore;
  readonly buffers: ReadBuffers;
}

/** Idle before the kernel probes a silent peer. */
const KEEP_ALIVE_MS = 60_000;

/**
 * Dials `target` for the partition `partition`.
 *
 * Throws `connect-failed`, `connect-timeout` or `tls-failed`, `target-denied` where the target has a
 * check of its own, and `downstream-closed` when `signal` aborts. Nothing was sent in any of these
 * cases.
 */
export function dial(
  deps: DialDeps,
  target: UpstreamTarget,
  partition: string,
  signal: AbortSignal,
): Promise<UpstreamConnection> {
  return attempt(signal, (done) => new Attempt(deps, target, partition, done, undefined));
}

/**
 * `dial` for whoever needs nothing but the connection: `done` is called once, with the same errors,
 * and `abort` on what is returned ends it with `downstream-closed`, inside of the call. A short tunnel
 * is one such connection: it is spared the promises and the signal that a login needs.
 */
export function dialInto(
  deps: DialDeps,
  target: UpstreamTarget,
  partition: string,
  done: DialDone,
): { abort(): void } {
  const made = new Attempt(deps, target, partition, done, undefined);
  made.start();
  return made;
}

/**
 * TLS to `target` inside a tunnel that `connection` is the end of; the answer takes its place. The same
 * errors as `dial`, with the stage `tunnel`; `connection` is destroyed then.
 */
export function secure(
  deps: DialDeps,
  connection: UpstreamConnection,
  target: UpstreamTarget,
  { partition, signal }: { readonly partition: string; readonly signal: AbortSignal },
): Promise<UpstreamConnection> {
  return attempt(signal, (done) => new Attempt(deps, target, partition, done, connection));
}

export type DialDone = (
  error: ProxyError | undefined,
  connection: UpstreamConnection | undefined,
) => void;

function attempt(
  signal: AbortSignal,
  make: (done: DialDone) => Attempt,
): Promise<UpstreamConnection> {
  return new Promise((resolve, reject) => {
    const made = make((error, connection) => {
      signal.removeEventListener('abort', abort);
      if (connection === undefined) reject(error);
      else resolve(connection);
    });
    const abort = (): void => made.abort();
    if (signal.aborted) abort();
    else {
      signal.addEventListener('abort', abort, { once: true });
      made.start();
    }
  });
}

class Attempt implements TransportOwner {
  readonly #deps: DialDeps;
  readonly #target: UpstreamTarget;
  readonly #partition: string;
  readonly #done: DialDone;
  readonly #deadline: Deadline;
  readonly #transport: Transport;
  /** The end of a tunnel; undefined: the target is dialled. */
  readonly #tunnel: UpstreamConnection | undefined;
  #ended = false;
  #resumedWith: Uint8Array | undefined;

  constructor(
    deps: DialDeps,
    target: UpstreamTarget,
    partition: string,
    done: DialDone,
    tunnel: UpstreamConnection | undefined,
  ) {
    this.#deps = deps;
    this.#tunnel = tunnel;
    this.#target = target;
    this.#partition = partition;
    this.#done = done;
    this.#transport = new Transport(this, deps.buffers);
    this.#deadline = new Deadline(() =>
      this.fail('connect-timeout', `no connection within ${target.connectMs} ms`, undefined),
    );
  }

  start(): void {
    const { resolve } = this.#target;
    this.#deps.deadlines.arm(this.#deadline, this.#target.connectMs);
    if (resolve !== undefined && this.#tunnel === undefined) {
      void this.#connectChecked(resolve);
      return;
    }
    try {
      this.#connect(undefined);
    } catch (error) {
      // What Node refuses at once ends the attempt as what it finds out later does.
      this.fail('connect-failed', describe(error), error);
    }
  }

  abort(): void {
    this.fail('downstream-closed', 'the caller went away', undefined);
  }

  async #connectChecked(resolve: NonNullable<UpstreamTarget['resolve']>): Promise<void> {
    try {
      const addresses = await resolve(this.#target.host);
      if (!this.#ended) this.#connect(addresses);
    } catch (error) {
      if (error instanceof ProxyError) this.#refuse(error);
      else this.fail('connect-failed', 'the name cannot be resolved', error);
    }
  }

  /** `addresses`: nothing else is dialled; undefined: whatever the system finds. */
  #connect(addresses: readonly ResolvedAddress[] | undefined): void {
    const { host, port, tls } = this.#target;
    // A FIN of the upstream is judged by the connection's owner; in a tunnel the other way goes on.
    const keepAlive = this.#target.probed !== 'later';
    const options = { host, port, noDelay: true, keepAlive, allowHalfOpen: true } as const;
    const common = {
      ...options,
      // Several addresses are tried side by side (RFC 8305).
      autoSelectFamily: true,
      ...(addresses === undefined ? {} : { lookup: lookupIn(addresses) }),
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
    // Node reads into a buffer of ours only what it dials itself (Node 26, also with `onread`).
    if (this.#tunnel === undefined) this.#transport.attach(socket);
    else this.#transport.attachEvents(socket);
    socket.once('secureConnect', () => this.#secured(socket));
  }

  #connectTls(common: object, tls: TlsProfile): TLSSocket {
    const { host } = this.#target;
    const session = this.#deps.sessions.find(this.#partition);
    this.#resumedWith = session?.binding;
    // An IP literal has no SNI; the certificate is then checked against the address.
    const servername = tls.servername ?? (isIP(host) === 0 ? host : '');
    const over = this.#tunnel?.transport.socket;
    const socket = connectTls({
      ...(over === undefined ? { ...common, host } : { socket: over, allowHalfOpen: true }),
      secureContext: tls.context,
      servername,
      minVersion: tls.minVersion,
      rejectUnauthorized: tls.rejectUnauthorized,
      ALPNProtocols: [...tls.alpn],
      ...(session === undefined ? {} : { session: session.ticket }),
    });
    socket.on('session', (ticket: Buffer) => {
      // With TLS 1.2 it comes behind 'secureConnect', whose listeners may have ended the socket: without
      // its certificate the session would be kept, and resumed, without a channel binding.
      if (socket.destroyed) return;
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
      notAfter: Math.min(clock.now() + leftMs, this.#tunnel?.notAfter ?? Infinity),
    });
    this.#transport.owner = connection;
    this.#done(undefined, connection);
  }

  fail(
    code: 'connect-failed' | 'connect-timeout' | 'tls-failed' | 'downstream-closed',
    message: string,
    cause: unknown,
  ): void {
    const text = `${this.#target.name} (${this.#target.authority}): ${message}`;
    const stage = this.#tunnel === undefined ? 'connect' : 'tunnel';
    const facts = { side: 'upstream', stage, retry: 'safe', cause } as const;
    this.#refuse(new ProxyError(code, text, facts));
  }

  #refuse(error: ProxyError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deps.deadlines.disarm(this.#deadline);
    this.#transport.destroy();
    this.#tunnel?.destroy();
    this.#done(error, undefined);
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

/** A lookup that asks nobody. A literal host is dialled as it is, without this. */
function lookupIn(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (host, options, callback) => {
    const [first] = addresses;
    if (first === undefined) callback(new Error(`no address of ${host} may be dialled`), '');
    else if (options.all === true) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };
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

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'the connection was closed';
  return codeOf(error) ?? error.message;
}
