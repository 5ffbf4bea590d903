/**
 * An HTTP/2 caller on Node's own client: prior knowledge on a plain socket, or ALPN with TLS. What a
 * stream ended with is a value, not an exception, so that tests can say which end they want.
 */

import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import { event, until, within } from './waiting.ts';

export interface H2Answer {
  /** 0 when the stream ended without one. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as they came. */
  readonly raw: readonly string[];
  /** Interim answers, in order. */
  readonly interim: readonly IncomingHttpHeaders[];
  readonly body: Buffer;
  readonly trailers: IncomingHttpHeaders | undefined;
  /** 0: the answer is whole. */
  readonly rstCode: number;
  /** The values of all lines of this name. */
  readonly all: (name: string) => string[];
  readonly json: () => unknown;
}

export type H2Body = string | Uint8Array | undefined;

/** One connection; ended by `await using`. */
export class H2Client {
  readonly session: ClientHttp2Session;
  /** The code of the GOAWAY that came, if one did. */
  goaway: number | undefined;
  readonly #authority: string;

  constructor(session: ClientHttp2Session, authority: string) {
    this.session = session;
    this.#authority = authority;
    session.on('error', () => undefined);
    session.on('goaway', (code) => (this.goaway = code));
  }

  static async connect(
    url: string,
    authority: string,
    options: SecureClientSessionOptions = {},
  ): Promise<H2Client> {
    const session = connect(url, options);
    const client = new H2Client(session, authority);
    await event(session, 'connect');
    return client;
  }

  /** Opens a stream; without a body its head ends it unless `open` says otherwise. */
  open(fields: OutgoingHttpHeaders, { ends }: { readonly ends: boolean }): ClientHttp2Stream {
    const head = {
      ':authority': this.#authority,
      ':scheme': this.session.encrypted === true ? 'https' : 'http',
      ...fields,
    };
    const stream = this.session.request(head, { endStream: ends });
    stream.on('error', () => undefined);
    return stream;
  }

  /** One request: `GET /path`; the answer as it ended. */
  async ask(line: string, fields: OutgoingHttpHeaders = {}, body?: H2Body): Promise<H2Answer> {
    const [method = '', path = ''] = line.split(' ');
    const head = { ':method': method, ':path': path, ...fields };
    const stream = this.open(head, { ends: body === undefined });
    if (body !== undefined) stream.end(body);
    return await answerOf(stream);
  }

  /** Resolves once the connection is gone. */
  async gone(): Promise<void> {
    await until(() => this.session.destroyed, 'end of the HTTP/2 connection');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.session.destroy();
    await this.gone();
  }
}

/** Reads a stream to its end, whatever that is. */
export async function answerOf(stream: ClientHttp2Stream): Promise<H2Answer> {
  const ended = Promise.withResolvers<undefined>();
  const interim: IncomingHttpHeaders[] = [];
  const pieces: Buffer[] = [];
  let headers: IncomingHttpHeaders = {};
  let raw: readonly string[] = [];
  let trailers: IncomingHttpHeaders | undefined;
  stream.on('headers', (fields) => interim.push(fields));
  stream.on('response', (fields, _flags, lines: string[]) => {
    headers = fields;
    raw = lines;
  });
  stream.on('trailers', (fields) => (trailers = fields));
  stream.on('data', (bytes: Buffer) => pieces.push(bytes));
  stream.on('close', () => ended.resolve(undefined));
  await within(ended.promise, 'end of a stream');
  const body = Buffer.concat(pieces);
  return {
    status: Number(headers[':status'] ?? 0),
    headers,
    raw,
    interim,
    body,
    trailers,
    rstCode: stream.rstCode ?? constants.NGHTTP2_NO_ERROR,
    all: (name) => raw.filter((_value, at) => at % 2 === 1 && raw[at - 1] === name),
    json: (): unknown => JSON.parse(body.toString()),
  };
}
