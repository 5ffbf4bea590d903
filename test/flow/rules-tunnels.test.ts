/** Sockets that switched protocols after a login: whose they are, and that nobody gets them again. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { startWorld, USERS, type TestCaller, type World } from './login-world.ts';

const UPGRADE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Version': '13',
};

/** Echoes bytes after 101 where a path that ends in `/socket` is asked for one; else answers. */
const origin: ScriptedUpstreamOptions = {
  handler: ({ target, user, field }) =>
    target.endsWith('/socket') && field('upgrade') !== undefined
      ? { upgrade: 'websocket', closeAfterBytes: 1_000_000 }
      : { fields: [['X-User', user ?? '']] as const, body: 'ok' },
};

async function upgrade(world: World, who: 'alice' | 'bob' | 'plain'): Promise<TestCaller> {
  const caller = await world.caller(who);
  await caller.send('GET', { path: 'socket', fields: UPGRADE });
  assert.equal((await caller.client.head()).status, 101);
  return caller;
}

describe('tunnels', () => {
  for (const state of ['cold', 'warm']) {
    test(`R23 a ${state} socket that switched protocols never comes back to the pool`, async () => {
      await using world = await startWorld({ upstream: origin });
      if (state === 'warm') await world.ask('alice');
      const caller = await upgrade(world, 'alice');
      await caller.client.send('ping');
      assert.equal((await caller.client.bytes(4)).toString(), 'ping');
      // While it is open and after it ended, requests go elsewhere.
      assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
      await caller[Symbol.asyncDispose]();
      await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'the tunnel closed');
      assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
      const [tunnel, other, ...more] = world.upstream.journal.sockets;
      assert.deepEqual(more, []);
      assert.equal(tunnel?.requests.at(-1)?.target, '/alice/socket');
      assert.equal(tunnel?.requests.at(-1)?.user, USERS.alice);
      assert.equal(other?.type3, 1);
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_upstream_connections'), 1);
    });
  }

  test('R23 a socket that switched protocols unasked is closed and its bytes reach nobody', async () => {
    const raw =
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello';
    await using world = await startWorld({ upstream: { handler: () => ({ raw }) } });
    for (const who of ['alice', 'plain'] as const) {
      const answer = await world.ask(who);
      assert.equal(answer.status, 502);
      assert.ok(!answer.body.toString().includes('hello'));
    }
    await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
  });

  test('R23 an upgrade that the origin does not take leaves an ordinary socket', async () => {
    await using world = await startWorld({ upstream: origin });
    for (let n = 0; n < 3; n += 1) {
      const answer = await world.ask('alice', 'GET', { path: 'page', fields: UPGRADE });
      assert.equal(answer.body.toString(), 'ok');
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  test('R23 an upgrade on a warm socket that lost its login logs in once and switches', async () => {
    await using world = await startWorld({ upstream: { ...origin, forgetAfter: 1 } });
    await world.prove('alice');
    await world.ask('alice');
    await using caller = await upgrade(world, 'alice');
    await caller.client.send('ping');
    assert.equal((await caller.client.bytes(4)).toString(), 'ping');
    assert.equal(world.sockets.length, 2);
  });

  test('R23 two principals and nobody have a tunnel each', async () => {
    await using world = await startWorld({ upstream: origin });
    const callers = await Promise.all(
      (['alice', 'bob', 'plain'] as const).map((who) => upgrade(world, who)),
    );
    const users = world.upstream.journal.sockets.map(({ logins }) => logins.join());
    assert.deepEqual(users.toSorted(), ['', USERS.alice, USERS.bob]);
    await Promise.all(callers.map((caller) => caller[Symbol.asyncDispose]()));
  });

  test('R50 a flush leaves a tunnel in peace', async () => {
    await using world = await startWorld({ upstream: origin });
    await using caller = await upgrade(world, 'alice');
    await world.daemon.admin('POST /api/principals/alice/flush');
    await caller.client.send('ping');
    assert.equal((await caller.client.bytes(4)).toString(), 'ping');
  });
});
