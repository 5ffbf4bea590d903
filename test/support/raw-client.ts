/**
 * A client of exact bytes: what is sent, in which pieces, when reading stops and how the connection
 * ends are the test's choice. Answers are read by the kit's strict reader.
 */

import { createConnection, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls, type SecureVersion, TLSSocket } from 'node:tls';
import {
  ByteSource,
  fieldValue,
  fieldValues,
  readBody,
  readResponseHead,
  responseFraming,
  type Fields,
  type ResponseHead,
} from './strict-http.ts';
import { DEADLINE_MS, event, within } from './waiting.ts';

export interface RawClientTarget {
  /** Default 127.0.0.1. */
  readonly host?: string;
  readonly port?: number;
  /** Where the connection comes from: 127.0.0.2 is another caller than 127.0.0.1. */
  readonly localAddress?: string;
  /** Instead of host and port. */
  readonly socketPath?: string;
  readonly tls?: RawClientTls;
}

export interface RawClientTls {
  /** PEM of the authority. */
  readonly ca: string;
  /** Default localhost. */
  readonly servername?: string;
  readonly alpn?: string[];
  /** PEM texts. */
  readonly cert?: string;
  readonly key?: string;
  /** Of an earlier connection, to be resumed. */
  readonly session?: Buffer;
  readonly minVersion?: SecureVersion;
  readonly maxVersion?: SecureVersion;
}

export interface RawResponse {
  readonly version: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
  readonly fields: Fields;
  /** 1xx answers that came before, 101 excluded. */
  readonly interim: readonly ResponseHead[];
  readonly body: Buffer;
  readonly trailers: Fields;
  /** The value of the only field line of this name. */
  readonly field: (name: string) => string | undefined;
  /** All values of this name. */
  readonly all: (name: string) => string[];
  /** The body as JSON. */
  readonly json: () => unknown;
}

/** One client connection; ended by `await using`. */
export class RawClient {
  readonly socket: Socket | TLSSocket;
  readonly #source: ByteSource;
  /**
   * Settles when the connection is closed both ways; the value is the error that did it. Who does not
   * read does not see the peer's end: await `gone()` for that.
   */
  readonly closed: Promise<Error | undefined>;

  constructor(socket: Socket | TLSSocket) {
    this.socket = socket;
    const closed = Promise.withResolvers<Error | undefined>();
    let failure: Error | undefined;
    socket.on('error', (error) => (failure = error));
    socket.on('close', () => closed.resolve(failure));
    this.closed = closed.promise;
    this.#source = new ByteSource(socket);
  }

  /** Connects; the socket keeps its writing side open when the peer ends. */
  static async connect(target: RawClientTarget): Promise<RawClient> {
    const raw =
      target.socketPath === undefined
        ? createConnection({
            host: target.host ?? '127.0.0.1',
            port: target.port ?? 0,
            allowHalfOpen: true,
            ...(target.localAddress === undefined ? {} : { localAddress: target.localAddress }),
          })
        : createConnection({ path: target.socketPath, allowHalfOpen: true });
    raw.setNoDelay(true);
    if (target.tls === undefined) {
      await event(raw, 'connect');
      return new RawClient(raw);
    }
    const { alpn, servername = 'localhost', ...more } = target.tls;
    const secure = connectTls({
      ...more,
      socket: raw,
      servername,
      ...(alpn === undefined ? {} : { ALPNProtocols: alpn }),
    });
    await event(secure, 'secureConnect');
    return new RawClient(secure);
  }

  /** Bytes received and not yet consumed. */
  get buffered(): number {
    return this.#source.buffered;
  }

  /**
   * Writes bytes (text is latin1). `pieces` gives the sizes of the first writes, the rest follows;
   * `'every-byte'` makes each byte a write of its own.
   */
  async send(bytes: string | Uint8Array, pieces?: readonly number[] | 'every-byte'): Promise<void> {
    const all = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : Buffer.from(bytes);
    const sizes = pieces === 'every-byte' ? Array.from(all, () => 1) : (pieces ?? []);
    let at = 0;
    for (const size of sizes) {
      await this.#write(all.subarray(at, at + size));
      at += size;
      await nextTurn();
    }
    if (at < all.length) await this.#write(all.subarray(at));
  }

