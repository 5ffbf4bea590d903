/** HTTP/2 callers who go away or do not read: the upstream is never told a part for the whole. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { describe, it } from 'node:test';
import { answerOf } from '../support/h2-client.ts';
import { FRAME, frame, FrameClient } from '../support/h2-frames.ts';
import type { UpstreamWire } from '../support/upstream-options.ts';
import { Gate, within } from '../support/waiting.ts';
import { stalled, startWorld, type World } from './http-world.ts';

const HTTP2 = 'http2: true';

/** Far more than all buffers on the way, and than two kernels keep. */
const TOTAL = 48 << 20;
const MUCH = 20 << 20;
const PIECE = Buffer.alloc(1 << 16, 'abcdefgh');

async function freed(world: World): Promise<void> {
  await world.daemon.measured(
    (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
    'no upstream connection',
  );
}

describe('an HTTP/2 caller who goes away', () => {
  for (const method of ['GET', 'HEAD', 'POST']) {
    it(`from a ${method} that nobody has answered ends it at the upstream (R17)`, async () => {
      await using world = await startWorld({
        listener: HTTP2,
        handler: ({ target }) =>
          target === '/' ? { run: async (wire) => (await wire.gone, 'reset') } : { body: '' },
      });
      await using client = await world.connectHttp2();
      const stream = client.open({ ':method': method, ':path': '/' }, { ends: true });
      await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the request');
      stream.close(constants.NGHTTP2_CANCEL);
      await freed(world);
      assert.equal((await client.ask('GET /next')).status, 200);
      await world.daemon.logged(/"reason":"downstream-closed"/);
    });
  }

  it('from a download ends it at the upstream (R17)', async () => {
    const run = async (wire: UpstreamWire): Promise<'reset'> => {
      await wire.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nhalf');
      await wire.gone;
      return 'reset';
    };
    await using world = await startWorld({ listener: HTTP2, handler: () => ({ run }) });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'GET', ':path': '/' }, { ends: true });
    await once(stream, 'data');
    stream.close(constants.NGHTTP2_CANCEL);
    await freed(world);
  });

  const ways = { 'RST_STREAM CANCEL': 8, 'RST_STREAM NO_ERROR': 0, 'a lost connection': -1 };
  for (const [way, code] of Object.entries(ways)) {
    for (const length of [undefined, '10']) {
      const framing = length === undefined ? 'chunks' : 'a length';
      it(`within an upload in ${framing}, by ${way}, has not sent a whole one (C18)`, async () => {
        await using world = await startWorld({ listener: HTTP2 });
        // Node's own client ends a stream before it resets it.
        await using client = await FrameClient.connect(world.daemon.address().port);
        const more: [string, string][] = length === undefined ? [] : [['content-length', length]];
        const fields = client.request([[':method', 'POST'], ...more]);
        client.write(client.headers(1, fields, 'body'), frame(FRAME.data, 0, 1, 'half'));
        await world.upstream.saw(() => world.upstream.requests[0]?.bodyLength === 4, 'half');
        if (code < 0) client.socket.resetAndDestroy();
        else client.write(frame(FRAME.reset, 0, 1, Buffer.of(0, 0, 0, code)));
        await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its end');
        assert.equal(world.upstream.requests[0]?.bodyComplete, false);
        await using next = await world.connectHttp2();
        assert.equal((await next.ask('GET /')).status, 200);
      });
    }
  }

  it('from an upload that was answered early is told to stop, once he has the answer', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await FrameClient.connect(world.daemon.address().port);
    const fields = client.request([[':method', 'TRACE']]);
    client.write(client.headers(1, fields, 'body'), frame(FRAME.data, 0, 1, 'half'));
    await client.saw(() => client.resetOf(1) !== undefined, 'RST_STREAM');
    assert.deepEqual([client.statusOf(1), client.resetOf(1)], [405, constants.NGHTTP2_NO_ERROR]);
    assert.ok(client.endedCleanly(1));
  });

  for (const method of ['HEAD', 'TRACE', 'POST']) {
    it(`leaves nothing of a ${method} with a body that he reset with NO_ERROR`, async () => {
      const keys = `${HTTP2}, timeouts: { idle: 100ms }`;
      await using world = await startWorld({ listener: keys });
      await using client = await FrameClient.connect(world.daemon.address().port);
      client.write(
        client.headers(1, client.request([[':method', method]]), 'body'),
        frame(FRAME.data, 0, 1, 'half'),
        frame(FRAME.reset, 0, 1, Buffer.of(0, 0, 0, constants.NGHTTP2_NO_ERROR)),
      );
      // Idle: no stream is left.
      await client.gone();
    });
  }

  it('with an upload that was answered early may end it himself', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    const { status, rstCode } = await client.ask('TRACE /', {}, Buffer.alloc(900_000));
    assert.deepEqual([status, rstCode], [405, 0]);
    await using endless = await world.connectHttp2();
    const stream = endless.open({ ':method': 'TRACE', ':path': '/' }, { ends: false });
    let sent = 0;
    const pump = (): void => {
      while (!stream.destroyed && stream.write(PIECE)) sent += PIECE.length;
    };
    stream.on('drain', pump);
    pump();
    assert.equal((await answerOf(stream)).status, 405);
    assert.ok(sent < 8 << 20, `${sent} bytes were taken`);
  });

  it('while his request waits in line leaves the line', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: HTTP2,
      upstreamKeys: 'pool: { maxConnections: 1, maxPerPrincipal: 1 }',
      handler: async () => {
        await gate.pass();
        return { body: '' };
      },
    });
    await using client = await world.connectHttp2();
    const first = client.ask('GET /first');
    await world.upstream.saw(() => gate.arrivals === 1, 'the first request');
    const waiting = client.open({ ':method': 'GET', ':path': '/second' }, { ends: true });
    await world.daemon.measured((seen) => seen.sum('sidekerb_pool_waiters') === 1, 'a waiter');
    waiting.close(constants.NGHTTP2_CANCEL);
    await world.daemon.measured((seen) => seen.sum('sidekerb_pool_waiters') === 0, 'no waiter');
    gate.open();
    assert.equal((await first).status, 200);
    assert.equal(world.upstream.requests.length, 1);
  });
});

