/**
 * Floods over HTTP/2 (hostile-inputs.md G10): the connection ends, what reached the upstream is bounded,
 * and callers on other connections are served as before.
 */

import assert from 'node:assert/strict';
import { constants } from 'node:http2';
import { describe, it } from 'node:test';
import { stalled, startWorld, type World } from '../flow/http-world.ts';
import { fieldBlock, FLAG, FRAME, frame, FrameClient } from '../support/h2-frames.ts';
import { Gate } from '../support/waiting.ts';

const HTTP2 = 'http2: true';
const CANCEL = Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL);
const LARGE_HEADS = { maxSendHeaderBlockLength: 1 << 20 } as const;
const stream = (nth: number): number => 2 * nth + 1;

const connect = (world: World): Promise<FrameClient> =>
  FrameClient.connect(world.daemon.address().port);

/** Another caller is served, and nothing of the flood is left. */
async function assertServes(world: World): Promise<void> {
  await using client = await world.connectHttp2();
  assert.equal((await client.ask('GET /other')).status, 200);
  await world.daemon.measured(
    (seen) => seen.sum('sidekerb_upstream_connections', { state: 'active' }) === 0,
    'no request at the upstream',
  );
}

describe('an HTTP/2 caller', () => {
  for (const method of ['GET', 'HEAD', 'POST']) {
    for (const code of [constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR]) {
      it(`who resets each ${method} with code ${code} is told to be calm, and is gone`, async () => {
        await using world = await startWorld({ listener: HTTP2 });
        await using client = await connect(world);
        const fields = client.request([[':method', method]]);
        const more = method === 'POST' ? 'body' : 'nothing';
        for (let nth = 0; nth < 2000 && !client.ended; nth += 1) {
          const id = stream(nth);
          const reset = frame(FRAME.reset, 0, id, Buffer.of(0, 0, 0, code));
          client.write(client.headers(id, fields, more), reset);
          if (nth % 50 === 0) await stalled(() => client.frames.length);
        }
        await client.gone();
        assert.equal(client.goaway, constants.NGHTTP2_ENHANCE_YOUR_CALM);
        const { length } = world.upstream.requests;
        assert.ok(length < 400, `${length} requests`);
        await assertServes(world);
      });
    }
  }

  // CVE-2025-8671: each of these is answered with an RST_STREAM, or ends the connection.
  const errors: [title: string, more: 'body' | 'nothing', type: number, payload: Buffer][] = [
    ['a window of more than 2^31 - 1', 'body', FRAME.window, Buffer.of(0x7f, 0xff, 0xff, 0xff)],
    ['a window of nothing', 'body', FRAME.window, Buffer.of(0, 0, 0, 0)],
    ['a priority of the wrong length', 'body', FRAME.priority, Buffer.of(0)],
    ['DATA behind the end', 'nothing', FRAME.data, Buffer.of(1)],
  ];
  for (const [title, more, type, payload] of errors) {
    it(`who makes the daemon reset streams by ${title} is gone`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await connect(world);
      for (let nth = 0; nth < 2000 && !client.ended; nth += 1) {
        const id = stream(nth);
        const head = client.headers(id, client.request([[':path', '/x']]), more);
        client.write(head, frame(type, 0, id, payload));
        if (nth % 50 === 0) await stalled(() => client.frames.length);
      }
      await client.gone();
      assert.notEqual(client.goaway, constants.NGHTTP2_NO_ERROR);
      assert.ok(world.upstream.requests.length < 400, `${world.upstream.requests.length} requests`);
      await assertServes(world);
    });
  }

  it('who leaves pages as a browser does is served', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await connect(world);
    for (let nth = 0; nth < 100; nth += 1) {
      const id = stream(nth);
      client.write(client.headers(id, client.request()), frame(FRAME.reset, 0, id, CANCEL));
    }
    client.write(client.headers(stream(100), client.request()));
    await client.saw(() => client.endedCleanly(stream(100)), 'an answer');
  });

  it('has at most 128 requests in work, the others are refused', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: HTTP2,
      upstreamKeys: 'pool: { maxConnections: 500, maxPerPrincipal: 500 }',
      handler: async ({ target }) => {
        if (target === '/') await gate.pass();
        return { body: '' };
      },
    });
    await using client = await connect(world);
    for (let nth = 0; nth < 200; nth += 1) {
      client.write(client.headers(stream(nth), client.request()));
    }
    await client.saw(() => client.resetOf(stream(199)) !== undefined, 'a refusal');
    assert.equal(client.resetOf(stream(199)), constants.NGHTTP2_REFUSED_STREAM);
    await world.upstream.saw(() => gate.arrivals === 128, '128 requests');
    gate.open();
    await client.saw(() => client.endedCleanly(stream(127)), 'an answer');
    assert.equal(world.upstream.requests.length, 128);
    await assertServes(world);
  });

  const many = (one: Buffer): Buffer => Buffer.concat(Array.from({ length: 1000 }, () => one));
  const SETTINGS = many(frame(FRAME.settings, 0, 0, Buffer.of(0, 4, 0, 0, 0xff, 0xff)));
  const PINGS = many(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  const floods: [title: string, frames: (client: FrameClient, nth: number) => Buffer][] = [
    // So many that their acknowledgements do not fit into what two kernels keep.
    ['SETTINGS', () => SETTINGS],
    ['PING', () => PINGS],
    [
      'CONTINUATION',
      (client, nth) =>
        nth === 0
          ? frame(FRAME.headers, 0, 1, fieldBlock(client.request()))
          : frame(FRAME.continuation, 0, 1, fieldBlock([['x', 'y'.repeat(1000)]])),
    ],
    [
      'empty CONTINUATION',
      (_client, nth) => frame(nth === 0 ? FRAME.headers : FRAME.continuation, 0, 1),
    ],
    [
      'empty DATA',
      (client, nth) =>
        nth === 0 ? client.headers(1, client.request(), 'body') : frame(FRAME.data, 0, 1),
    ],
    [
      'a malformed head',
      (client, nth) => client.headers(stream(nth), client.request([['connection', 'close']])),
    ],
    [
      'a head beyond every limit',
      (client, nth) => {
        const fields = client.request([['x', 'y'.repeat(15_000)]]);
        return frame(
          nth % 30 === 0 ? FRAME.headers : FRAME.continuation,
          0,
          1,
          fieldBlock(nth % 30 === 0 ? fields : [['x', 'y'.repeat(15_000)]]),
        );
      },
    ],
  ];
  for (const [title, frames] of floods) {
    it(`who sends ${title} without end, and reads nothing, is gone`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await connect(world);
      client.socket.pause();
      for (let nth = 0; nth < 20_000 && !client.socket.destroyed; nth += 1) {
        client.write(frames(client, nth));
        if (nth % 100 === 99) await stalled(() => client.socket.writableLength);
      }
      client.socket.resume();
      await client.gone();
      assert.ok(world.upstream.requests.length <= 1);
      await assertServes(world);
    });
  }

  it('whose head comes in pieces has no more time than others', async () => {
    await using world = await startWorld({ listener: `${HTTP2}, timeouts: { head: 300ms }` });
    await using client = await connect(world);
    await client.saw(() => client.of(0, FRAME.settings).length === 2, 'both SETTINGS');
    client.write(frame(FRAME.headers, FLAG.endStream, 1, fieldBlock(client.request())));
    await client.gone();
    assert.equal(client.goaway, constants.NGHTTP2_NO_ERROR);
    assert.equal(world.upstream.requests.length, 0);
  });

  it('with a head over the limit of the listener is 431, over every limit is reset', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2(LARGE_HEADS);
    const fields = (count: number): Record<string, string> =>
      Object.fromEntries(
        Array.from({ length: count }, (_, nth) => [`x-${nth}`, 'y'.repeat(15_000)]),
      );
    assert.equal((await client.ask('GET /', fields(5))).status, 431);
    await using again = await world.connectHttp2(LARGE_HEADS);
    assert.equal((await again.ask('GET /', fields(20))).status, 0);
    assert.equal(world.upstream.requests.length, 0);
    await assertServes(world);
  });
});
