/**
 * Puts the answers of the scripted upstream on the wire: framing, interim answers, trailers, echo
 * after 101. What is answered is decided elsewhere.
 */

import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteSource, Fields } from './strict-http.ts';
import type {
  Afterwards,
  ResponseScript,
  ShapedResponse,
  UpgradeAnswer,
  UpstreamRequest,
  UpstreamWire,
} from './upstream-options.ts';

/** One socket of the upstream, with its own way of ending by FIN or RST. */
export interface AnswerSocket {
  readonly stream: Duplex;
  readonly source: ByteSource;
  readonly gone: Promise<void>;
  readonly splitEveryByte: boolean;
}

/** Writes `bytes` (text is latin1), waiting for room; does nothing once the peer is gone. */
export async function writeBytes(socket: AnswerSocket, bytes: string | Uint8Array): Promise<void> {
  const all = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
  if (!socket.splitEveryByte) return writePiece(socket, all);
  for (let at = 0; at < all.length; at += 1) {
    await writePiece(socket, all.subarray(at, at + 1));
    await nextTurn();
  }
}

/** Writes one answer to `request` and says how the connection goes on. */
export async function writeAnswer(
  socket: AnswerSocket,
  request: { readonly method: string; readonly field: (name: string) => string | undefined },
  script: ResponseScript,
): Promise<Afterwards> {
  if ('run' in script) return script.run(wireOf(socket));
  if ('upgrade' in script) return upgrade(socket, request, script);
  if ('raw' in script) {
    await writeBytes(socket, script.raw);
    return script.after ?? 'keep';
  }
  return writeShaped(socket, request.method, script);
}

/** The status that a script answers with, as far as it can be known. */
export function scriptStatus(script: ResponseScript): number {
  if ('upgrade' in script) return 101;
  if ('raw' in script || 'run' in script) return 0;
  return script.status ?? 200;
}

/** The default answer: JSON about the request, with the user in `X-User` too. */
export function describeRequest(request: UpstreamRequest): ShapedResponse {
  const { socketId, nth, user, method, target, bodyLength, bodySha256 } = request;
  const facts = { socket: socketId, nth, user, method, target, bodyLength, bodySha256 };
  return {
    fields: [
      ['Content-Type', 'application/json'],
      ['X-User', user ?? ''],
      ['X-Socket', String(socketId)],
    ],
    body: JSON.stringify(facts),
  };
}

/** A chunked body, with trailers. */
export function chunked(body: Uint8Array, chunkBytes: number, trailers: Fields = []): Buffer {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < body.length; at += chunkBytes) {
    const piece = body.subarray(at, at + chunkBytes);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  parts.push(Buffer.from(`0\r\n${formatFields(trailers)}\r\n`, 'latin1'));
  return Buffer.concat(parts);
}

function formatFields(fields: Fields): string {
  return fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
}

function formatHead(version: string, status: number, reason: string, fields: Fields): string {
  return `HTTP/${version} ${status} ${reason}\r\n${formatFields(fields)}\r\n`;
}

async function writeShaped(
  socket: AnswerSocket,
  method: string,
  shape: ShapedResponse,
): Promise<Afterwards> {
  for (const { status, fields } of shape.interim ?? []) {
    await writeBytes(socket, formatHead('1.1', status, STATUS_CODES[status] ?? '', fields ?? []));
  }
  const status = shape.status ?? 200;
  const body = Buffer.from(shape.body ?? '');
  const framing = shape.framing ?? (status === 204 || status === 304 ? 'none' : 'counted');
  const after = framing === 'close' ? 'fin' : (shape.after ?? 'keep');
  const fields: (readonly [string, string])[] = [
    ...(shape.fields ?? []),
    ...(framing === 'counted' ? ([['Content-Length', String(body.length)]] as const) : []),
    ...(framing === 'chunked' ? ([['Transfer-Encoding', 'chunked']] as const) : []),
    ...(after === 'fin' && shape.silent !== true ? ([['Connection', 'close']] as const) : []),
  ];
  const reason = shape.reason ?? STATUS_CODES[status] ?? '';
  const head = Buffer.from(formatHead(shape.version ?? '1.1', status, reason, fields), 'latin1');
  const noBody = method === 'HEAD' || framing === 'none';
  const payload =
    framing === 'chunked' ? chunked(body, shape.chunkBytes ?? 1000, shape.trailers) : body;
  const extra = Buffer.from(shape.extra ?? '');
  await writeBytes(socket, Buffer.concat(noBody ? [head, extra] : [head, payload, extra]));
  return after;
}

