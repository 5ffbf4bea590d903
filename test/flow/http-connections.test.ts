/** One connection of a caller: kept, pipelined, old versions, half-closed, gone. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Gate } from '../support/waiting.ts';
import { stalled, startWorld } from './http-world.ts';

const get = (path: string, more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;

const echo = ({ target, body }: { target: string; body: Buffer }): { body: string } => ({
  body: `${target} ${body.length}`,
});

describe('a connection of a caller', () => {
  it('carries many requests one after the other, over one socket of the upstream', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    for (let nth = 1; nth <= 20; nth += 1) {
      await client.request(`GET /${nth}`);
      const { status, body } = await client.response();
      assert.equal(status, 200);
      assert.equal((JSON.parse(body.toString()) as { nth: number }).nth, nth);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('serves pipelined requests in order, one at a time, also with bodies (C23)', async () => {
    await using world = await startWorld({ handler: echo });
    await using client = await world.connect();
    const post = 'POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc';
    const chunked =
      'PUT /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n';
    await client.send(get('/a') + post + chunked + get('/d'));
    for (const expected of ['/a 0', '/b 3', '/c 5', '/d 0']) {
      assert.equal((await client.response()).body.toString(), expected);
    }
    assert.ok(world.upstream.requests.every(({ pipelined }) => !pipelined));
  });

  it('serves a pipelined request whose head comes in two halves', async () => {
    await using world = await startWorld({ handler: echo });
    await using client = await world.connect();
    const [first, second] = [get('/a'), get('/b')];
    for (const at of [1, 10, second.length - 1]) {
      await client.send(first + second.slice(0, at));
      assert.equal((await client.response()).body.toString(), '/a 0');
      await client.send(second.slice(at));
      assert.equal((await client.response()).body.toString(), '/b 0');
    }
  });

  it('gets all its pipelined answers however slowly it reads (C23)', async () => {
    const large = Buffer.alloc(3 << 20, 'x');
    await using world = await startWorld({
      handler: ({ target }) => ({ body: target === '/large' ? large : target }),
    });
    await using client = await world.connect();
    await client.send(get('/large') + get('/1') + get('/large') + get('/2'));
    await world.upstream.saw(({ sockets }) => sockets.length === 1, 'the first request');
    for (const expected of ['/large', '/1', '/large', '/2']) {
      const { body } = await client.response();
      if (expected === '/large') assert.ok(body.equals(large));
      else assert.equal(body.toString(), expected);
    }
    assert.deepEqual(
      world.upstream.requests.map(({ target }) => target),
      ['/large', '/1', '/large', '/2'],
    );
  });

  it('of HTTP/1.0 ends after one answer, and stays when it asks for that', async () => {
    await using world = await startWorld({ handler: echo });
    await using once = await world.connect();
    await once.send('GET /a HTTP/1.0\r\nHost: localhost\r\n\r\n');
    const answer = await once.response();
    assert.equal(answer.version, '1.1');
    assert.equal(answer.field('connection'), 'close');
    assert.equal((await once.untilEnd()).length, 0);

    await using kept = await world.connect();
    for (const path of ['/a', '/b']) {
      await kept.send(`GET ${path} HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n`);
      const { body, field } = await kept.response();
      assert.deepEqual([body.toString(), field('connection')], [`${path} 0`, 'keep-alive']);
    }
  });

  it('of HTTP/1.0 gets chunked answers without chunks, and their end by the connection', async () => {
    const body = 'abc'.repeat(5000);
    await using world = await startWorld({ handler: () => ({ body, framing: 'chunked' }) });
    await using client = await world.connect();
    await client.send('GET / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n');
    const head = await client.head();
    const names = head.fields.map(([name]) => name.toLowerCase());
    assert.ok(!names.includes('transfer-encoding') && !names.includes('content-length'));
    assert.equal((await client.untilEnd()).toString(), body);
    await using second = await world.connect();
    await second.send('HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n');
    const { field } = await second.response('HEAD');
    assert.equal(field('transfer-encoding'), undefined);
  });

  it('of HTTP/1.0 that stays ends after an answer of our own', async () => {
    await using world = await startWorld({ route: 'path: /crm/' });
    for (const path of ['/none', '/crm']) {
      await using client = await world.connect();
      await client.send(
        `GET ${path} HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n`,
      );
      const answer = await client.response();
      assert.equal(answer.field('connection'), 'close');
      assert.equal((await client.untilEnd()).length, 0);
    }
  });

  it('that says Connection: close ends after the answer; what follows is not served (C24)', async () => {
    await using world = await startWorld({ handler: echo });
    await using client = await world.connect();
    await client.send(get('/a', 'Connection: close\r\n') + get('/b'));
    const answer = await client.response();
    assert.equal(answer.body.toString(), '/a 0');
    assert.equal(answer.field('connection'), 'close');
    assert.equal((await client.untilEnd()).length, 0);
    assert.equal(world.upstream.requests.length, 1);
  });

  it('that ended its side still gets its answers (F6)', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      handler: async (request) => {
        await gate.pass();
        return echo(request);
      },
    });
    await using client = await world.connect();
    await client.send(
      get('/a') + 'POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi',
    );
    client.endWriting();
    await world.upstream.saw(({ sockets }) => sockets.length === 1, 'the request');
    gate.open();
    assert.equal((await client.response()).body.toString(), '/a 0');
    assert.equal((await client.response()).body.toString(), '/b 2');
    assert.equal((await client.untilEnd()).length, 0);
  });

  it('that ended its side within a body takes the request back', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    await client.send('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf');
    await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the request');
    client.endWriting();
    await client.gone();
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its socket closed');
    assert.equal(world.upstream.requests[0]?.bodyComplete, false);
  });

  it('that vanishes ends its request at the upstream, and that is counted', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      handler: async () => {
        await gate.pass();
        return {};
      },
    });
    await using client = await world.connect();
    await client.request('GET /slow');
    await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the request');
    client.reset();
    await world.daemon.measured(
      (metrics) =>
        metrics.sum('sidekerb_errors_total', { reason: 'downstream-closed' }) === 1 &&
        metrics.sum('sidekerb_requests_total', { class: 'none', upstream: 'origin' }) === 1 &&
        metrics.sum('sidekerb_downstream_connections') === 0,
      'the request as given up',
    );
    gate.open();
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its socket closed');
  });

  it('gets its last answer whole, however late it reads, and may send on meanwhile', async () => {
    const body = Buffer.alloc(24 << 20, 'x');
    await using world = await startWorld({ handler: () => ({ body }) });
    await using client = await world.connect();
    await client.send(get('/', 'Connection: close\r\n'));
    assert.equal((await client.head()).status, 200);
    let length = 0;
    while (!/"status":200/.test(world.daemon.logText)) {
      length += (await client.some(1 << 14))?.length ?? 0;
      await nextTurn();
    }
    // The upstream is done and the rest waits for this caller, who goes on sending.
    const sent = client.send(Buffer.alloc(2 << 20, 'y'));
    await stalled(() => client.socket.bytesWritten);
    while (length < body.length) {
      const piece = await client.some(1 << 16);
      assert.ok(piece, `the answer was cut after ${length} bytes`);
      length += piece.length;
    }
    client.reset();
    await sent;
  });

  it('that never reads redirects is not written to without end', async () => {
    await using world = await startWorld({ route: 'path: /crm/' });
    await using client = await world.connect();
    const many = Buffer.from(get('/crm').repeat(2000));
    const total = 400 * many.length;
    const pump = async (): Promise<void> => {
      for (let i = 0; i < 400; i += 1) await client.send(many);
    };
    const pumped = pump();
    await stalled(() => client.socket.bytesWritten);
    assert.ok(client.socket.bytesWritten < total / 2, 'the caller was stopped');
    client.reset();
    await pumped;
  });
});
