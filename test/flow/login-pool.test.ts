/** The life of pooled sockets under the running daemon: races, ages, caps, queues, callers that go. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Gate, until } from '../support/waiting.ts';
import { patterned, startWorld, USERS, type World } from './login-world.ts';

const sockets = (world: World): number => world.sockets.length;

const idle = (world: World, count: number): Promise<unknown> =>
  world.daemon.measured(
    (metrics) => metrics.sum('sidekerb_upstream_connections', { state: 'idle' }) === count,
    `${count} idle sockets`,
  );

const none = (world: World): Promise<unknown> =>
  world.daemon.measured(
    (metrics) =>
      metrics.sum('sidekerb_upstream_connections') === 0 &&
      metrics.sum('sidekerb_pool_waiters') === 0,
    'no socket and no waiter',
  );

const allClosed = (world: World): Promise<void> =>
  world.upstream.saw((journal) => journal.sockets.every(({ open }) => !open), 'all sockets closed');

describe('idle sockets', () => {
  for (const how of ['fin', 'reset'] as const) {
    test(`R40 a silent ${how} takes an idle socket out of the pool`, async () => {
      await using world = await startWorld();
      await world.ask('alice');
      await idle(world, 1);
      world.upstream.drop(how);
      await none(world);
      assert.equal((await world.ask('alice', 'POST', { body: patterned(9) })).status, 200);
      assert.equal(world.writes.length, 1);
      const metrics = await world.daemon.metrics();
      const closed = { upstream: 'origin', reason: 'peer' };
      assert.equal(metrics.sum('sidekerb_upstream_connections_closed_total', closed), 1);
    });
  }

  test('R40 a byte that nobody asked for ends an idle socket and reaches no caller', async () => {
    const bytes = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison';
    // The first answer of a socket is the challenge, the second the one to the request.
    await using world = await startWorld({
      upstream: { idle: { unsolicited: { after: 2, bytes } } },
    });
    await world.prove('alice');
    for (let n = 0; n < 5; n += 1) {
      const answer = await world.ask('alice');
      assert.equal(answer.status, 200);
      assert.notEqual(answer.body.toString(), 'poison');
    }
    await allClosed(world);
    await none(world);
    assert.equal(sockets(world), 5);
  });

  test('R42 a GET that meets a closing socket is sent once more, a POST is not', async () => {
    for (const method of ['GET', 'POST']) {
      const seen: number[] = [];
      let armed = false;
      await using world = await startWorld({
        upstream: {
          // The answer to the third message of a socket never comes: it is closed instead.
          handler: async ({ nth, socketId }) => {
            seen.push(socketId);
            return armed && nth === 3 ? { raw: '', after: 'fin' } : { body: 'ok' };
          },
        },
      });
      await world.prove('alice');
      armed = true;
      seen.length = 0;
      await world.ask('alice');
      const body = method === 'POST' ? { body: patterned(10) } : {};
      const answer = await world.ask('alice', method, body);
      assert.equal(answer.status, method === 'GET' ? 200 : 502, method);
      assert.deepEqual(seen, method === 'GET' ? [2, 2, 3] : [2, 2]);
    }
  });

  test('R42 a GET is not sent a third time', async () => {
    let warm = false;
    await using world = await startWorld({
      upstream: { handler: () => (warm ? { raw: '', after: 'reset' } : { body: 'ok' }) },
    });
    await world.ask('alice');
    warm = true;
    assert.equal((await world.ask('alice')).status, 502);
    assert.equal(world.executed.length, 3);
  });

  test('R43 an idle socket closes after idleTimeout', async () => {
    await using world = await startWorld({ pool: 'idleTimeout: 100ms' });
    await world.ask('alice');
    await allClosed(world);
    await none(world);
  });

  test('R43 a socket that is older than maxAge takes no further request', async () => {
    await using world = await startWorld({ pool: 'maxAge: 1s' });
    const end = performance.now() + 4000;
    while (sockets(world) < 2 && performance.now() < end) await world.ask('alice');
    assert.equal(sockets(world), 2);
    const metrics = await world.daemon.metrics();
    const closed = { upstream: 'origin', reason: 'age' };
    assert.equal(metrics.sum('sidekerb_upstream_connections_closed_total', closed), 1);
  });

  test('R43 a socket closes after maxRequests', async () => {
    await using world = await startWorld({ pool: 'maxRequests: 3' });
    await world.prove('alice');
    for (let n = 0; n < 7; n += 1) assert.equal((await world.ask('alice')).status, 200);
    // The login's own message is no request of a caller.
    assert.deepEqual(
      world.sockets.map(({ requests }) => requests.length),
      [4, 4, 2],
    );
  });
});

describe('limits', () => {
  test('R16 legs of 50 first requests never interleave, and one login runs until one worked', async () => {
    let running = 0;
    let most = 0;
    let proven = false;
    let mostBefore = 0;
    const during = async (leg: 'type1' | 'type3'): Promise<void> => {
      if (leg === 'type1') running += 1;
      most = Math.max(most, running);
      if (!proven) mostBefore = Math.max(mostBefore, running);
      await new Promise((resolve) => void setImmediate(resolve));
      if (leg === 'type3') running -= 1;
      if (leg === 'type3') proven = true;
    };
    await using world = await startWorld({
      pool: 'maxHandshakes: 4, maxConnections: 20, maxPerPrincipal: 20',
      upstream: { login: { beforeAnswer: during } },
    });
    const asked = Array.from({ length: 50 }, (_, n) =>
      world.ask('alice', n % 2 === 0 ? 'GET' : 'POST', n % 2 === 0 ? {} : { body: patterned(n) }),
    );
    for (const answer of await Promise.all(asked))
      assert.equal(answer.field('X-User'), USERS.alice);
    assert.equal(mostBefore, 1);
    assert.ok(most <= 4, `${most} logins at a time`);
    assert.ok(sockets(world) <= 20);
    assert.equal(world.writes.length, 25);
    for (const { requests } of world.upstream.journal.sockets) {
      const tokens = requests.map(({ token }) => token);
      assert.deepEqual(tokens.slice(0, 2), ['type1', 'type3']);
      assert.ok(tokens.slice(2).every((token) => token === 'none'));
    }
  });

  test('R44 caps hold, the queue is served in order, and what has no room is refused', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      pool: 'maxConnections: 2, maxPerPrincipal: 2, maxWaiters: 2, waitTimeout: 5s',
      upstream: {
        handler: async ({ target, user }) => {
          if (!target.endsWith('/first')) await gate.pass();
          return { body: user ?? 'nobody' };
        },
      },
    });
    await world.ask('alice', 'GET', { path: 'first' });
    const running = [world.ask('alice'), world.ask('alice')];
    await until(() => gate.arrivals === 2, 'two requests at the origin');
    const waiting = [world.ask('alice'), world.ask('bob')];
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_pool_waiters') === 2,
      'two waiters',
    );
    const refused = await world.ask('alice');
    assert.equal(refused.status, 503);
    assert.match(refused.field('Retry-After') ?? '', /^[1-9]\d*$/);
    gate.open();
    for (const answer of await Promise.all([...running, ...waiting]))
      assert.equal(answer.status, 200);
    assert.equal(world.executed.at(-1)?.user, USERS.bob);
    await world.upstream.saw(
      (journal) => journal.sockets.filter(({ open }) => open).length <= 2,
      'two sockets at most',
    );
  });

  test('R44 a request waits no longer than waitTimeout', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      pool: 'maxConnections: 1, maxPerPrincipal: 1, waitTimeout: 100ms',
      upstream: { handler: () => gate.pass().then(() => ({ body: 'ok' })) },
    });
    const first = world.ask('alice');
    await until(() => gate.arrivals === 1, 'a request at the origin');
    assert.equal((await world.ask('bob')).status, 504);
    gate.open();
    assert.equal((await first).status, 200);
    assert.equal(sockets(world), 1);
  });

  test('R44 an idle socket of one principal makes room for another one', async () => {
    await using world = await startWorld({ pool: 'maxConnections: 1, maxPerPrincipal: 1' });
    for (const who of ['alice', 'bob', 'open', 'alice'] as const) {
      assert.equal((await world.ask(who)).status, 200);
    }
    assert.equal(sockets(world), 4);
    const metrics = await world.daemon.metrics();
    const closed = { upstream: 'origin', reason: 'evicted' };
    assert.equal(metrics.sum('sidekerb_upstream_connections_closed_total', closed), 3);
  });
});

describe('callers that go away', () => {
  test('R17 before the first leg is answered: the socket ends with the caller', async () => {
    for (const held of ['type1', 'type3'] as const) {
      const gate = new Gate();
      let armed = false;
      await using world = await startWorld({
        upstream: {
          login: {
            beforeAnswer: (leg) => (armed && leg === held ? gate.pass() : Promise.resolve()),
          },
        },
      });
      await world.prove('alice');
      armed = true;
      const caller = await world.caller('alice');
      await caller.send('POST', { body: patterned(100) });
      await until(() => gate.arrivals === 1, `a ${held} at the origin`);
      caller.client.reset();
      await none(world);
      gate.open();
      await allClosed(world);
      // Nothing of the half of a login is used again: the next one is a whole one on its own socket.
      assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
      assert.equal(sockets(world), 2);
    }
  });

  test('R17 while it waits in the queue: nothing is opened for it', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      pool: 'maxConnections: 1, maxPerPrincipal: 1',
      upstream: { handler: () => gate.pass().then(() => ({ body: 'ok' })) },
    });
    const first = world.ask('alice');
    await until(() => gate.arrivals === 1, 'a request at the origin');
    const caller = await world.caller('bob');
    await caller.send();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_pool_waiters') === 1,
      'a waiter',
    );
    caller.client.reset();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_pool_waiters') === 0,
      'no waiter',
    );
    gate.open();
    assert.equal((await first).status, 200);
    assert.deepEqual(
      world.executed.map(({ user }) => user),
      [USERS.alice],
    );
  });

  test('R17 in the middle of its body: the origin never takes it for whole', async () => {
    for (const framing of ['counted', 'chunked'] as const) {
      for (const state of ['cold', 'warm']) {
        await using world = await startWorld();
        if (state === 'warm') await world.ask('alice');
        const caller = await world.caller('alice');
        const fields: Record<string, string> =
          framing === 'counted' ? { 'Content-Length': '1000' } : { 'Transfer-Encoding': 'chunked' };
        await caller.send('POST', { fields });
        await caller.client.send(framing === 'counted' ? patterned(500) : '1f4\r\n');
        if (framing === 'chunked') await caller.client.send(patterned(500));
        await world.upstream.saw(
          (journal) =>
            journal.sockets.some(({ requests }) => requests.some((one) => one.bodyLength === 500)),
          'half of the body',
        );
        caller.client.reset();
        await none(world);
        await allClosed(world);
        assert.deepEqual(world.writes, [], `${framing} ${state}`);
      }
    }
  });

  test('R17 before the answer, and in the middle of it: the socket is not used again', async () => {
    for (const point of ['before', 'within']) {
      const gate = new Gate();
      const large = { body: patterned(4_000_000) };
      await using world = await startWorld({
        upstream: {
          handler: async ({ target }) => {
            if (target.endsWith('/next')) return { body: 'ok' };
            if (point === 'before') await gate.pass();
            return large;
          },
        },
      });
      const caller = await world.caller('alice');
      await caller.send();
      if (point === 'before') await until(() => gate.arrivals === 1, 'a request at the origin');
      else await caller.client.head();
      caller.client.reset();
      await none(world);
      gate.open();
      await allClosed(world);
      assert.equal((await world.ask('alice', 'GET', { path: 'next' })).body.toString(), 'ok');
      assert.equal(sockets(world), 2);
    }
  });

  test('R17 with a further request behind the one in work: neither is left behind', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      upstream: { handler: () => gate.pass().then(() => ({ body: 'ok' })) },
    });
    const caller = await world.caller('alice');
    await caller.send();
    await caller.send('POST', { body: patterned(2000) });
    await until(() => gate.arrivals === 1, 'a request at the origin');
    caller.client.reset();
    await none(world);
    gate.open();
    await allClosed(world);
    assert.equal(world.executed.length, 1);
  });

  test('a caller that ends its side after the request still gets the answer', async () => {
    await using world = await startWorld();
    await using caller = await world.caller('alice');
    await caller.send('POST', { body: patterned(100) });
    caller.client.endWriting();
    assert.equal((await caller.client.response('POST')).field('X-User'), USERS.alice);
  });
});

describe('admin actions', () => {
  for (const [action, line] of [
    ['flush', 'POST /api/principals/alice/flush'],
    ['drain', 'POST /api/pools/origin/drain'],
  ] as const) {
    test(`R50 a ${action} closes idle sockets now and busy ones when they come back`, async () => {
      const gate = new Gate();
      await using world = await startWorld({
        upstream: {
          handler: async ({ target, user }) => {
            if (target.endsWith('/held')) await gate.pass();
            return { fields: [['X-User', user ?? '']], body: 'ok' };
          },
        },
      });
      await world.ask('alice');
      const held = world.ask('alice', 'GET', { path: 'held' });
      await until(() => gate.arrivals === 1, 'a held request');
      await world.ask('alice');
      await world.ask('bob');
      await idle(world, 2);
      const counts = (): number[] =>
        world.sockets.slice(0, 2).map(({ requests }) => requests.length);
      const before = counts();
      assert.equal((await world.daemon.admin(line)).status < 300, true);
      await idle(world, action === 'flush' ? 1 : 0);
      const fresh = await world.ask('alice');
      assert.equal(fresh.field('X-User'), USERS.alice);
      gate.open();
      assert.equal((await held).status, 200);
      await world.upstream.saw(
        ({ sockets: all }) => all[0]?.open === false,
        'the held socket closed',
      );
      // Sockets 1 and 2 are from before the action; nothing came on them since.
      assert.deepEqual(counts(), before);
    });
  }

  test('R50 a flush while a login runs lets the request log in anew', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      upstream: {
        login: {
          beforeAnswer: (leg, id) =>
            leg === 'type1' && id === 1 ? gate.pass() : Promise.resolve(),
        },
      },
    });
    const asked = world.ask('alice', 'POST', { body: patterned(10) });
    await until(() => gate.arrivals === 1, 'a type 1 at the origin');
    await world.daemon.admin('POST /api/principals/alice/flush');
    const answer = await asked;
    gate.open();
    assert.equal(answer.field('X-User'), USERS.alice);
    assert.equal(world.writes.length, 1);
    assert.equal(world.upstream.journal.sockets[0]?.type3, 0);
  });

  test('R50 an unknown name is an error and changes nothing', async () => {
    await using world = await startWorld();
    await world.ask('alice');
    for (const line of ['POST /api/principals/nobody/flush', 'POST /api/pools/nowhere/drain']) {
      assert.equal((await world.daemon.admin(line)).status, 404);
    }
    await world.ask('alice');
    assert.equal(sockets(world), 1);
  });
});

describe('books', () => {
  test('R45 gauges equal what is open after a storm of aborts', async () => {
    await using world = await startWorld({
      pool: 'maxConnections: 6, maxPerPrincipal: 4, maxIdle: 4, waitTimeout: 2s',
      upstream: { forgetAfter: 3 },
    });
    const storm = Array.from({ length: 60 }, async (_, n) => {
      const caller = await world.caller(
        (['alice', 'bob', 'open', 'plain'] as const)[n % 4] ?? 'alice',
      );
      await caller.send(
        n % 3 === 0 ? 'POST' : 'GET',
        n % 3 === 0 ? { body: patterned(n * 500) } : {},
      );
      if (n % 5 === 0) caller.client.reset();
      else await caller.client.response();
      await caller[Symbol.asyncDispose]();
    });
    await Promise.all(storm);
    const metrics = await world.daemon.measured(
      (seen) => seen.sum('sidekerb_upstream_connections', { state: 'active' }) === 0,
      'nothing in use',
    );
    assert.equal(metrics.sum('sidekerb_upstream_connections', { state: 'connecting' }), 0);
    assert.equal(metrics.sum('sidekerb_pool_waiters'), 0);
    assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
    const idleNow = metrics.sum('sidekerb_upstream_connections', { state: 'idle' });
    await world.upstream.saw(
      (journal) => journal.sockets.filter(({ open }) => open).length === idleNow,
      `${idleNow} sockets open at the origin`,
    );
  });
});