async function writePiece(socket: AnswerSocket, bytes: Uint8Array): Promise<void> {
  const { stream } = socket;
  if (bytes.length === 0 || stream.destroyed || !stream.writable) return;
  if (stream.write(bytes)) return;
  const room = Promise.withResolvers<void>();
  const onDrain = (): void => room.resolve();
  stream.once('drain', onDrain);
  await Promise.race([room.promise, socket.gone]);
  stream.off('drain', onDrain);
}

function wireOf(socket: AnswerSocket): UpstreamWire {
  return {
    write: (bytes) => writeBytes(socket, bytes),
    some: (max) => socket.source.some(max),
    end: () => void socket.stream.end(),
    gone: socket.gone,
  };
}

async function upgrade(
  socket: AnswerSocket,
  request: { readonly field: (name: string) => string | undefined },
  answer: UpgradeAnswer,
): Promise<Afterwards> {
  const key = request.field('sec-websocket-key');
  const fields: (readonly [string, string])[] = [
    ['Connection', 'Upgrade'],
    ['Upgrade', answer.upgrade],
  ];
  if (key !== undefined) fields.push(['Sec-WebSocket-Accept', acceptKey(key)]);
  await writeBytes(socket, formatHead('1.1', 101, 'Switching Protocols', fields));
  if (answer.upgrade === 'websocket' && answer.closeAfterBytes === undefined) {
    return echoMessages(socket);
  }
  return echoBytes(socket, answer.closeAfterBytes ?? Infinity);
}

/** RFC 6455 4.2.2, step 5.4. */
function acceptKey(key: string): string {
  const magic = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  return createHash('sha1').update(`${key}${magic}`).digest('base64');
}

async function echoBytes(socket: AnswerSocket, limit: number): Promise<Afterwards> {
  for (let count = 0; count < limit;) {
    const piece = await socket.source.some(Math.min(limit - count, 65536));
    if (piece === undefined) break;
    count += piece.length;
    await writeBytes(socket, piece);
  }
  return 'fin';
}

/** Echoes whole frames unmasked until a close frame, which is answered (RFC 6455 5.2, 5.5.1). */
async function echoMessages(socket: AnswerSocket): Promise<Afterwards> {
  for (;;) {
    if (!(await socket.source.ready())) return 'fin';
    const [first = 0, second = 0] = await socket.source.exactly(2);
    const length = await frameLength(socket.source, second & 0x7f);
    const mask = await socket.source.exactly(4);
    const masked = await socket.source.exactly(length);
    const payload = masked.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
    await writeBytes(socket, Buffer.concat([frameHead(first, length), payload]));
    if ((first & 0x0f) === 8) return 'fin';
  }
}

async function frameLength(source: ByteSource, short: number): Promise<number> {
  if (short < 126) return short;
  if (short === 126) return (await source.exactly(2)).readUInt16BE(0);
  return Number((await source.exactly(8)).readBigUInt64BE(0));
}

function frameHead(first: number, length: number): Buffer {
  if (length < 126) return Buffer.from([first, length]);
  const long = length > 0xffff;
  const head = Buffer.alloc(long ? 10 : 4);
  head[0] = first;
  head[1] = long ? 127 : 126;
  if (long) head.writeBigUInt64BE(BigInt(length), 2);
  else head.writeUInt16BE(length, 2);
  return head;
}
