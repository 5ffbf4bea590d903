/** Bodies both ways: sizes around every buffer, counted and chunked, cut in odd places, and cut off. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { ShapedResponse } from '../support/upstream-options.ts';
import { startWorld, type WorldSetup } from './http-world.ts';

const SIZES = [0, 1, 8191, 8192, 8193, 65_536, 1 << 20];

/** Bytes that differ from place to place, so that a lost or doubled one shows. */
function bytesOf(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let i = 0; i < size; i += 1) bytes[i] = (i * 31 + (i >> 8)) & 0xff;
  return bytes;
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A chunked message in chunks of `size`, extensions and trailers included. */
function chunks(body: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) {
    const piece = body.subarray(at, at + size);
    parts.push(Buffer.from(`${piece.length.toString(16)};a=b;c="d"\r\n`), piece, CRLF);
  }
  return Buffer.concat([...parts, Buffer.from('0;last\r\nX-Sum: 1\r\n\r\n')]);
}

const CRLF = Buffer.from('\r\n');

interface Seen {
  readonly bodyLength: number;
  readonly bodySha256: string;
}

for (const engine of ['handle', 'public'] as const) {
  describe(`a request body (engine ${engine})`, () => {
    for (const size of SIZES) {
      it(`of ${size} bytes arrives whole, counted and chunked`, async () => {
        await using world = await startWorld({ engine });
        await using client = await world.connect();
        const body = bytesOf(size);
        await client.request('POST /', { 'Content-Length': String(size) }, body);
        const counted = (await client.response()).json() as Seen;
        assert.deepEqual([counted.bodyLength, counted.bodySha256], [size, sha256(body)]);
        await client.request('PUT /', { 'Transfer-Encoding': 'chunked' }, chunks(body, 5000));
        const chunked = (await client.response()).json() as Seen;
        assert.deepEqual([chunked.bodyLength, chunked.bodySha256], [size, sha256(body)]);
        assert.equal(world.upstream.journal.sockets.length, 1);
        assert.deepEqual(world.upstream.requests[1]?.trailers, []);
      });
    }

    it('arrives whole however it is cut', async () => {
      await using world = await startWorld({ engine });
      await using client = await world.connect();
      const body = bytesOf(300);
      const head = 'POST / HTTP/1.1\r\nHost: localhost\r\n';
      const messages = [
        Buffer.concat([Buffer.from(`${head}Content-Length: 300\r\n\r\n`), body]),
        Buffer.concat([Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`), chunks(body, 70)]),
      ];
      for (const message of messages) {
        await client.send(message, 'every-byte');
        const seen = (await client.response()).json() as Seen;
        assert.deepEqual([seen.bodyLength, seen.bodySha256], [300, sha256(body)]);
      }
    });
  });

  describe(`the body of an answer (engine ${engine})`, () => {
    for (const framing of ['counted', 'chunked', 'close'] as const) {
      it(`that is ${framing} arrives whole in every size`, async () => {
        const setup: WorldSetup = {
          engine,
          handler: ({ target }) => ({ body: bytesOf(Number(target.slice(1))), framing }),
        };
        await using world = await startWorld(setup);
        await using client = await world.connect();
        for (const size of SIZES) {
          await client.request(`GET /${size}`);
          const { status, body, trailers, field } = await client.response();
          assert.equal(status, 200);
          assert.ok(body.equals(bytesOf(size)), `${size} bytes`);
          assert.deepEqual(trailers, []);
          assert.equal(field('transfer-encoding'), framing === 'counted' ? undefined : 'chunked');
        }
        const sockets = framing === 'close' ? SIZES.length : 1;
        assert.equal(world.upstream.journal.sockets.length, sockets);
      });
    }
  });
}

describe('an answer whose every byte is a write of its own', () => {
  const SHAPES: Readonly<Record<string, ShapedResponse>> = {
    counted: { body: bytesOf(100), fields: [['X-A', 'b']] },
    chunked: { body: bytesOf(100), framing: 'chunked', chunkBytes: 7, trailers: [['X-T', '1']] },
    close: { body: bytesOf(100), framing: 'close' },
    interim: { body: bytesOf(100), interim: [{ status: 103 }, { status: 100 }] },
  };
  for (const [name, shape] of Object.entries(SHAPES)) {
    it(`arrives as it was meant: ${name}`, async () => {
      await using world = await startWorld({
        upstream: { splitEveryByte: true },
        handler: () => shape,
        route: 'rewriteCookies: true',
      });
      await using client = await world.connect();
      for (let i = 0; i < 2; i += 1) {
        await client.request('GET /');
        assert.ok((await client.response()).body.equals(bytesOf(100)));
      }
    });
  }
});

describe('an answer to HEAD', () => {
  it('has the fields and no body, and the connection goes on', async () => {
    await using world = await startWorld({ handler: () => ({ body: 'x'.repeat(5000) }) });
    await using client = await world.connect();
    await client.request('HEAD /');
    const { field, body } = await client.response('HEAD');
    assert.deepEqual([field('content-length'), body.length], ['5000', 0]);
    await client.request('GET /');
    assert.equal((await client.response()).body.length, 5000);
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('with a body costs the upstream its socket and goes no further (E7)', async () => {
    await using world = await startWorld({
      handler: ({ method }) => ({ body: 'abc', ...(method === 'HEAD' ? { extra: 'abc' } : {}) }),
    });
    await using client = await world.connect();
    await client.request('HEAD /');
    assert.equal((await client.response('HEAD')).body.length, 0);
    await client.request('GET /');
    assert.equal((await client.response()).body.toString(), 'abc');
    assert.equal(world.upstream.journal.sockets.length, 2);
  });
});

describe('an answer without content', () => {
  it('of 304 keeps its Content-Length (E6), and the connection goes on', async () => {
    await using world = await startWorld({
      handler: ({ target }) =>
        target === '/304'
          ? {
              status: 304,
              fields: [
                ['Content-Length', '4500'],
                ['ETag', '"x"'],
              ],
            }
          : { status: 204 },
    });
    await using client = await world.connect();
    for (const [target, status, length] of [
      ['/304', 304, '4500'],
      ['/204', 204, undefined],
      ['/304', 304, '4500'],
    ] as const) {
      await client.request(`GET ${target}`);
      const answer = await client.response();
      assert.deepEqual([answer.status, answer.field('content-length')], [status, length]);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('that brings some all the same: it is dropped, and the socket with it (E5)', async () => {
    await using world = await startWorld({
      handler: ({ target }) => ({
        status: Number(target.slice(1)),
        framing: 'none',
        extra: 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil',
      }),
    });
    await using client = await world.connect();
    for (const status of [204, 304, 204]) {
      await client.request(`GET /${status}`);
      assert.equal((await client.response()).status, status);
    }
    assert.equal(world.upstream.journal.sockets.length, 3);
  });
});
