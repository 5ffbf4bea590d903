/** Properties of the parsers of src/wire over mutated messages, and the work they do per byte. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import type { AddressInfo, Socket, Server as TcpServer } from 'node:net';
import { test } from 'node:test';
import { ChunkedScanner, NEED_MORE } from '../../src/wire/chunked.ts';
import { RequestFields, RequestHead } from '../../src/wire/request-head.ts';
import { latin1, readRequest, readResponse } from '../unit/wire/support.ts';
import type { Message } from '../unit/wire/support.ts';
import { fuzz } from './wire-fuzz.ts';
import { makeRequest, makeResponse, Random } from './wire-grammar.ts';

/** `node <this file> <messages> <seed>` runs another number or repeats a seed. */
const [messageCount = '300000', seedText = String(Date.now() % 1_000_000_000)] =
  process.argv.slice(2);
const seed = Number(seedText);

test('mutated messages end the same however they are cut, and llhttp agrees with every accepted one', (t) => {
  const report = fuzz(Number(messageCount), seed);
  t.diagnostic(
    `seed ${report.seed}: ${report.messages} messages, ${report.acceptedRequests} requests and ${report.acceptedResponses} responses accepted, ${report.withChunks} in chunks`,
  );
  for (const [name, count] of report.differences) t.diagnostic(`${count} x ${name}`);
  assert.ok(report.acceptedRequests > report.messages / 20);
  assert.ok(report.acceptedResponses > report.messages / 20);
  assert.ok(report.withChunks > report.messages / 50);
});

test(
  'what is accepted, an http server of Node reads as the same request',
  { timeout: 20_000 },
  async (t) => {
    t.diagnostic(`seed ${seed}`);
    const seen: { method: string | undefined; target: string | undefined; body: string }[] = [];
    const note = async (incoming: IncomingMessage): Promise<void> => {
      const { method, url } = incoming;
      seen.push({ method, target: url, body: await readAll(incoming) });
    };
    const server = createServer((incoming, response) => {
      void note(incoming).finally(() => response.end());
    });
    await using open = await listen(server);
    const accepted = acceptedMessages(40, (random) => {
      const bytes = latin1(makeRequest(random));
      const outcome = readRequest(bytes);
      const isPlain = outcome.kind === 'message' && !isSpecialForServer(outcome);
      return isPlain ? { bytes, message: outcome } : undefined;
    });
    for (const { bytes, message } of accepted) {
      seen.length = 0;
      const socket = connect(open.port, '127.0.0.1');
      socket.end(forwardedForm(bytes, message));
      socket.resume();
      await once(socket, 'close');
      const { method, target } = message.head;
      assert.deepEqual(seen, [{ method, target, body: message.body }], bytes.toString('latin1'));
    }
  },
);

test(
  'what is accepted, an http client of Node reads as the same response',
  { timeout: 20_000 },
  async (t) => {
    t.diagnostic(`seed ${seed}`);
    let answer = latin1('');
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(answer));
    });
    await using open = await listen(server);
    const accepted = acceptedMessages(40, (random) => {
      const bytes = latin1(makeResponse(random));
      const outcome = readResponse(bytes);
      const isFinal = outcome.kind === 'message' && Number(outcome.head['status']) >= 200;
      return isFinal && outcome.head['upgrade'] === false ? { bytes, message: outcome } : undefined;
    });
    for (const { bytes, message } of accepted) {
      answer = forwardedForm(bytes, message);
      const sent = request({ port: open.port, host: '127.0.0.1', agent: false });
      sent.end();
      const [incoming] = (await once(sent, 'response')) as [IncomingMessage];
      const body = await readAll(incoming);
      assert.deepEqual(
        { status: incoming.statusCode, body },
        { status: message.head['status'], body: message.body },
        bytes.toString('latin1'),
      );
    }
  },
);

test('the work per byte of a head does not grow with its length or the number of pieces', () => {
  for (const makeHead of [oneLongValue, manyLines, manyOptions, oneLongTarget]) {
    const small = countReads(makeHead(4000));
    const large = countReads(makeHead(32_000));
    assert.ok(large / small < 8 * 1.3, `${makeHead.name}: ${small} reads, then ${large}`);
    assert.ok(large < 32_000 * 8, `${makeHead.name}: ${large} reads`);
  }
});

