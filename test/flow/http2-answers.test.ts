/** Answers to HTTP/2 callers: what is passed on, and how one that breaks off is told from a whole one. */

import assert from 'node:assert/strict';
import { constants } from 'node:http2';
import { describe, it } from 'node:test';
import { FrameClient } from '../support/h2-frames.ts';
import { shapes, SHAPE_BODY } from '../support/response-shapes.ts';
import { startWorld } from './http-world.ts';

const HTTP2 = 'http2: true';
const CUT = constants.NGHTTP2_INTERNAL_ERROR;

describe('an answer to an HTTP/2 caller', () => {
  for (const path of [
    'counted',
    'chunked',
    'chunked-extension',
    'close-delimited',
    'close',
    'http10',
  ]) {
    it(`that is ${path} comes whole`, async () => {
      await using world = await startWorld({ listener: HTTP2, handler: shapes });
      await using client = await world.connectHttp2();
      const { status, body, rstCode, headers } = await client.ask(`GET /${path}`);
      const text = path === 'chunked-extension' ? 'ok' : SHAPE_BODY;
      assert.deepEqual([status, body.toString(), rstCode], [200, text, 0]);
      for (const name of ['connection', 'transfer-encoding', 'keep-alive']) {
        assert.equal(headers[name], undefined, name);
      }
    });
  }

  it('without content is one', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    for (const [line, status, length] of [
      ['GET /empty', 200, '0'],
      ['GET /no-content', 204, undefined],
      ['GET /not-modified', 304, '4500'],
      ['HEAD /counted', 200, String(SHAPE_BODY.length)],
    ] as const) {
      const answer = await client.ask(line);
      assert.deepEqual([answer.status, answer.body.length, answer.rstCode], [status, 0, 0], line);
      assert.equal(answer.headers['content-length'], length, line);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('has none of the fields of the connection behind', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    const { headers } = await client.ask('GET /hop-by-hop');
    assert.equal(headers['x-end'], 'goes on');
    const gone = ['x-hop', 'keep-alive', 'connection', 'proxy-authenticate', 'proxy-connection'];
    for (const name of gone) assert.equal(headers[name], undefined, name);
  });

  it('keeps lines of one name apart (E24)', async () => {
    await using world = await startWorld({
      listener: HTTP2,
      handler: () => ({
        status: 401,
        fields: [
          ['WWW-Authenticate', 'Basic realm="a"'],
          ['WWW-Authenticate', 'Bearer realm="b, c"'],
          ['Set-Cookie', 'a=1'],
          ['Set-Cookie', 'b=2'],
          ['Content-Type', 'text/plain'],
          ['Content-Type', 'text/html'],
          ['__proto__', 'x'],
        ],
      }),
    });
    await using client = await world.connectHttp2();
    const { status, all } = await client.ask('GET /');
    assert.equal(status, 401);
    assert.deepEqual(all('www-authenticate'), ['Basic realm="a"', 'Bearer realm="b, c"']);
    assert.deepEqual(all('set-cookie'), ['a=1', 'b=2']);
    assert.deepEqual(all('content-type'), ['text/plain', 'text/html']);
    assert.deepEqual(all('__proto__'), ['x']);
  });

  it('is preceded by its 103, but not by 100', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    const { interim, status } = await client.ask('GET /interim/103');
    assert.deepEqual([interim.map((one) => one[':status']), status], [[103], 200]);
    assert.equal(interim[0]?.['link'], '</style.css>; rel=preload');
    assert.deepEqual((await client.ask('GET /interim/100')).interim, []);
    assert.equal((await client.ask('GET /interim/many')).interim.length, 30);
  });

  it('has its trailers for a caller who takes them', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    const taken = await client.ask('GET /trailers', { te: 'trailers' });
    assert.deepEqual([taken.body.toString(), taken.trailers?.['x-checksum']], [SHAPE_BODY, 'abc']);
    const left = await client.ask('GET /trailers');
    assert.deepEqual([left.body.toString(), left.trailers], [SHAPE_BODY, undefined]);
    assert.equal((await client.ask('GET /trailers-forbidden', { te: 'trailers' })).rstCode, CUT);
  });

  it('may have a head of 60 KiB, as Kerberos has them (E15)', async () => {
    const value = 'x'.repeat(60 << 10);
    await using world = await startWorld({
      listener: HTTP2,
      handler: () => ({ fields: [['Set-Cookie', value]], body: 'ok' }),
    });
    await using client = await world.connectHttp2();
    const { status, all } = await client.ask('GET /');
    assert.deepEqual([status, all('set-cookie')[0]?.length], [200, value.length]);
  });

  it('may have as many fields as the relay lets through (E15)', async () => {
    const fields = Array.from({ length: 490 }, (_, at) => [`X-${at}`, 'v'.repeat(121)] as const);
    const handler = () => ({ fields, body: 'all' });
    await using world = await startWorld({ listener: HTTP2, handler });
    await using client = await FrameClient.connect(world.daemon.address().port);
    for (const stream of [1, 3]) {
      client.write(client.headers(stream, client.request()));
      await client.saw(() => client.endedCleanly(stream), `the answer on ${stream}`);
      assert.equal(client.statusOf(stream), 200);
    }
  });

  it('with 205 has no content and no length of one', async () => {
    const handler = () => ({ status: 205, body: 'no' });
    await using world = await startWorld({ listener: HTTP2, handler });
    await using client = await world.connectHttp2();
    const { status, body, rstCode, headers } = await client.ask('GET /');
    assert.deepEqual([status, body.length, rstCode], [205, 0, 0]);
    assert.equal(headers['content-length'], undefined);
  });

  it('that HTTP/2 has no word for is 502 (E13)', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('GET /status-600')).status, 502);
    assert.equal((await client.ask('GET /reason')).status, 299);
  });

  for (const cut of ['body-counted', 'body-chunked', 'no-last-chunk'] as const) {
    it(`that breaks off (${cut}) ends with RST_STREAM, the others go on`, async () => {
      await using world = await startWorld({ listener: HTTP2, handler: shapes });
      await using client = await world.connectHttp2();
      const [broken, whole] = await Promise.all([
        client.ask(`GET /cut/${cut}`),
        client.ask('GET /counted'),
      ]);
      assert.deepEqual([broken.status, broken.rstCode], [200, CUT]);
      assert.deepEqual([whole.body.toString(), whole.rstCode], [SHAPE_BODY, 0]);
      assert.equal((await client.ask('GET /counted')).status, 200);
    });
  }

  it('that never begins is 502', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('POST /cut/nothing', {}, 'x')).status, 502);
    assert.equal((await client.ask('GET /cut/head')).status, 502);
  });

  it('with bytes behind it comes whole, and its socket is used no more (E4)', async () => {
    await using world = await startWorld({ listener: HTTP2, handler: shapes });
    await using client = await world.connectHttp2();
    const { status, body, rstCode } = await client.ask('GET /extra');
    assert.deepEqual([status, body.toString(), rstCode], [200, 'ok', 0]);
    assert.equal((await client.ask('GET /counted')).body.toString(), SHAPE_BODY);
    assert.equal(world.upstream.journal.sockets.length, 2);
  });

  it('that refuses the upload comes before the upload has ended (E10)', async () => {
    await using world = await startWorld({
      listener: HTTP2,
      upstream: {
        body: { early: () => ({ status: 413, body: 'too much' }), afterEarly: 'close' },
      },
    });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'POST', ':path': '/' }, { ends: false });
    const status = new Promise((resolve) => {
      stream.on('response', (fields) => resolve(fields[':status']));
    });
    stream.write('x'.repeat(1000));
    assert.equal(await status, 413);
    stream.close();
  });
});
