/** Answers that come before the request is over: interim ones, Expect, refusals of an upload. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import type { BodySwitches, ShapedResponse, UpstreamWire } from '../support/upstream-options.ts';
import { startWorld, type World } from './http-world.ts';

const POST = 'POST /upload HTTP/1.1\r\nHost: localhost\r\n';

/** An upstream that answers uploads early, and anything else as usual. */
const early = (answer: ShapedResponse, afterEarly?: 'drain' | 'close'): Promise<World> => {
  const body: BodySwitches = {
    early: ({ method }) => (method === 'POST' ? answer : undefined),
    ...(afterEarly === undefined ? {} : { afterEarly }),
  };
  return startWorld({ upstream: { body } });
};

async function assertNothingFollows(client: RawClient, world: World): Promise<void> {
  assert.equal((await client.untilEnd()).length, 0);
  assert.ok(world.upstream.requests.every(({ target }) => target === '/upload'));
}

describe('an early answer', () => {
  for (const status of [401, 413, 500]) {
    for (const framing of ['counted', 'chunked', 'close'] as const) {
      it(`of ${status} (${framing}) is delivered whole; the upload stops (E10, R41)`, async () => {
        await using world = await early({ status, body: 'no thanks', framing }, 'close');
        await using client = await world.connect();
        await client.send(`${POST}Content-Length: 1000000\r\n\r\nstart`);
        const answer = await client.response();
        assert.deepEqual([answer.status, answer.body.toString()], [status, 'no thanks']);
        assert.equal(answer.field('connection'), 'close');
        // The rest is no request, whatever it looks like.
        await client.send('GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n');
        client.endWriting();
        await assertNothingFollows(client, world);
      });
    }
  }

  it('of 413 reaches a caller who goes on sending megabytes (E10)', async () => {
    await using world = await early({ status: 413, body: 'no thanks' }, 'close');
    await using client = await world.connect();
    await client.send(`${POST}Content-Length: 8000000\r\n\r\n`);
    const sent = client.send(Buffer.alloc(8_000_000));
    const { status, body } = await client.response();
    assert.deepEqual([status, body.toString()], [413, 'no thanks']);
    client.reset();
    await sent;
  });

  it('of 200 flows while the upload goes on, and the connection stays', async () => {
    const run = async (wire: UpstreamWire): Promise<'fin'> => {
      await wire.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n');
      let seen = 0;
      while (seen < 10) seen += (await wire.some(10 - seen))?.length ?? 10;
      await wire.write('6\r\nsecond\r\n0\r\n\r\n');
      return 'fin';
    };
    const body: BodySwitches = {
      early: ({ method }) => (method === 'POST' ? { run } : undefined),
      afterEarly: 'close',
    };
    await using world = await startWorld({ upstream: { body } });
    await using client = await world.connect();
    await client.send(`${POST}Content-Length: 10\r\n\r\nstart`);
    assert.equal((await client.head()).status, 200);
    assert.equal((await client.bytes(10)).toString(), '5\r\nfirst\r\n');
    await client.send('rest.');
    assert.equal((await client.bytes(16)).toString(), '6\r\nsecond\r\n0\r\n\r\n');
    await client.request('GET /next');
    assert.equal((await client.response()).status, 200);
  });

  it('of 200 that is complete before the upload ends both connections (E10, R41)', async () => {
    await using world = await early({ status: 200, body: 'enough' });
    await using client = await world.connect();
    await client.send(`${POST}Content-Length: 100\r\n\r\nstart`);
    const answer = await client.response();
    assert.deepEqual([answer.status, answer.body.toString()], [200, 'enough']);
    await client.send('GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n');
    client.endWriting();
    await assertNothingFollows(client, world);
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its socket closed');
  });

  it('to a chunked upload does not let the rest become a request (E10)', async () => {
    await using world = await early({ status: 413, body: 'no' });
    await using client = await world.connect();
    await client.send(`${POST}Transfer-Encoding: chunked\r\n\r\n5\r\nstart\r\n`);
    assert.equal((await client.response()).status, 413);
    await client.send('0\r\n\r\nGET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n');
    client.endWriting();
    await assertNothingFollows(client, world);
  });
});

