/**
 * A server of key sets on a free port of loopback that does what a test tells it: answer, answer badly,
 * or not at all. It counts who asks.
 */
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestCertificate } from './certificates.ts';
import type { Gate } from './waiting.ts';

/** What the next requests get. */
export type JwksReply =
  /** A 200 with this body. */
  | { readonly kind: 'body'; readonly body: string | Uint8Array }
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** A 200 that promises the whole body and ends in the middle of it. */
  | { readonly kind: 'cut'; readonly body: string; readonly framing: 'length' | 'chunked' }
  /** Bytes as they are, and then the end of the connection, or nothing at all. */
  | { readonly kind: 'raw'; readonly bytes: string; readonly ends?: boolean }
  /** The connection is closed before a byte of an answer. */
  | { readonly kind: 'hang-up' }
  /** As `next`, once the gate is open. */
  | { readonly kind: 'held'; readonly gate: Gate; readonly next: JwksReply };

/** A running server; `await using` ends it. */
export class JwksServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #scheme: string;
  /** May be set at any time. */
  reply: JwksReply;
  /** Header fields of every request so far. */
  readonly requests: IncomingHttpHeaders[] = [];

  constructor(keys: string, certificate: TestCertificate | undefined) {
    this.reply = { kind: 'body', body: keys };
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      this.requests.push(request.headers);
      void this.#answer(this.reply, response);
    };
    this.#scheme = certificate === undefined ? 'http' : 'https';
    this.#server =
      certificate === undefined
        ? createServer(listener)
        : createTlsServer({ key: certificate.key, cert: certificate.cert }, listener);
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get url(): URL {
    const { port } = this.#server.address() as AddressInfo;
    return new URL(`${this.#scheme}://127.0.0.1:${port}/keys`);
  }

  /** How often the key set was asked for. */
  get fetches(): number {
    return this.requests.length;
  }

  /** From now on a 200 with this key set. */
  serve(keys: string): void {
    this.reply = { kind: 'body', body: keys };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(reply: JwksReply, response: ServerResponse): Promise<void> {
    switch (reply.kind) {
      case 'body':
        response.end(reply.body);
        return;
      case 'status':
        response.writeHead(reply.status, reply.headers).end(reply.body);
        return;
      case 'cut':
        this.#cut(reply, response);
        return;
      case 'raw':
        response.socket?.write(reply.bytes);
        if (reply.ends === true) response.socket?.end();
        return;
      case 'hang-up':
        response.socket?.destroy();
        return;
      case 'held':
        await reply.gate.pass();
        await this.#answer(reply.next, response);
        return;
    }
  }

  #cut(reply: JwksReply & { kind: 'cut' }, response: ServerResponse): void {
    const half = reply.body.slice(0, reply.body.length / 2);
    const length = { 'content-length': Buffer.byteLength(reply.body) };
    response.writeHead(200, reply.framing === 'length' ? length : {});
    response.write(half, () => response.socket?.end());
  }
}

/** Starts a server of this key set, over TLS if it has a certificate. */
export function startJwksServer(keys: string, certificate?: TestCertificate): Promise<JwksServer> {
  return new JwksServer(keys, certificate).listen();
}