  /** Writes a request head, adding Host unless given, and the body as it is. */
  async request(
    line: string,
    fields: Readonly<Record<string, string>> = {},
    body: string | Uint8Array = '',
  ): Promise<void> {
    const hasHost = Object.keys(fields).some((name) => name.toLowerCase() === 'host');
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
    const host = hasHost ? '' : 'Host: localhost\r\n';
    await this.send(`${line} HTTP/1.1\r\n${host}${lines.join('')}\r\n`);
    if (body.length > 0) await this.send(body);
  }

  /** Reads one final response; `method` is that of its request (default GET). */
  async response(method = 'GET', deadlineMs = DEADLINE_MS): Promise<RawResponse> {
    return within(this.#read(method), 'a whole response', deadlineMs);
  }

  /** Reads the head of the next response, final or interim, and leaves the body. */
  async head(deadlineMs = DEADLINE_MS): Promise<ResponseHead> {
    return within(readResponseHead(this.#source), 'a response head', deadlineMs);
  }

  /** Exactly `length` bytes as they come. */
  async bytes(length: number, deadlineMs = DEADLINE_MS): Promise<Buffer> {
    return within(this.#source.exactly(length), `${length} bytes`, deadlineMs);
  }

  /** Between 1 and `max` bytes: a slow reader calls it when it likes. Undefined at the end. */
  async some(max: number, deadlineMs = DEADLINE_MS): Promise<Buffer | undefined> {
    return within(this.#source.some(max), 'some bytes', deadlineMs);
  }

  /** Everything until the peer ends; throws when the connection broke instead. */
  async untilEnd(deadlineMs = DEADLINE_MS): Promise<Buffer> {
    const bytes = await within(this.#source.rest(), 'end of the connection', deadlineMs);
    if (this.#source.failure !== undefined) throw this.#source.failure;
    return bytes;
  }

  /** Reads on until the peer ends the connection, however it does that; the bytes are dropped. */
  async gone(deadlineMs = DEADLINE_MS): Promise<void> {
    await within(this.#source.rest(), 'end of the connection', deadlineMs);
  }

  /** Sends FIN; reading goes on. */
  endWriting(): void {
    this.socket.end();
  }

  /** Sends RST (plain TCP), or just drops the connection (TLS, unix). */
  reset(): void {
    if (this.socket instanceof TLSSocket || this.socket.remotePort === undefined) {
      this.socket.destroy();
    } else {
      this.socket.resetAndDestroy();
    }
  }

  /** Drops the connection and waits until it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (this.socket.destroyed || !this.socket.writable) return;
    if (this.socket.write(bytes)) return;
    const room = Promise.withResolvers<undefined>();
    const done = (): void => room.resolve(undefined);
    this.socket.once('drain', done);
    this.socket.once('close', done);
    await room.promise;
    this.socket.off('drain', done);
    this.socket.off('close', done);
  }

  async #read(method: string): Promise<RawResponse> {
    const interim: ResponseHead[] = [];
    let head = await readResponseHead(this.#source);
    while (head.status < 200 && head.status !== 101) {
      interim.push(head);
      head = await readResponseHead(this.#source);
    }
    const pieces: Buffer[] = [];
    const trailers = await readBody(this.#source, responseFraming(head, method), (piece) => {
      pieces.push(piece);
    });
    const body = Buffer.concat(pieces);
    const { fields } = head;
    return {
      ...head,
      interim,
      body,
      trailers,
      field: (name) => fieldValue(fields, name),
      all: (name) => fieldValues(fields, name),
      json: (): unknown => JSON.parse(body.toString()),
    };
  }
}
