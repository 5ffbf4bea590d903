/**
 * The test kit's own reader of HTTP/1.1 messages, for both sides. It accepts what a careful sender
 * writes and nothing else: whatever RFC 9112 lets a recipient tolerate is a fault here, because the
 * one who wrote it is under test.
 */

import type { Duplex } from 'node:stream';

/** Field lines in the order received; names as spelled. */
export type Fields = readonly (readonly [name: string, value: string])[];

export interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly version: '1.0' | '1.1';
  readonly fields: Fields;
}

export interface ResponseHead {
  readonly version: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
  readonly fields: Fields;
}

export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'counted'; readonly length: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'close' };

/** The peer wrote something that is not strict HTTP/1.1. */
export class HttpFault extends Error {
  override readonly name = 'HttpFault';
}

/** The peer closed or broke the connection within a message. */
export class CutShort extends Error {
  override readonly name = 'CutShort';
}

const MAX_HEAD_BYTES = 1 << 20;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// Visible characters, obs-text, and inner spaces and tabs (RFC 9110 5.5).
const VALUE = /^(?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/** Pulls bytes from a socket on demand; what nobody asks for stays in the kernel. */
export class ByteSource {
  readonly #stream: Duplex;
  #pending: Buffer = Buffer.alloc(0);
  #ended = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  /** Bytes taken from the socket so far. */
  bytesIn = 0;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on('readable', () => this.#wake?.());
    stream.on('end', () => this.#stop(undefined));
    stream.on('error', (error) => this.#stop(error));
    stream.on('close', () => this.#stop(undefined));
  }

  /** Bytes that arrived and were not consumed, as far as this process has read them. */
  get buffered(): number {
    this.#drain();
    return this.#pending.length;
  }

  /** Why the peer is gone, when it did not simply end. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits for at least one unread byte; false at the end of the stream. */
  async ready(): Promise<boolean> {
    return this.#pending.length > 0 || this.#more();
  }

  /** The next line without its CRLF, or undefined when the stream ends before its first byte. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#pending.indexOf(0x0a);
      if (end >= 0) {
        if (end === 0 || this.#pending[end - 1] !== 0x0d)
          throw new HttpFault('line ends without CR');
        return this.#consume(end + 1).toString('latin1', 0, end - 1);
      }
      if (this.#pending.length > MAX_HEAD_BYTES) throw new HttpFault('line too long');
      if (!(await this.#more())) {
        if (this.#pending.length === 0) return undefined;
        throw new CutShort('connection ended within a line');
      }
    }
  }

  /** Between 1 and `max` bytes; undefined at the end of the stream. */
  async some(max: number): Promise<Buffer | undefined> {
    if (!(await this.ready())) return undefined;
    return this.#consume(Math.min(max, this.#pending.length));
  }

  /** Exactly `length` bytes. */
  async exactly(length: number): Promise<Buffer> {
    while (this.#pending.length < length) {
      if (!(await this.#more())) throw new CutShort(`connection ended, ${length} bytes awaited`);
    }
    return this.#consume(length);
  }

  /** Everything until the end of the stream. */
  async rest(): Promise<Buffer> {
    while (await this.#more()) continue;
    return this.#consume(this.#pending.length);
  }

  #consume(length: number): Buffer {
    const bytes = this.#pending.subarray(0, length);
    this.#pending = this.#pending.subarray(length);
    return bytes;
  }

  #drain(): boolean {
    const chunk: unknown = this.#stream.read();
    if (!Buffer.isBuffer(chunk)) return false;
    this.bytesIn += chunk.length;
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    return true;
  }

  async #more(): Promise<boolean> {
    while (!this.#drain()) {
      if (this.#ended) return false;
      const woken = Promise.withResolvers<undefined>();
      this.#wake = () => woken.resolve(undefined);
      await woken.promise;
    }
    return true;
  }

  #stop(failure: Error | undefined): void {
    this.#ended = true;
    this.#failure ??= failure;
    this.#wake?.();
  }
}

/** The values of all field lines named `name`, in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  const wanted = name.toLowerCase();
  return fields.filter(([key]) => key.toLowerCase() === wanted).map(([, value]) => value);
}

/** The value of the only field line named `name`; undefined when there is none or more than one. */
export function fieldValue(fields: Fields, name: string): string | undefined {
  const values = fieldValues(fields, name);
  return values.length === 1 ? values[0] : undefined;
}

/** The next request head; undefined when the peer ended the connection between messages. */
export async function readRequestHead(source: ByteSource): Promise<RequestHead | undefined> {
  const line = await source.line();
  if (line === undefined) return undefined;
  const match = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e]+) HTTP\/(1\.[01])$/.exec(line);
  if (match === null) throw new HttpFault(`request line ${JSON.stringify(line)}`);
  const [, method = '', target = '', version] = match;
  const fields = await readFields(source);
  const hosts = fieldValues(fields, 'host').length;
  if (hosts !== 1 && !(hosts === 0 && version === '1.0'))
    throw new HttpFault(`${hosts} Host fields`);
  return { method, target, version: version === '1.0' ? '1.0' : '1.1', fields };
}

/** The next response head. */
export async function readResponseHead(source: ByteSource): Promise<ResponseHead> {
  const line = await source.line();
  if (line === undefined) throw new CutShort('connection ended before a response');
  const match = /^HTTP\/(1\.[01]) (\d{3}) ([\t \x21-\x7e\x80-\xff]*)$/.exec(line);
  if (match === null) throw new HttpFault(`status line ${JSON.stringify(line)}`);
  const [, version, status, reason = ''] = match;
  const fields = await readFields(source);
  return { version: version === '1.0' ? '1.0' : '1.1', status: Number(status), reason, fields };
}

/** How the body of a request is delimited (RFC 9112 6.3); ambiguity is a fault. */
export function requestFraming(head: RequestHead): Framing {
  return declaredFraming(head.fields, head.version) ?? { kind: 'none' };
}

/** How the body of a response to `method` is delimited. */
export function responseFraming(head: ResponseHead, method: string): Framing {
  const declared = declaredFraming(head.fields, head.version);
  const { status } = head;
  const bodiless = method === 'HEAD' || status < 200 || status === 204 || status === 304;
  return bodiless ? { kind: 'none' } : (declared ?? { kind: 'close' });
}

/** Reads a body to its end, giving each piece to `take`; returns the trailer fields. */
export async function readBody(
  source: ByteSource,
  framing: Framing,
  take: (piece: Buffer) => void | Promise<void>,
): Promise<Fields> {
  switch (framing.kind) {
    case 'none':
      return [];
    case 'counted':
      await readCounted(source, framing.length, take);
      return [];
    case 'chunked':
      return readChunked(source, take);
    case 'close':
      for (;;) {
        const piece = await source.some(65536);
        if (piece !== undefined) {
          await take(piece);
          continue;
        }
        if (source.failure !== undefined) throw new CutShort('connection broke within a body');
        return [];
      }
    default:
      return framing satisfies never;
  }
}

async function readFields(source: ByteSource): Promise<Fields> {
  const fields: (readonly [string, string])[] = [];
  let bytes = 0;
  for (;;) {
    const line = await source.line();
    if (line === undefined) throw new CutShort('connection ended within a head');
    if (line === '') return fields;
    bytes += line.length;
    if (bytes > MAX_HEAD_BYTES) throw new HttpFault('head too large');
    const colon = line.indexOf(':');
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, '');
    if (colon < 1 || !TOKEN.test(name)) throw new HttpFault(`field line ${JSON.stringify(line)}`);
    if (!VALUE.test(value)) throw new HttpFault(`value of field ${name}`);
    fields.push([name, value]);
  }
}

function declaredFraming(fields: Fields, version: '1.0' | '1.1'): Framing | undefined {
  const codings = fieldValues(fields, 'transfer-encoding');
  const lengths = fieldValues(fields, 'content-length');
  if (codings.length > 0 && lengths.length > 0) throw new HttpFault('two kinds of framing');
  if (codings.length > 0) {
    if (version === '1.0') throw new HttpFault('Transfer-Encoding in HTTP/1.0');
    if (codings.length > 1 || codings[0] !== 'chunked') throw new HttpFault('transfer coding');
    return { kind: 'chunked' };
  }
  const [length] = lengths;
  if (length === undefined) return undefined;
  if (lengths.length > 1) throw new HttpFault('Content-Length twice');
  if (!/^(?:0|[1-9]\d{0,14})$/.test(length)) throw new HttpFault(`Content-Length ${length}`);
  return { kind: 'counted', length: Number(length) };
}

async function readCounted(
  source: ByteSource,
  length: number,
  take: (piece: Buffer) => void | Promise<void>,
): Promise<void> {
  let left = length;
  while (left > 0) {
    const piece = await source.some(left);
    if (piece === undefined) throw new CutShort(`connection ended, ${left} bytes of body missing`);
    left -= piece.length;
    await take(piece);
  }
}

async function readChunked(
  source: ByteSource,
  take: (piece: Buffer) => void | Promise<void>,
): Promise<Fields> {
  for (;;) {
    const line = await source.line();
    if (line === undefined) throw new CutShort('connection ended within a chunked body');
    // Extensions are legal, but a proxy drops them: one that arrives was forwarded.
    if (!/^[0-9A-Fa-f]{1,8}$/.test(line)) throw new HttpFault(`chunk line ${JSON.stringify(line)}`);
    const size = Number.parseInt(line, 16);
    if (size === 0) return readFields(source);
    await readCounted(source, size, take);
    if ((await source.exactly(2)).toString('latin1') !== '\r\n') throw new HttpFault('chunk end');
  }
}
