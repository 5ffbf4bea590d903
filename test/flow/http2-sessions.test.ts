/** HTTP/2 connections as a whole: how many, how long, how they end, and what is told of them. */

import assert from 'node:assert/strict';
import { constants } from 'node:http2';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { answerOf, H2Client } from '../support/h2-client.ts';
import { FRAME, frame, FrameClient, PREFACE } from '../support/h2-frames.ts';
import { RawClient } from '../support/raw-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { Gate, until, within } from '../support/waiting.ts';
import { startWorld, type World } from './http-world.ts';

const HTTP2 = 'http2: true';

const connections = (world: World, count: number): Promise<unknown> =>
  world.daemon.measured(
    (seen) => seen.sum('sidekerb_downstream_connections', { listener: 'main' }) === count,
    `${count} connections`,
  );

describe('an HTTP/2 connection', () => {
  it('is one connection, and each stream one request with its own line in the log', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    await Promise.all(['/a', '/b'].map((path) => client.ask(`POST ${path}?x`, {}, 'abc')));
    await connections(world, 1);
    const metrics = await world.daemon.metrics();
    const labels = { listener: 'main', upstream: 'origin' };
    assert.equal(metrics.sum('sidekerb_requests_total', labels), 2);
    for (const path of ['/a', '/b']) {
      const line = new RegExp(
        `"client":"127.0.0.1","method":"POST","path":"${path}","status":200.*"upstream":"origin"`,
      );
      assert.match(world.daemon.logText, line);
    }
    await client[Symbol.asyncDispose]();
    await connections(world, 0);
  });

  it('logs and counts what it refuses by itself', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('TRACE /')).status, 405);
    await world.daemon.logged(/"method":"TRACE".*"status":405.*"reason":"method-refused"/);
  });

  it('has a place among the connections of all and of its caller', async () => {
    for (const keys of [
      { top: 'limits: { connections: 1 }', listener: HTTP2 },
      { listener: `${HTTP2}, limits: { perClient: 1 }` },
    ]) {
      await using world = await startWorld(keys);
      await using client = await world.connectHttp2();
      assert.equal((await client.ask('GET /')).status, 200);
      await using second = await world.connect();
      await second.request('GET /');
      assert.ok([429, 503].includes((await second.response()).status));
      await client[Symbol.asyncDispose]();
      await connections(world, 0);
      await using third = await world.connectHttp2();
      assert.equal((await third.ask('GET /')).status, 200);
    }
  });

  it('G3 holds no answer for a caller who never takes it', async () => {
    const handler = () => ({ body: 'x'.repeat(100_000) });
    await using world = await startWorld({
      listener: `${HTTP2}, timeouts: { idle: 100ms }`,
      handler,
    });
    await using client = await FrameClient.connect(world.daemon.address().port);
    const noWindow = Buffer.alloc(6);
    noWindow.writeUInt16BE(constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    client.write(frame(FRAME.settings, 0, 0, noWindow));
    client.write(client.headers(1, client.request()));
    await client.saw(() => client.statusOf(1) !== undefined, 'the head of the answer');
    await client.saw(() => client.resetOf(1) === constants.NGHTTP2_CANCEL, 'the end of the stream');
    await connections(world, 0);
  });

  it('waits for an upstream that takes longer than a caller may be idle', async () => {
    const gate = new Gate();
    const handler = async (): Promise<{ readonly body: string }> => {
      await gate.pass();
      return { body: 'late' };
    };
    await using world = await startWorld({
      listener: `${HTTP2}, timeouts: { idle: 50ms }`,
      handler,
    });
    await using client = await world.connectHttp2();
    const asked = client.ask('GET /');
    await until(() => gate.arrivals === 1, 'the request upstream');
    // Several times as long as the caller may be idle: the wait itself is what is tested.
    const timer = setTimeout(() => gate.open(), 300);
    const { status, body } = await asked;
    clearTimeout(timer);
    assert.deepEqual([status, String(body)], [200, 'late']);
  });

  it('has as many requests at a time as its caller may have', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: `${HTTP2}, limits: { perClient: 2 }`,
      handler: async () => {
        await gate.pass();
        return { body: '' };
      },
    });
    await using client = await world.connectHttp2();
    const held = [client.ask('GET /1'), client.ask('GET /2')];
    await world.upstream.saw(() => gate.arrivals === 2, 'two requests');
    assert.equal((await client.ask('GET /3')).status, 429);
    gate.open();
    for (const answer of held) assert.equal((await answer).status, 200);
    assert.equal((await client.ask('GET /4')).status, 200);
  });

  it('that idles is closed with GOAWAY, one with a request is not', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: `${HTTP2}, timeouts: { idle: 200ms }`,
      handler: async ({ target }) => {
        if (target === '/slow') await gate.pass();
        return { body: target };
      },
    });
    await using busy = await world.connectHttp2();
    await busy.ask('GET /');
    const slow = busy.ask('GET /slow');
    await world.upstream.saw(() => gate.arrivals === 1, 'the slow request');
    await using idle = await world.connectHttp2();
    await idle.ask('GET /');
    await idle.gone();
    const told = [idle.goaway, busy.goaway];
    gate.open();
    assert.equal((await slow).status, 200);
    assert.deepEqual(told, [constants.NGHTTP2_NO_ERROR, undefined]);
    await busy.gone();
  });

  it('that says nothing, or half a preface, is closed after timeouts.head', async () => {
    await using world = await startWorld({ listener: `${HTTP2}, timeouts: { head: 200ms }` });
    for (const bytes of ['', 'PRI * HTT', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']) {
      await using client = await world.connect();
      await client.send(bytes);
      await client.gone();
    }
    await connections(world, 0);
  });

  it('is told by its preface, in however many pieces that comes', async () => {
    for (const engine of ['handle', 'public'] as const) {
      await using world = await startWorld({ listener: HTTP2, engine });
      const socket = createConnection({ port: world.daemon.address().port, noDelay: true });
      const client = new FrameClient(socket, world.daemon.authority());
      for (const byte of Buffer.from(PREFACE, 'latin1')) {
        client.write(Buffer.of(byte));
        await nextTurn();
      }
      client.write(frame(FRAME.settings, 0, 0), client.headers(1, client.request()));
      await client.saw(() => client.endedCleanly(1), 'the answer');
      await client[Symbol.asyncDispose]();
    }
  });

  it('with an upload that stops is answered with 408', async () => {
    await using world = await startWorld({ listener: `${HTTP2}, timeouts: { body: 200ms }` });
    await using client = await world.connectHttp2();
    const stream = client.open({ ':method': 'POST', ':path': '/' }, { ends: false });
    const answer = answerOf(stream);
    stream.write('half');
    stream.once('response', () => stream.close());
    assert.equal((await answer).status, 408);
    assert.equal((await client.ask('GET /')).status, 200);
  });

  it('whose caller ends it is gone', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await FrameClient.connect(world.daemon.address().port);
    client.write(client.headers(1, client.request()));
    await client.saw(() => client.endedCleanly(1), 'the answer');
    client.socket.end();
    await client.gone();
    await connections(world, 0);
  });

  it('is served on a unix socket', async () => {
    const path = join(temporaryFolder(), 'h2.sock');
    await using world = await startWorld({ listener: HTTP2, listen: `'unix:${path}'` });
    const socket = createConnection({ path });
    await using client = await H2Client.connect('http://any.example', 'any.example', {
      createConnection: () => socket,
    });
    assert.equal((await client.ask('GET /')).status, 200);
    await connections(world, 1);
  });
});

