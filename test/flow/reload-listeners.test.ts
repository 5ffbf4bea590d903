/** Listeners over reloads: sockets that stay, come and go, and the connections on them. */

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { event, Gate, until } from '../support/waiting.ts';
import { startWorld, type World } from './http-world.ts';

const SECOND = '  - { name: second, listen: 127.0.0.1:0, routes: [ { upstream: origin } ] }\n';

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await event(server, 'listening');
  const address = server.address();
  server.close();
  await event(server, 'close');
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}

const isRefused = async (port: number): Promise<boolean> => {
  try {
    await using client = await RawClient.connect({ port });
    return client === undefined;
  } catch {
    return true;
  }
};

const ask = async (client: RawClient): Promise<number> => {
  await client.request('GET /');
  return (await client.response()).status;
};

/** On a connection of its own to a listener. */
async function askNew(world: World, listener: string): Promise<number> {
  await using client = await world.daemon.connect(listener);
  await client.request('GET /', { Host: world.daemon.authority(listener) });
  return (await client.response()).status;
}

/** Of the last request at the origin. */
const lastField = (world: World, wanted: string): string | undefined =>
  world.upstream.requests.at(-1)?.fields.find(([name]) => name.toLowerCase() === wanted)?.[1];

describe('listeners over a reload', () => {
  test('a new one opens beside those that stay, with their sockets and connections', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    const before = world.daemon.address('main');
    assert.equal(await ask(client), 200);
    const report = await world.daemon.reload((text) => text + SECOND);
    assert.deepEqual(report.listeners, { opened: ['127.0.0.1:0'], closed: [] });
    assert.deepEqual(world.daemon.address('main'), before);
    assert.equal(await ask(client), 200);
    assert.equal(await askNew(world, 'second'), 200);
    const { text } = await world.daemon.metrics();
    assert.match(
      text,
      /sidekerb_requests_total\{listener="second",upstream="origin",class="2xx"\} 1/,
    );
  });

  test('one that is taken away accepts no more, ends its requests and its series', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      handler: async ({ target }) => {
        if (target === '/held') await gate.pass();
        return { body: 'ok' };
      },
    });
    await world.daemon.reload((text) => text + SECOND);
    const { port } = world.daemon.address('second');
    await using idle = await world.daemon.connect('second');
    assert.equal(await ask(idle), 200);
    await using busy = await world.daemon.connect('second');
    await busy.request('GET /held');
    await until(() => gate.arrivals === 1, 'a held request');
    const report = await world.daemon.reload((text) => text.replace(SECOND, ''));
    assert.deepEqual(report.listeners, { opened: [], closed: ['127.0.0.1:0'] });
    await idle.gone();
    assert.ok(await isRefused(port));
    gate.open();
    const answer = await busy.response();
    assert.deepEqual([answer.status, answer.field('Connection')], [200, 'close']);
    await busy[Symbol.asyncDispose]();
    await idle[Symbol.asyncDispose]();
    await world.daemon.measured(
      ({ text }) => !text.includes('listener="second"'),
      'no series of the listener',
    );
  });

  test('I10 if one cannot be opened, none is, and nothing else changes', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    const taken = createServer().listen(0, '127.0.0.1');
    await event(taken, 'listening');
    const address = taken.address();
    assert.ok(typeof address === 'object' && address !== null);
    const free = await freePort();
    const report = await world.daemon.reload((text) => {
      const more = [free, address.port].map(
        (port, n) =>
          `  - { name: n${n}, listen: 127.0.0.1:${port}, routes: [ { upstream: origin } ] }\n`,
      );
      return (
        text.replace('{ upstream: origin }', '{ upstream: origin, path: /other/ }') + more.join('')
      );
    });
    taken.close();
    assert.equal(report.result, 'failed');
    assert.match(report.reason ?? '', /EADDRINUSE/);
    assert.ok(await isRefused(free));
    assert.equal(await ask(client), 200);
    const answer = await world.daemon.admin('POST /api/reload');
    assert.equal(answer.status, 200, 'once the port is free it works');
    assert.equal(await ask(client), 404);
  });

  test('one that moves keeps its old socket where another one listens now, and drains it', async () => {
    const port = await freePort();
    await using world = await startWorld({ listen: `127.0.0.1:${port}` });
    await using old = await world.connect();
    assert.equal(await ask(old), 200);
    const report = await world.daemon.reload(
      (text) =>
        text.replace(`listen: 127.0.0.1:${port}`, 'listen: 127.0.0.1:0') +
        `  - { name: heir, listen: 127.0.0.1:${port}, routes: [ { upstream: origin, path: /heir/ } ] }\n`,
    );
    assert.deepEqual(report.listeners, { opened: ['127.0.0.1:0'], closed: [] });
    await old.gone();
    assert.equal(world.daemon.address('heir').port, port);
    assert.equal(await askNew(world, 'heir'), 404);
    assert.equal(await askNew(world, 'main'), 200);
  });

  test('limits and trust count at once, on open connections too', async () => {
    await using world = await startWorld({ listener: 'forwarded: { trust: [127.0.0.1] }' });
    await using client = await world.connect();
    const forwarded = async (): Promise<string | undefined> => {
      await client.request('GET /', {
        Host: world.daemon.authority(),
        'X-Forwarded-For': '10.0.0.9',
      });
      await client.response();
      return lastField(world, 'x-forwarded-for');
    };
    assert.equal(await forwarded(), '10.0.0.9, 127.0.0.1');
    await world.daemon.reload((text) =>
      text.replace('trust: [127.0.0.1] }', 'trust: [] }, limits: { perClient: 1 }'),
    );
    assert.equal(await forwarded(), '127.0.0.1');
    await using second = await world.connect();
    assert.equal((await second.response()).status, 429);
  });

  test('a head that began before is judged by what was in force then', async () => {
    await using world = await startWorld({ listener: 'identityHeaders: [x-one]' });
    await using client = await world.connect();
    await client.send(`GET / HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\nX-One: a\r\n`);
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections', { listener: 'main' }) === 1,
      'the connection',
    );
    await world.daemon.reload((text) =>
      text
        .replace('identityHeaders: [x-one]', 'identityHeaders: [x-two, x-three]')
        .replace('{ upstream: origin }', '{ upstream: origin, path: /other/ }'),
    );
    await client.send('X-Two: b\r\n\r\n');
    assert.equal((await client.response()).status, 200);
    assert.deepEqual([lastField(world, 'x-one'), lastField(world, 'x-two')], [undefined, 'b']);
    assert.equal(await ask(client), 404);
  });

  test('a unix socket stays with another mode, and its file goes with its listener', async () => {
    const path = join(mkdtempSync(join(temporaryFolder(), 'reload-')), 's.sock');
    await using world = await startWorld();
    const line = (mode: string): string =>
      `  - { name: local, listen: 'unix:${path}', socketMode: '${mode}', routes: [ { upstream: origin } ] }\n`;
    await world.daemon.reload((text) => text + line('0600'));
    await using client = await RawClient.connect({ socketPath: path });
    assert.equal(await ask(client), 200);
    await world.daemon.reload((text) => text.replace("'0600'", "'0666'"));
    assert.equal(statSync(path).mode & 0o777, 0o666);
    assert.equal(await ask(client), 200);
    await world.daemon.reload((text) => text.replace(line('0666'), ''));
    await until(() => !existsSync(path), 'the file gone');
  });
});
