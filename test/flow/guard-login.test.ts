/** The lockout guard through the running daemon, counted at the origin. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestCaller, World } from './login-world.ts';
import { patterned, startWorld, USERS } from './login-world.ts';

const WRONG = { alice: 'wrong', bob: 'bob-secret' };

const guardState = async (world: World, principal: string): Promise<number> =>
  (await world.daemon.metrics()).sum('sidekerb_guard_state', { principal, upstream: 'origin' });

/** Asks until the guard of alice answers; the statuses before. */
async function askUntilOpen(world: World): Promise<number[]> {
  const statuses: number[] = [];
  while (statuses.length < 10) {
    const { status } = await world.ask('alice');
    if (status === 503) return statuses;
    statuses.push(status);
  }
  throw new Error(`never open: ${statuses.join()}`);
}

describe('login guard', () => {
  test('a wrong password costs three logins, however many ask', async () => {
    await using world = await startWorld({ secrets: WRONG });
    const many = Array.from({ length: 100 }, (_, n) =>
      world.ask('alice', n % 2 === 0 ? 'GET' : 'POST', n % 2 === 0 ? {} : { body: patterned(n) }),
    );
    const answers = await Promise.all(many);
    assert.ok(world.upstream.count('type3') <= 3);
    const statuses = answers.map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 502).length, world.upstream.count('type3'));
    const refused = answers.filter(({ status }) => status === 503);
    assert.equal(refused.length, 100 - world.upstream.count('type3'));
    for (const answer of refused) {
      assert.match(answer.field('Proxy-Status') ?? '', /guard-open/);
      assert.ok(Number(answer.field('Retry-After')) > 800);
    }
    assert.deepEqual(world.executed, []);
    assert.equal(await guardState(world, 'alice'), 2);
    // The other account is not touched, nor is a route as nobody.
    assert.equal((await world.ask('bob')).field('X-User'), USERS.bob);
    assert.equal((await world.ask('open')).status, 200);
    assert.equal(await guardState(world, 'bob'), 0);
  });

  test('three in a row are 502, then 503 with Retry-After and not a socket more', async () => {
    await using world = await startWorld({
      secrets: WRONG,
      guard: 'rejections: 3, probeAfter: 10m',
    });
    assert.deepEqual(await askUntilOpen(world), [502, 502, 502]);
    const before = world.upstream.journal.sockets.length;
    const answer = await world.ask('alice', 'POST', { body: patterned(10) });
    assert.equal(answer.status, 503);
    assert.ok(Number(answer.field('Retry-After')) <= 600);
    assert.equal(world.upstream.journal.sockets.length, before);
  });

  test('sockets already authenticated keep working while the guard is open', async () => {
    const accounts: Record<string, string> = {
      'LAB\\alice': 'alice-secret',
      'LAB\\bob': 'bob-secret',
    };
    await using world = await startWorld({ upstream: { accounts }, guard: 'rejections: 2' });
    await using first = await world.caller('alice');
    assert.equal((await first.ask()).status, 200);
    accounts['LAB\\alice'] = 'changed';
    // Requests beside one that is held need sockets of their own, which are refused.
    const statuses: number[] = [];
    for (let n = 0; n < 5; n += 1) statuses.push(await beside(world, first));
    assert.equal(statuses.at(-1), 503);
    assert.ok(world.upstream.count('type3') <= 1 + 2);
    assert.equal((await first.ask()).field('X-User'), USERS.alice);
  });

  test('a flush closes the guard, and the next login decides', async () => {
    const accounts: Record<string, string> = { 'LAB\\alice': 'not-yet', 'LAB\\bob': 'bob-secret' };
    await using world = await startWorld({ upstream: { accounts } });
    await askUntilOpen(world);
    assert.equal(await guardState(world, 'alice'), 2);
    accounts['LAB\\alice'] = 'alice-secret';
    assert.equal((await world.ask('alice')).status, 503);
    await world.daemon.admin('POST /api/principals/alice/flush');
    assert.equal(await guardState(world, 'alice'), 0);
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
  });

  test('after probeAfter one login is tried, and opens or closes the guard', async () => {
    const accounts: Record<string, string> = { 'LAB\\alice': 'not-yet', 'LAB\\bob': 'bob-secret' };
    await using world = await startWorld({
      upstream: { accounts },
      guard: 'rejections: 1, probeAfter: 1s',
    });
    await askUntilOpen(world);
    assert.equal(world.upstream.count('type3'), 1);
    await world.daemon.measured(
      (metrics) =>
        metrics.sum('sidekerb_guard_state', { principal: 'alice', upstream: 'origin' }) === 1,
      'half-open',
    );
    const many = await Promise.all(Array.from({ length: 10 }, () => world.ask('alice')));
    assert.equal(world.upstream.count('type3'), 2);
    assert.deepEqual(
      many.map(({ status }) => status).toSorted((a, b) => a - b),
      [502, ...Array.from({ length: 9 }, () => 503)],
    );
    accounts['LAB\\alice'] = 'alice-secret';
    await world.daemon.measured(
      (metrics) =>
        metrics.sum('sidekerb_guard_state', { principal: 'alice', upstream: 'origin' }) === 1,
      'half-open again',
    );
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
    assert.equal(await guardState(world, 'alice'), 0);
  });

  test('a path that denies a user after a success is told from a bad credential by a probe', async () => {
    await using world = await startWorld({
      guard: 'rejections: 2',
      upstream: { deny: ({ target }) => (target.endsWith('/no') ? '401-challenge' : undefined) },
    });
    await world.ask('alice', 'GET', { path: 'yes' });
    for (let n = 0; n < 6; n += 1) {
      const { status } = await world.ask('alice', 'POST', { path: 'no', body: patterned(5) });
      assert.ok([502, 403].includes(status), `${status}`);
      assert.notEqual(await guardState(world, 'alice'), 2);
    }
    assert.equal((await world.ask('alice', 'GET', { path: 'yes' })).status, 200);
    const probes = world.upstream.requests.filter(
      ({ method, token, target }) =>
        method === 'HEAD' && token === 'type3' && target === '/alice/yes',
    );
    assert.ok(probes.length >= 1);
    assert.deepEqual(world.writes, []);
  });

  test('a password that was right and is wrong now opens the guard all the same', async () => {
    const accounts: Record<string, string> = {
      'LAB\\alice': 'alice-secret',
      'LAB\\bob': 'bob-secret',
    };
    await using world = await startWorld({ upstream: { accounts, forgetAfter: 1 } });
    await world.prove('alice');
    accounts['LAB\\alice'] = 'changed';
    const statuses = await askUntilOpen(world);
    assert.deepEqual(statuses, [502, 502, 502]);
    assert.equal(
      world.sockets.reduce((sum, { type3 }) => sum + type3, 0),
      3,
    );
  });

  test('a caller who leaves before the login is done again on another socket takes no place', async () => {
    const accounts: Record<string, string> = {
      'LAB\\alice': 'alice-secret',
      'LAB\\bob': 'bob-secret',
    };
    const held = Promise.withResolvers<void>();
    let closes = true;
    await using world = await startWorld({
      pool: 'waitTimeout: 1s',
      upstream: {
        accounts,
        login: {
          type3: () => (closes ? 'close' : 'verify'),
          beforeAnswer: (leg) => (leg === 'type3' ? held.promise : Promise.resolve()),
        },
      },
    });
    const caller = await world.caller('alice');
    await caller.send();
    await world.upstream.saw(({ sockets }) => sockets.some(({ type3 }) => type3 > 0), 'type 3');
    caller.client.reset();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
      'no caller',
    );
    held.resolve();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
      'no socket',
    );
    closes = false;
    assert.equal((await world.ask('alice')).status, 200);
    await world.dropAll();
    accounts['LAB\\alice'] = 'changed';
    // A login that counts as under way for ever would keep the last attempt waiting.
    assert.deepEqual(await askUntilOpen(world), [502, 502, 502]);
    assert.match((await world.ask('alice')).field('Proxy-Status') ?? '', /guard-open/);
    assert.equal(await guardState(world, 'alice'), 2);
  });

  test('a login done again that fails is not tried a third time on the ticket of the first', async () => {
    await using world = await startWorld({
      upstream: {
        login: {
          type1: (id) => (id === 2 ? 'fin' : 'challenge'),
          type3: (_claim, id) => (id === 1 ? 'close' : 'verify'),
        },
      },
    });
    assert.equal((await world.ask('alice')).status, 502);
    assert.equal(world.sockets.length, 2);
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
  });

  test('callers who leave while their answers take long do not shut a good credential off', async () => {
    const held = Promise.withResolvers<void>();
    await using world = await startWorld({
      upstream: {
        handler: async ({ target }) => {
          if (target.endsWith('/slow')) await held.promise;
          return { body: 'ok' };
        },
      },
    });
    await world.prove('alice');
    const leavers = await Promise.all(Array.from({ length: 4 }, () => world.caller('alice')));
    await Promise.all(leavers.map((caller) => caller.send('GET', { path: 'slow' })));
    await world.upstream.saw(
      () => world.sockets.filter(({ type3 }) => type3 > 0).length === 4,
      'type 3 of each',
    );
    for (const { client } of leavers) client.reset();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
      'no caller',
    );
    held.resolve();
    assert.equal(await guardState(world, 'alice'), 0);
    assert.equal((await world.ask('alice')).status, 200);
  });

  test('a wrong password is bounded where its login is answered without a verdict', async () => {
    for (const status of [401, 400, 500]) {
      // The last leg says nothing; the request behind it is challenged on the same socket.
      const raw = `HTTP/1.1 ${status} Word\r\nContent-Length: 0\r\n\r\n`;
      await using world = await startWorld({
        upstream: {
          deny: ({ method }) => (method === 'HEAD' ? undefined : '401-challenge'),
          handler: () => ({ body: 'ok' }),
          legHandler: () => ({ raw }),
        },
      });
      assert.deepEqual(await askUntilOpen(world), [502, 502, 502], `${status}`);
      assert.equal(world.upstream.count('type3'), 3);
    }
  });

  test('a half-open guard closes where HEAD is not answered and the request is', async () => {
    const accounts: Record<string, string> = { 'LAB\\alice': 'not-yet', 'LAB\\bob': 'bob-secret' };
    await using world = await startWorld({
      upstream: { accounts, legHandler: () => ({ status: 501 }) },
      guard: 'rejections: 1, probeAfter: 1s',
    });
    await askUntilOpen(world);
    accounts['LAB\\alice'] = 'alice-secret';
    await world.daemon.measured(
      (metrics) =>
        metrics.sum('sidekerb_guard_state', { principal: 'alice', upstream: 'origin' }) === 1,
      'half-open',
    );
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
    assert.equal(await guardState(world, 'alice'), 0);
  });

  test('an origin that fails, or that denies without a challenge, opens no guard', async () => {
    for (const upstream of [
      { handler: () => ({ status: 500, body: 'sick' }) },
      { deny: () => 'bare-401' as const },
      { deny: () => '403' as const },
      { login: { type1: 'bare' as const } },
    ]) {
      await using world = await startWorld({ upstream, guard: 'rejections: 1' });
      for (let n = 0; n < 4; n += 1) assert.notEqual((await world.ask('alice')).status, 503);
      assert.equal(await guardState(world, 'alice'), 0);
    }
  });
});

/** Status of a request of alice that runs while the socket of `other` is in use. */
async function beside(world: World, other: TestCaller): Promise<number> {
  const body = patterned(1000);
  await other.send('POST', { fields: { 'Content-Length': '1000' } });
  await other.client.send(body.subarray(0, 500));
  const before = world.upstream.requests.length;
  await world.upstream.saw(
    ({ sockets }) => sockets[0]?.requests.at(-1)?.bodyLength === 500,
    `${before}`,
  );
  const { status } = await world.ask('alice');
  await other.client.send(body.subarray(500));
  assert.equal((await other.client.response('POST')).status, 200);
  return status;
}