describe('Expect: 100-continue of a caller', () => {
  const EXPECT = `${POST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`;

  it('is passed on; the body follows the 100 of the upstream (C19)', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    for (let nth = 0; nth < 2; nth += 1) {
      await client.send(EXPECT);
      assert.equal((await client.head()).status, 100);
      await client.send('hello');
      const { status, interim, json } = await client.response();
      assert.deepEqual([status, interim.length], [200, 0]);
      assert.equal((json() as { bodyLength: number }).bodyLength, 5);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('with the body at once gets 100 and then the answer (C19)', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    await client.send(`${EXPECT}hello`);
    const { status, interim, json } = await client.response();
    assert.deepEqual([status, interim.length], [200, 1]);
    assert.equal((json() as { bodyLength: number }).bodyLength, 5);
  });

  it('gets 100 from us when the upstream says nothing (C19)', async () => {
    await using world = await startWorld({ upstream: { body: { expect: 'ignore' } } });
    await using client = await world.connect();
    await client.send(EXPECT);
    assert.equal((await client.head()).status, 100);
    await client.send('hello');
    assert.equal((await client.response()).status, 200);
  });

  it('gets a final answer in place of 100, and no body is taken (C19, E10)', async () => {
    for (const expect of ['refuse-417', 'early'] as const) {
      const answer = { status: 413, body: 'too much' };
      const body = expect === 'early' ? { early: () => answer } : { expect };
      await using world = await startWorld({ upstream: { body } });
      await using client = await world.connect();
      await client.send(EXPECT);
      const { status, interim, field } = await client.response();
      assert.deepEqual([status, interim.length], [expect === 'early' ? 413 : 417, 0]);
      assert.equal(field('connection'), 'close');
      await client.send('hello');
      client.endWriting();
      await assertNothingFollows(client, world);
      assert.equal(world.upstream.requests[0]?.bodyLength, 0);
    }
  });

  it('over a login: the body waits for the upstream and arrives once (R33)', async () => {
    await using world = await startWorld({ login: true });
    await using client = await world.connect();
    for (let nth = 0; nth < 2; nth += 1) {
      await client.send(EXPECT);
      assert.equal((await client.head()).status, 100);
      await client.send('hello');
      const { status, field } = await client.response();
      assert.deepEqual([status, field('x-user')], [200, 'LAB\\alice']);
    }
    const posts = world.upstream.requests.filter(
      ({ method, status }) => method === 'POST' && status === 200,
    );
    assert.deepEqual(
      posts.map(({ bodyLength }) => bodyLength),
      [5, 5],
    );
  });

  it('of anything else is 417 (C19)', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    await client.request('POST /', { Expect: 'miracles', 'Content-Length': '0' });
    assert.equal((await client.response()).status, 417);
    assert.equal(world.upstream.requests.length, 0);
  });

  it('of HTTP/1.0 is not waited for', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    await client.send(
      'POST / HTTP/1.0\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello',
    );
    const { status, interim } = await client.response();
    assert.deepEqual([status, interim.length], [200, 0]);
  });
});

describe('an interim answer', () => {
  const LINK = [
    ['Link', '</style.css>; rel=preload'],
    ['Connection', 'X-Hop'],
    ['X-Hop', '1'],
  ] as const;
  const interim = (statuses: number[]): ShapedResponse => ({
    body: 'ok',
    interim: statuses.map((status) => ({ status, ...(status === 103 ? { fields: LINK } : {}) })),
  });

  it('of 103 is passed on to HTTP/1.1 without hop-by-hop fields, 100 is not (E9)', async () => {
    await using world = await startWorld({ handler: () => interim([100, 103, 103, 100, 102]) });
    await using client = await world.connect();
    await client.request('GET /');
    const answer = await client.response();
    assert.deepEqual(
      answer.interim.map(({ status }) => status),
      [103, 103, 102],
    );
    assert.deepEqual(answer.interim[0]?.fields, [['Link', '</style.css>; rel=preload']]);
    assert.equal(answer.body.toString(), 'ok');
  });

  it('of 103 is not passed on to HTTP/1.0 (E9)', async () => {
    await using world = await startWorld({ handler: () => interim([103]) });
    await using client = await world.connect();
    await client.send('GET / HTTP/1.0\r\nHost: localhost\r\n\r\n');
    const answer = await client.response();
    assert.deepEqual([answer.status, answer.interim.length], [200, 0]);
  });

  it('may come 32 times; one more is 502 and costs the socket (E9)', async () => {
    await using world = await startWorld({
      handler: ({ target }) => interim(Array.from({ length: Number(target.slice(1)) }, () => 102)),
    });
    await using client = await world.connect();
    await client.request('GET /32');
    const answer = await client.response();
    assert.deepEqual([answer.status, answer.interim.length], [200, 32]);
    await client.request('GET /33');
    const refused = await client.response();
    assert.deepEqual([refused.status, refused.interim.length], [502, 32]);
    await client.request('GET /0');
    assert.equal((await client.response()).status, 200);
    assert.equal(world.upstream.journal.sockets.length, 2);
  });
});
