/**
 * An origin server for tests that demands NTLM as IIS does, one socket at a time, with a switch for
 * every known oddity, and keeps a journal of what each socket carried.
 *
 * It is the judge: reader, login and framing are its own. Disposing it runs the oracles of
 * upstream-journal.ts, so every test that uses `await using` is an isolation test too.
 */

import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import type { Duplex } from 'node:stream';
import {
  createServer as createTlsServer,
  type Server as TlsServer,
  type TLSSocket,
} from 'node:tls';
import type { TestCertificate } from './certificates.ts';
import { UpstreamConnection } from './upstream-connection.ts';
import {
  assertJournal,
  type Journal,
  type RequestRecord,
  type SocketRecord,
} from './upstream-journal.ts';
import type { ScriptedUpstreamOptions } from './upstream-options.ts';
import { until } from './waiting.ts';

/** Starts a scripted upstream on 127.0.0.1 and any free port. */
export async function startScriptedUpstream(
  options: ScriptedUpstreamOptions = {},
): Promise<ScriptedUpstream> {
  const upstream = new ScriptedUpstream(options);
  await upstream.listen();
  return upstream;
}

/** The running server. `close()` just ends it; `await using` also runs the oracles. */
export class ScriptedUpstream {
  readonly #options: ScriptedUpstreamOptions;
  readonly #server: Server;
  readonly #tls: TlsServer | undefined;
  readonly #sockets: SocketRecord[] = [];
  readonly #tokens: string[] = [];
  readonly #live = new Set<Socket>();
  #certificate: TestCertificate | undefined;
  readonly #work = new Set<Promise<void>>();
  /** Faults of the kit itself (a handler that threw); they fail the test at the end. */
  readonly #crashes: unknown[] = [];

  constructor(options: ScriptedUpstreamOptions) {
    this.#options = options;
    this.#certificate = options.tls?.certificate;
    this.#tls = options.tls === undefined ? undefined : this.#createTls(options.tls);
    this.#server = createTcpServer({ allowHalfOpen: true, noDelay: true }, (raw) => {
      this.#live.add(raw);
      raw.on('error', () => undefined);
      raw.on('close', () => this.#live.delete(raw));
      if (this.#tls === undefined) this.#track(this.#serve(raw, raw));
      else this.#tls.emit('connection', raw);
    });
  }

  /** What was seen so far. */
  get journal(): Journal {
    return { sockets: this.#sockets, tokens: this.#tokens };
  }

  get port(): number {
    return this.#address().port;
  }

  /** `http://127.0.0.1:PORT`, or `https://localhost:PORT` with TLS. */
  get url(): string {
    if (this.#tls !== undefined) return `https://localhost:${this.port}`;
    const host = this.#options.host ?? '127.0.0.1';
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  /** All requests in order of sockets. */
  get requests(): readonly RequestRecord[] {
    return this.#sockets.flatMap(({ requests }) => requests);
  }

  /** Sockets that are not closed. */
  get openSockets(): number {
    return this.#sockets.filter(({ open }) => open).length;
  }

  /** Sum over all sockets. */
  count(what: 'type1' | 'type3'): number {
    return this.#sockets.reduce((sum, socket) => sum + socket[what], 0);
  }

  /** Resolves once the journal satisfies `condition`. */
  async saw(condition: (journal: Journal) => boolean, what: string): Promise<void> {
    await until(() => condition(this.journal), what);
  }

  /** Ends every open socket: `fin` says goodbye, `reset` does not. */
  drop(how: 'fin' | 'reset'): void {
    for (const raw of this.#live) {
      if (how === 'fin') raw.end();
      else raw.resetAndDestroy();
    }
  }

  /** Connections made from now on see this certificate; those that are open keep theirs. */
  useCertificate(certificate: TestCertificate): void {
    this.#certificate = certificate;
    this.#tls?.setSecureContext({ key: certificate.key, cert: certificate.cert });
  }

  /** Opens the port; called by `startScriptedUpstream`. */
  async listen(): Promise<void> {
    const listening = Promise.withResolvers<undefined>();
    this.#server.once('error', (error) => listening.reject(error));
    const { port = 0, host = '127.0.0.1' } = this.#options;
    this.#server.listen(port, host, () => listening.resolve(undefined));
    await listening.promise;
  }

  /** Closes the port and every socket, and waits until all work is over. No oracle. */
  async close(): Promise<void> {
    const closed = Promise.withResolvers<undefined>();
    this.#server.close(() => closed.resolve(undefined));
    for (const raw of this.#live) raw.destroy();
    await closed.promise;
    await Promise.all(this.#work);
  }

  /** Closes and runs all oracles over the journal. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    if (this.#crashes.length > 0) throw new AggregateError(this.#crashes, 'a handler threw');
    assertJournal(this.journal);
  }

  #address(): AddressInfo {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('not listening');
    return address;
  }

  #createTls(tls: NonNullable<ScriptedUpstreamOptions['tls']>): TlsServer {
    const server = createTlsServer({
      key: tls.certificate.key,
      cert: tls.certificate.cert,
      allowHalfOpen: true,
      ALPNProtocols: [...(tls.alpn ?? ['http/1.1'])],
      ...(tls.maxVersion === undefined ? {} : { maxVersion: tls.maxVersion }),
      ...(tls.clientCa === undefined ? {} : { ca: tls.clientCa, requestCert: true }),
    });
    server.on('tlsClientError', () => undefined);
    server.on('secureConnection', (secure) => {
      const raw = [...this.#live].find(({ remotePort }) => remotePort === secure.remotePort);
      if (raw === undefined) secure.destroy();
      else this.#track(this.#serve(secure, raw, secure));
    });
    return server;
  }

  #track(work: Promise<void>): void {
    const guarded = work.catch((error: unknown) => {
      this.#crashes.push(error);
    });
    this.#work.add(guarded);
    void guarded.finally(() => this.#work.delete(guarded));
  }

  async #serve(stream: Duplex, raw: Socket, secure?: TLSSocket): Promise<void> {
    const record = newRecord(this.#sockets.length + 1, secure);
    this.#sockets.push(record);
    const connection = new UpstreamConnection({
      options: this.#options,
      record,
      tokens: this.#tokens,
      stream,
      bindings: this.#certificate?.endPoint,
    });
    try {
      const end = record.alpn === 'h2' ? 'reset' : await connection.run();
      if (end === 'reset') raw.resetAndDestroy();
      else await connection.end();
    } catch (error) {
      stream.destroy();
      raw.destroy();
      throw error;
    }
  }
}

function newRecord(id: number, secure: TLSSocket | undefined): SocketRecord {
  return {
    id,
    secure: secure !== undefined,
    alpn: secure?.alpnProtocol ?? undefined,
    servername: typeof secure?.servername === 'string' ? secure.servername : undefined,
    resumed: secure?.isSessionReused() ?? false,
    claims: [],
    logins: [],
    requests: [],
    type1: 0,
    type3: 0,
    type1Bytes: 0,
    strayType3: 0,
    bytesIn: 0,
    faults: [],
    open: true,
  };
}
