/**
 * An HTTP/2 caller of exact frames (RFC 9113 4): what no client library would send, and what a server
 * sends back, frame by frame. Field blocks are written without Huffman coding and without indexing.
 */

import { createConnection, type Socket } from 'node:net';
import { event, until } from './waiting.ts';

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const;

export const FLAG = { endStream: 1, ack: 1, endHeaders: 4 } as const;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array | string = '',
): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload;
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** Literal fields (RFC 7541 6.2.2) in the order given. */
export function fieldBlock(fields: readonly (readonly [string, string])[]): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value, 'latin1');
    return Buffer.concat([integer(bytes.length), bytes]);
  };
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

/** A length with a prefix of 7 bits (RFC 7541 5.1). */
function integer(value: number): Buffer {
  if (value < 127) return Buffer.of(value);
  const bytes = [127];
  for (let rest = value - 127; ; rest >>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}

/** Of the static table (RFC 7541 A). */
const STATUSES: ReadonlyMap<number, number> = new Map([
  [0x88, 200],
  [0x89, 204],
  [0x8a, 206],
  [0x8b, 304],
  [0x8c, 400],
  [0x8d, 404],
  [0x8e, 500],
]);

/** Digits in the Huffman code of RFC 7541 B. */
const DIGITS = ['00000', '00001', '00010', '011001', '011010', '011011', '011100', '011101'];

/** `:status` is the first field of an answer. */
function firstStatus(block: Buffer): number {
  const [first = 0, length = 0] = block;
  const known = STATUSES.get(first);
  if (known !== undefined) return known;
  const value = block.subarray(2, 2 + (length & 0x7f));
  if ((length & 0x80) === 0) return Number(value.toString('latin1'));
  let bits = Array.from(value, (byte) => byte.toString(2).padStart(8, '0')).join('');
  let digits = '';
  while (digits.length < 3) {
    const digit = [...DIGITS, '011110', '011111'].findIndex((code) => bits.startsWith(code));
    if (digit < 0) throw new Error('the status is no number');
    digits += digit;
    bits = bits.slice(digit < 3 ? 5 : 6);
  }
  return Number(digits);
}

/** One connection; ended by `await using`. */
export class FrameClient {
  readonly frames: Frame[] = [];
  readonly socket: Socket;
  readonly #authority: string;
  #rest: Buffer = Buffer.alloc(0);
  ended = false;

  constructor(socket: Socket, authority: string) {
    this.socket = socket;
    this.#authority = authority;
    socket.on('error', () => undefined);
    socket.on('close', () => (this.ended = true));
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
  }

  /** Connects, and says the preface with an empty SETTINGS. */
  static async connect(port: number): Promise<FrameClient> {
    const socket = createConnection({ host: '127.0.0.1', port, noDelay: true });
    await event(socket, 'connect');
    const client = new FrameClient(socket, `127.0.0.1:${port}`);
    client.write(Buffer.from(PREFACE, 'latin1'), frame(FRAME.settings, 0, 0));
    return client;
  }

  write(...frames: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(frames));
  }

  /** Fields of a request that a listener serves, with these in their place or behind. */
  request(fields: readonly (readonly [string, string])[] = []): (readonly [string, string])[] {
    const usual: [string, string][] = [
      [':method', 'GET'],
      [':scheme', 'http'],
      [':authority', this.#authority],
      [':path', '/'],
    ];
    const given = new Map(fields);
    return [
      ...usual.map(([name, value]) => [name, given.get(name) ?? value] as const),
      ...fields.filter(([name]) => usual.every(([known]) => known !== name)),
    ];
  }

  /** A whole HEADERS frame; the stream ends with it unless `more` follows. */
  headers(
    stream: number,
    fields: readonly (readonly [string, string])[],
    more: 'body' | 'nothing' = 'nothing',
  ): Buffer {
    const ends = more === 'body' ? 0 : FLAG.endStream;
    return frame(FRAME.headers, FLAG.endHeaders | ends, stream, fieldBlock(fields));
  }

  of(stream: number, type: number): Frame[] {
    return this.frames.filter((one) => one.stream === stream && one.type === type);
  }

  /** Whether the stream was ended by a frame of the server that says so. */
  endedCleanly(stream: number): boolean {
    return this.frames.some(
      ({ stream: id, type, flags }) =>
        id === stream && type <= FRAME.headers && (flags & FLAG.endStream) !== 0,
    );
  }

  /** The status of the first answer on a connection, if it came. */
  statusOf(stream: number): number | undefined {
    const block = this.of(stream, FRAME.headers)[0]?.payload;
    return block === undefined ? undefined : firstStatus(block);
  }

  /** What became of a stream that was answered or reset, or whose connection ended. */
  async outcome(stream: number): Promise<number | 'reset' | 'closed'> {
    const known = (): boolean => this.statusOf(stream) !== undefined || this.ended;
    await until(() => known() || this.resetOf(stream) !== undefined, 'an answer');
    return this.statusOf(stream) ?? (this.resetOf(stream) === undefined ? 'closed' : 'reset');
  }

  /** The code of RST_STREAM, if one came. */
  resetOf(stream: number): number | undefined {
    return this.of(stream, FRAME.reset)[0]?.payload.readUInt32BE(0);
  }

  /** The code of GOAWAY, if one came. */
  get goaway(): number | undefined {
    return this.of(0, FRAME.goaway).at(-1)?.payload.readUInt32BE(4);
  }

  async saw(condition: () => boolean, what: string): Promise<void> {
    await until(condition, what);
  }

  async gone(): Promise<void> {
    await until(() => this.ended, 'end of the connection');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.gone();
  }

  #take(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#rest.length >= 9) {
      const end = 9 + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) return;
      const [type = 0, flags = 0] = this.#rest.subarray(3, 5);
      const stream = this.#rest.readUInt32BE(5) & 0x7fffffff;
      this.frames.push({ type, flags, stream, payload: this.#rest.subarray(9, end) });
      this.#rest = this.#rest.subarray(end);
      if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
        this.write(frame(FRAME.settings, FLAG.ack, 0));
      }
    }
  }
}