test('the work per byte of a body in small chunks does not grow with its length', () => {
  const readsOf = (chunks: number): number => {
    const bytes = latin1('1;a\r\nx\r\n'.repeat(chunks));
    const counted = countingBuffer(bytes);
    const scanner = new ChunkedScanner();
    const sink = { put: (): void => undefined };
    for (let i = 0; i < bytes.length; i += 1) {
      assert.equal(scanner.scan(counted.buffer, i, i + 1, sink, true), NEED_MORE);
    }
    return counted.reads();
  };
  assert.equal(readsOf(4000), readsOf(500) * 8);
  assert.ok(readsOf(500) <= 8 * 500 * 2);
});

function oneLongValue(length: number): string {
  return `GET / HTTP/1.1\r\nHost: h\r\nX: ${'a'.repeat(length)}\r\n\r\n`;
}
function manyLines(length: number): string {
  return `GET / HTTP/1.1\r\nHost: h\r\n${'Via: a\r\n'.repeat(length / 8)}\r\n`;
}
function manyOptions(length: number): string {
  const options = Array.from({ length: length / 16 }, (_, i) => `x${i}`.padEnd(7, 'y')).join();
  return `GET / HTTP/1.1\r\nHost: h\r\nConnection: ${options}\r\n${'x1yyyyy:\r\n'.repeat(length / 20)}\r\n`;
}
function oneLongTarget(length: number): string {
  return `GET /${'a'.repeat(length / 2)}?${'b'.repeat(length / 2)} HTTP/1.1\r\nHost: h\r\n\r\n`;
}

/** Byte reads of a parse that gets the head byte by byte. */
function countReads(text: string): number {
  const bytes = latin1(text);
  const counted = countingBuffer(bytes);
  const head = new RequestHead(new RequestFields([]));
  const limits = { maxBytes: 1 << 20, maxFields: 1 << 20 };
  let result = head.parse(counted.buffer, 0, 1, limits);
  for (let end = 2; result === 0 && end <= bytes.length; end += 1) {
    result = head.resume(counted.buffer, end);
  }
  assert.equal(result, bytes.length, head.faultDetail);
  return counted.reads();
}

/** A buffer that counts the bytes read from it; what a native method reads is counted as its range. */
function countingBuffer(bytes: Buffer): { buffer: Buffer; reads: () => number } {
  let reads = 0;
  const buffer = new Proxy(bytes, {
    get(target, key): unknown {
      if (typeof key === 'string' && /^\d+$/.test(key)) {
        reads += 1;
        return target[Number(key)];
      }
      if (key === 'indexOf') {
        return (value: number, from: number): number => {
          const found = target.indexOf(value, from);
          reads += (found < 0 ? target.length : found + 1) - from;
          return found;
        };
      }
      if (key === 'toString') {
        return (encoding: BufferEncoding, start: number, end: number): string => {
          reads += end - start;
          return target.toString(encoding, start, end);
        };
      }
      return Reflect.get(target, key, target);
    },
  });
  return { buffer, reads: () => reads };
}

interface Accepted {
  readonly bytes: Buffer;
  readonly message: Message;
}

/** The head as it came and the body as it is forwarded: without extensions and trailers. */
function forwardedForm(bytes: Buffer, message: Message): Buffer {
  const head = bytes.toString('latin1', 0, Number(message.head['headEnd']));
  return latin1(head + message.forwarded);
}

function acceptedMessages(
  count: number,
  make: (random: Random) => Accepted | undefined,
): readonly Accepted[] {
  const found: Accepted[] = [];
  for (let i = 0; found.length < count; i += 1) {
    const accepted = make(new Random(seed + i));
    if (accepted !== undefined) found.push(accepted);
  }
  return found;
}

/** What an http server answers by itself, or hands to other events than 'request'. */
function isSpecialForServer({ head, known }: Message): boolean {
  const method = String(head['method']);
  const isCommon = ['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'OPTIONS', 'PROPFIND'].includes(method);
  // Node looks for the Connection field before it finds that there is an Upgrade field.
  return !isCommon || head['upgrade'] === true || known.some(({ id }) => id === 8);
}

async function readAll(stream: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of stream) text += (part as Buffer).toString('latin1');
  return text;
}

/** Listens on a port of its own; disposing drops all connections, so that a failure ends the test. */
async function listen(server: Server | TcpServer): Promise<AsyncDisposable & { port: number }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