describe('draining with HTTP/2', () => {
  it('lets streams end, takes no more, and says GOAWAY', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      listener: HTTP2,
      handler: async () => {
        await gate.pass();
        return { body: 'whole' };
      },
    });
    await using idle = await world.connectHttp2();
    await using busy = await world.connectHttp2();
    const slow = busy.ask('GET /slow');
    await world.upstream.saw(() => gate.arrivals === 1, 'the slow request');
    const drained = world.daemon.app.drain();
    await idle.gone();
    gate.open();
    const { body, rstCode } = await slow;
    assert.deepEqual([body.toString(), rstCode], ['whole', 0]);
    await within(drained, 'the end of draining');
    await busy.gone();
    assert.equal(busy.goaway, constants.NGHTTP2_NO_ERROR);
  });

  it('gives what takes longer than the grace period no more time', async () => {
    await using world = await startWorld({
      top: 'shutdown: { grace: 200ms }',
      listener: HTTP2,
      handler: () => ({ run: async (wire) => (await wire.gone, 'reset') }),
    });
    await using busy = await world.connectHttp2();
    const slow = busy.ask('GET /slow');
    await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the request');
    await within(world.daemon.app.drain(), 'the end of draining');
    assert.notEqual((await slow).rstCode, 0);
    await busy.gone();
  });

  it('closes a connection that has not said its version', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await RawClient.connect(world.daemon.address());
    await client.send('PRI');
    await connections(world, 1);
    await within(world.daemon.app.drain(), 'the end of draining');
    await client.gone();
  });
});

describe('a reload with HTTP/2', () => {
  it('counts from the next stream of a connection on', async () => {
    await using world = await startWorld({ listener: HTTP2, route: 'path: /a/' });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('GET /a/')).status, 200);
    await world.daemon.reload((text) => text.replace('path: /a/', 'path: /b/'));
    assert.equal((await client.ask('GET /a/')).status, 404);
    assert.equal((await client.ask('GET /b/')).status, 200);
  });

  it('that takes HTTP/2 away lets connections go on, and takes no more of them', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    assert.equal((await client.ask('GET /')).status, 200);
    await world.daemon.reload((text) => text.replace(HTTP2, 'http2: false'));
    assert.equal((await client.ask('GET /')).status, 200);
    await using next = await world.connect();
    await next.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    assert.equal((await next.response()).status, 400);
  });
});
