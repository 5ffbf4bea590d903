/**
 * Requests of HTTP/2 callers as the upstream sees them (architecture D3). After each, the upstream has
 * parsed exactly one request per stream, and its socket carries the next one.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fieldValue, fieldValues } from '../support/strict-http.ts';
import { answerOf, type H2Client } from '../support/h2-client.ts';
import { Gate } from '../support/waiting.ts';
import { startWorld, type World } from './http-world.ts';

const HTTP2 = 'http2: true';

/** Asks once more, and checks that one socket has carried all requests so far and nothing else. */
async function assertClean(world: World, client: H2Client, requests: number): Promise<void> {
  assert.equal((await client.ask('GET /clean')).status, 200);
  assert.equal(world.upstream.requests.length, requests + 1);
  assert.equal(world.upstream.journal.sockets.length, 1);
}

describe('a request over HTTP/2', () => {
  it('reaches the upstream as HTTP/1.1, and its answer comes back', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    const { status, rstCode, json } = await client.ask('GET /a?b=c');
    assert.deepEqual([status, rstCode], [200, 0]);
    const seen = json() as Record<string, unknown>;
    assert.deepEqual([seen['method'], seen['target']], ['GET', '/a?b=c']);
    await assertClean(world, client, 1);
  });

  for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST', 'PUT', 'PROPFIND', 'PATCH']) {
    it(`that is a ${method} with a body of unknown length has it in chunks`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await world.connectHttp2();
      const smuggled = 'GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n';
      const { status } = await client.ask(`${method} /`, {}, smuggled);
      const seen = world.upstream.requests[0];
      assert.deepEqual([status, seen?.bodyLength], [200, smuggled.length]);
      assert.equal(fieldValue(seen?.fields ?? [], 'transfer-encoding'), 'chunked');
      await assertClean(world, client, 1);
    });

    it(`that is a ${method} with a body of known length has it counted`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await world.connectHttp2();
      const { status } = await client.ask(`${method} /`, { 'content-length': 3 }, 'abc');
      const seen = world.upstream.requests[0];
      assert.deepEqual([status, seen?.bodyLength], [200, 3]);
      assert.equal(fieldValue(seen?.fields ?? [], 'content-length'), '3');
      await assertClean(world, client, 1);
    });
  }

  for (const method of ['GET', 'DELETE', 'OPTIONS', 'HEAD']) {
    it(`that is a ${method} without a body has no framing`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await world.connectHttp2();
      assert.equal((await client.ask(`${method} /`)).status, 200);
      const fields = world.upstream.requests[0]?.fields ?? [];
      assert.equal(fieldValue(fields, 'transfer-encoding'), undefined);
      assert.equal(fieldValue(fields, 'content-length'), undefined);
      await assertClean(world, client, 1);
    });
  }

  it('that is a HEAD with a body is 400 (C17)', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('HEAD /', {}, 'abc')).status, 400);
    assert.equal((await client.ask('HEAD /', { 'content-length': 3 }, 'abc')).status, 400);
    await assertClean(world, client, 0);
  });

  const targets = ['//host/x', '/a?', '/a??b', '/a//b//', '/%61;b=c', '/x?y=http://z/../q?&', '/'];
  for (const target of targets) {
    it(`for ${target} has the target as received`, async () => {
      await using world = await startWorld({ listener: HTTP2 });
      await using client = await world.connectHttp2();
      assert.equal((await client.ask(`GET ${target}`)).status, 200);
      assert.equal(world.upstream.requests[0]?.target, target);
    });
  }

  it('has its fields line by line, and one line of cookies', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    const fields = { cookie: ['a=1', 'b=2; c=3'], 'x-two': ['1', '2'], 'x-one': 'caf\u00e9' };
    await client.ask('GET /', fields);
    const seen = world.upstream.requests[0]?.fields ?? [];
    assert.deepEqual(fieldValues(seen, 'cookie'), ['a=1; b=2; c=3']);
    assert.deepEqual(fieldValues(seen, 'x-two'), ['1', '2']);
    assert.deepEqual(fieldValues(seen, 'x-one'), ['caf\u00e9']);
    for (const name of ['connection', 'te', 'keep-alive']) {
      assert.deepEqual(fieldValues(seen, name), []);
    }
  });

  it('has the forwarding fields of its session', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    await client.ask('GET /', { 'x-forwarded-for': '10.9.9.9' });
    const seen = world.upstream.requests[0]?.fields ?? [];
    assert.deepEqual(fieldValues(seen, 'x-forwarded-for'), ['127.0.0.1']);
    assert.deepEqual(fieldValues(seen, 'x-forwarded-host'), [world.daemon.authority()]);
  });

  it('waits with its body for 100 when it says so', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    const head = { ':method': 'POST', ':path': '/', expect: '100-continue' };
    const stream = client.open(head, { ends: false });
    const answer = answerOf(stream);
    stream.once('continue', () => stream.end('abc'));
    const { status, json } = await answer;
    assert.deepEqual([status, (json() as Record<string, unknown>)['bodyLength']], [200, 3]);
    await assertClean(world, client, 1);
  });

  it('with another expectation is 417 (C19)', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('POST /', { expect: 'tea' }, 'abc')).status, 417);
  });

  it('runs beside others of the same connection', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: HTTP2,
      handler: async ({ target }) => {
        if (target === '/slow') await gate.pass();
        return { body: target };
      },
    });
    await using client = await world.connectHttp2();
    const slow = client.ask('GET /slow');
    await world.upstream.saw(() => gate.arrivals === 1, 'the slow request');
    assert.equal((await client.ask('GET /fast')).body.toString(), '/fast');
    gate.open();
    assert.equal((await slow).body.toString(), '/slow');
  });

  it('has its trailers dropped, forbidden ones are 400 (C13)', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    for (const [name, status] of [
      ['x-t', 200],
      ['authorization', 400],
    ] as const) {
      const head = { ':method': 'POST', ':path': '/' };
      const stream = client.session.request(
        { ...head, ':authority': world.daemon.authority() },
        { endStream: false, waitForTrailers: true },
      );
      stream.on('error', () => undefined);
      stream.on('wantTrailers', () => stream.sendTrailers({ [name]: '1' }));
      stream.end('abc');
      assert.equal((await answerOf(stream)).status, status);
    }
    assert.deepEqual(world.upstream.requests[0]?.trailers, []);
    assert.ok(world.upstream.requests[1]?.bodyComplete !== true);
  });
});

describe('HTTP/1.1 on a listener that takes HTTP/2', () => {
  for (const engine of ['handle', 'public'] as const) {
    it(`is served as before, however its first bytes come (engine ${engine})`, async () => {
      await using world = await startWorld({ listener: HTTP2, engine });
      for (const pieces of [[1], [2, 1, 1], 'every-byte'] as const) {
        await using client = await world.connect();
        const message = 'PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc';
        await client.send(message + message, pieces);
        for (let nth = 0; nth < 2; nth += 1) {
          const seen = (await client.response()).json() as Record<string, unknown>;
          assert.deepEqual([seen['method'], seen['bodyLength']], ['PUT', 3]);
        }
      }
      await using other = await world.connect();
      await other.send('PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n');
      assert.equal((await other.response()).status, 400);
      await using last = await world.connect();
      void last.request('GET /last');
      last.endWriting();
      assert.equal((await last.response()).status, 200);
    });
  }
});