function expectedDigest(): string {
  const hash = createHash('sha256');
  for (let at = 0; at < TOTAL; at += PIECE.length) hash.update(PIECE);
  return hash.digest('hex');
}

describe('back-pressure over HTTP/2', () => {
  it('stops the upstream while the caller does not read (G3)', async () => {
    let written = 0;
    const run = async (wire: UpstreamWire): Promise<'keep'> => {
      await wire.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`);
      for (; written < TOTAL; written += PIECE.length) await wire.write(PIECE);
      return 'keep';
    };
    await using world = await startWorld({ listener: HTTP2, handler: () => ({ run }) });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'GET', ':path': '/' }, { ends: true });
    await once(stream, 'response');
    await stalled(() => written);
    assert.ok(written < MUCH, `${written} bytes were taken from the upstream`);
    const hash = createHash('sha256');
    stream.on('data', (bytes: Buffer) => hash.update(bytes));
    await within(once(stream, 'end'), 'the end of the download', 20_000);
    assert.equal(hash.digest('hex'), expectedDigest());
  });

  it('mixes no answers of callers who read late', async () => {
    const LENGTH = 3 << 20;
    await using world = await startWorld({
      listener: HTTP2,
      handler: ({ target }) => ({ body: Buffer.alloc(LENGTH, target) }),
    });
    await using client = await world.connectHttp2();
    const paths = ['/aaaa', '/bb', '/cccccccc', '/d'];
    const streams = paths.map((path) =>
      client.open({ ':method': 'GET', ':path': path }, { ends: true }),
    );
    await Promise.all(streams.map((stream) => once(stream, 'response')));
    await world.upstream.saw(() => world.upstream.requests.length === paths.length, 'all');
    for (const [nth, stream] of streams.entries()) {
      const path = paths[nth] ?? '';
      const { body } = await answerOf(stream);
      assert.ok(body.equals(Buffer.alloc(LENGTH, path)), path);
    }
  });

  it('stops the caller while the upstream does not read (G3)', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: HTTP2,
      upstream: { body: { pace: (received) => (received > 0 ? gate.pass() : undefined) } },
    });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'POST', ':path': '/' }, { ends: false });
    let sent = 0;
    const pump = async (): Promise<void> => {
      for (; sent < TOTAL; sent += PIECE.length) {
        if (!stream.write(PIECE)) await once(stream, 'drain');
      }
      stream.end();
    };
    const pumped = pump();
    await stalled(() => sent);
    assert.ok(sent < MUCH, `${sent} bytes were taken from the caller`);
    gate.open();
    const pieces: Buffer[] = [];
    stream.on('data', (bytes: Buffer) => pieces.push(bytes));
    await pumped;
    await within(once(stream, 'end'), 'the answer', 20_000);
    const { bodySha256 } = JSON.parse(Buffer.concat(pieces).toString()) as { bodySha256: string };
    assert.equal(bodySha256, expectedDigest());
  });

  it('gives up on a caller who never reads, and keeps the others', async () => {
    await using world = await startWorld({
      listener: HTTP2,
      route: 'timeouts: { idle: 300ms }',
      handler: ({ target }) => ({ body: target === '/' ? Buffer.alloc(8 << 20) : 'ok' }),
    });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'GET', ':path': '/' }, { ends: true });
    await once(stream, 'response');
    await world.daemon.logged(/"reason":"response-timeout"/);
    assert.equal((await client.ask('GET /other')).body.toString(), 'ok');
  });
});
