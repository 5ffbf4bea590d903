/** A configuration that is read again while requests run: routes, secrets, faults, answers. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Gate, until } from '../support/waiting.ts';
import { startWorld, USERS, type World } from './login-world.ts';

/** What the daemon did with requests and logins since it started. */
const reloads = async (world: World, result: 'ok' | 'failed'): Promise<number> =>
  (await world.daemon.metrics()).sum('sidekerb_config_reloads_total', { result });

describe('a reload', () => {
  test('R53 gives an open connection of a caller the new routes with its next request', async () => {
    await using world = await startWorld();
    await using caller = await world.caller('alice');
    assert.equal((await caller.ask()).field('X-User'), USERS.alice);
    const report = await world.daemon.reload((text) => text.replace('path: /alice/', 'path: /a/'));
    assert.equal(report.result, 'ok');
    assert.equal((await caller.ask()).status, 404);
    await using other = await world.caller('alice');
    await other.client.request('GET /a/x', other.head());
    assert.equal((await other.client.response()).field('X-User'), USERS.alice);
    // Same principal, same upstream: the connection is from before.
    assert.equal(world.sockets.length, 1);
  });

  test('that changes nothing leaves connections and counts alone', async () => {
    await using world = await startWorld();
    await using caller = await world.caller('alice');
    await caller.ask();
    const report = await world.daemon.reload();
    const none = { added: [], removed: [], changed: [] };
    assert.deepEqual(report, {
      result: 'ok',
      reason: undefined,
      faults: [],
      warnings: [],
      principals: none,
      upstreams: none,
      listeners: { opened: [], closed: [] },
      restartNeeded: [],
    });
    await caller.ask();
    assert.equal(world.sockets.length, 1);
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_requests_total', { upstream: 'origin', class: '2xx' }), 2);
    assert.equal(await reloads(world, 'ok'), 1);
  });

  test('I10 with a fault or without a credential changes nothing, and is told with its place', async () => {
    await using world = await startWorld();
    await using caller = await world.caller('alice');
    await caller.ask();
    const rows: [change: (text: string) => string, path: string, message: RegExp][] = [
      [(text) => `${text}nonsense: 1\n`, 'nonsense', /unknown key/],
      [
        (text) => text.replace('{ env: ALICE }', '{ file: /nowhere/secret }'),
        'principals.alice.password',
        /does not exist/,
      ],
      [(text) => text.replace('upstream: plain', 'upstream: gone'), 'routes[3]', /no upstream/],
    ];
    for (const [change, path, message] of rows) {
      let before = '';
      const report = await world.daemon.reload((text) => {
        before = text;
        return change(text).replace('path: /alice/', 'path: /elsewhere/');
      });
      assert.deepEqual([report.result, report.reason], ['failed', undefined]);
      assert.equal(report.faults.length, 1);
      assert.ok(report.faults[0]?.path.includes(path), report.faults[0]?.path ?? 'no fault');
      assert.match(report.faults[0]?.message ?? '', message);
      assert.match(world.daemon.logText, /"place":"\/test\/sidekerb\.yaml:\d+:\d+"/);
      assert.equal((await caller.ask()).field('X-User'), USERS.alice);
      world.daemon.rewrite(() => before);
    }
    assert.equal(world.sockets.length, 1);
    assert.equal(await reloads(world, 'failed'), 3);
    assert.match(world.daemon.logText, /reload failed: nothing is changed/);
  });

  test('names what it cannot change', async () => {
    await using world = await startWorld();
    const report = await world.daemon.reload(
      (text) =>
        `${text}log: { level: debug }\nlimits: { upstreamConnections: 5, connections: 7 }\n`,
    );
    assert.deepEqual(report.restartNeeded, ['log.level', 'limits.upstreamConnections']);
    assert.match(world.daemon.logText, /"key":"log\.level".*only after a restart/);
  });

  test('is refused while the daemon ends', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      upstream: {
        handler: async () => {
          await gate.pass();
          return {};
        },
      },
    });
    const held = world.ask('open');
    await until(() => gate.arrivals === 1, 'a held request');
    const ended = world.daemon.app.drain();
    const report = await world.daemon.reload();
    assert.deepEqual([report.result, report.reason], ['failed', 'the daemon is draining']);
    gate.open();
    assert.equal((await held).status, 200);
    await ended;
  });

  test('of an upstream drains its connections, and a request in work ends where it began', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      upstream: {
        handler: async ({ target, user }) => {
          if (target.endsWith('/held')) await gate.pass();
          return { fields: [['X-User', user ?? '']], body: target };
        },
      },
    });
    const held = world.ask('alice', 'GET', { path: 'held' });
    await until(() => gate.arrivals === 1, 'a held request');
    await world.ask('plain');
    const report = await world.daemon.reload((text) =>
      text.replace(/(origin: \{ url: '[^']*)'/, "$1/base'"),
    );
    assert.deepEqual(report.upstreams, { added: [], removed: [], changed: ['origin'] });
    assert.equal((await world.ask('alice')).body.toString(), '/base/alice/x');
    gate.open();
    assert.equal((await held).body.toString(), '/alice/held');
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'the old one closed');
    await world.ask('plain');
    // alice before and after, and the one of the upstream that stayed as it was.
    assert.equal(world.sockets.length, 3);
  });
});

describe('another secret', () => {
  /** An origin whose directory a test changes. */
  const changeable = (): Record<string, string> => ({
    'LAB\\alice': 'alice-secret',
    'LAB\\bob': 'bob-secret',
  });

  test('R15 closes idle connections, and those in use when they come back', async () => {
    const gate = new Gate();
    const accounts = changeable();
    await using world = await startWorld({
      upstream: {
        accounts,
        handler: async ({ target, user }) => {
          if (target.endsWith('/held')) await gate.pass();
          return { fields: [['X-User', user ?? '']], body: 'ok' };
        },
      },
    });
    await world.ask('alice');
    const held = world.ask('alice', 'GET', { path: 'held' });
    await until(() => gate.arrivals === 1, 'a held request');
    await Promise.all([world.ask('alice'), world.ask('bob')]);
    accounts['LAB\\alice'] = 'another-secret';
    const report = await world.daemon.reload(undefined, { ALICE: 'another-secret' });
    assert.deepEqual(report.principals.changed, ['alice']);
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
    gate.open();
    assert.equal((await held).status, 200);
    await world.ask('bob');
    const ofAlice = world.sockets.filter(({ logins }) => logins.includes(USERS.alice));
    assert.equal(ofAlice.length, 3);
    await world.upstream.saw(
      () => ofAlice.filter(({ open }) => open).length === 1,
      'only the new connection open',
    );
    assert.equal(world.sockets.filter(({ logins }) => logins.includes(USERS.bob)).length, 1);
    const metrics = await world.daemon.metrics();
    const rotated = { upstream: 'origin', reason: 'rotated' };
    assert.equal(metrics.sum('sidekerb_upstream_connections_closed_total', rotated), 2);
  });

  test('R15 is used under running requests: none fails, and every new login has it', async () => {
    const accounts = changeable();
    await using world = await startWorld({ upstream: { accounts } });
    await world.prove('alice');
    const counts = Array.from({ length: 8 }, () => 0);
    const load = { isOver: false };
    const callers = counts.map(async (_, n) => {
      await using caller = await world.caller('alice');
      while (!load.isOver) {
        const answer = await caller.ask('POST', { body: Buffer.from('x') });
        assert.equal(answer.status, 200, answer.body.toString());
        assert.equal(answer.field('X-User'), USERS.alice);
        counts[n] = (counts[n] ?? 0) + 1;
      }
    });
    const more = (than: readonly number[]): boolean =>
      counts.every((count, n) => count > (than[n] ?? 0) + 20);
    for (const secret of ['second-secret', 'third-secret']) {
      const from = [...counts];
      await until(() => more(from), 'requests before');
      accounts['LAB\\alice'] = secret;
      const report = await world.daemon.reload(undefined, { ALICE: secret });
      assert.equal(report.result, 'ok');
      const to = [...counts];
      await until(() => more(to), 'requests after');
    }
    load.isOver = true;
    await Promise.all(callers);
    // An old secret would have been rejected: each message of a login was accepted.
    for (const { type3, logins } of world.sockets) assert.equal(type3, logins.length);
    assert.equal(
      world.writes.length,
      counts.reduce((sum, count) => sum + count, 0),
    );
  });

  test('R15 is used by a request that was logging in when it came', async () => {
    const gate = new Gate();
    const accounts = changeable();
    await using world = await startWorld({
      upstream: {
        accounts,
        login: {
          beforeAnswer: (leg, id) =>
            leg === 'type1' && id === 1 ? gate.pass() : Promise.resolve(),
        },
      },
    });
    const asked = world.ask('alice', 'POST', { body: Buffer.from('x') });
    await until(() => gate.arrivals === 1, 'a type 1 at the origin');
    accounts['LAB\\alice'] = 'another-secret';
    await world.daemon.reload(undefined, { ALICE: 'another-secret' });
    const answer = await asked;
    gate.open();
    assert.equal(answer.field('X-User'), USERS.alice);
    assert.equal(world.writes.length, 1);
    assert.equal(world.sockets[0]?.type3, 0);
  });

  test('R15 is tried for a request whose login was refused with the old one meanwhile', async () => {
    const gate = new Gate();
    const accounts = changeable();
    let isHeld = false;
    await using world = await startWorld({
      upstream: {
        accounts,
        login: {
          beforeAnswer: (leg) => (leg === 'type3' && isHeld ? gate.pass() : Promise.resolve()),
        },
      },
    });
    // From here on the last message of a login travels with its request.
    await world.prove('alice');
    isHeld = true;
    accounts['LAB\\alice'] = 'another-secret';
    const asked = world.ask('alice');
    const upload = world.ask('alice', 'POST', { body: Buffer.from('x') });
    await until(() => gate.arrivals === 2, 'old secrets at the origin');
    isHeld = false;
    await world.daemon.reload(undefined, { ALICE: 'another-secret' });
    gate.open();
    assert.equal((await asked).field('X-User'), USERS.alice);
    // A body that went out with a token is not kept: its caller is told to come again.
    const answer = await upload;
    assert.deepEqual([answer.status, answer.field('Retry-After')], [503, '0']);
    assert.equal(world.writes.length, 0);
  });

  for (const [what, change] of [
    ['names another account now', (text) => text.replace("'LAB\\alice'", "'LAB\\bob'")],
    [
      'is gone',
      (text) => text.replace(/^ {2}alice: .*\n/m, '').replace(/^.*principal: alice.*\n/m, ''),
    ],
  ] as [string, (text: string) => string][]) {
    test(`R14 a request that logs in while its principal ${what} goes as who it began`, async () => {
      const gate = new Gate();
      await using world = await startWorld({
        upstream: {
          login: {
            beforeAnswer: (leg, id) =>
              leg === 'type1' && id === 1 ? gate.pass() : Promise.resolve(),
          },
        },
      });
      const asked = world.ask('alice');
      await until(() => gate.arrivals === 1, 'a type 1 at the origin');
      const report = await world.daemon.reload(change);
      assert.equal(report.result, 'ok');
      assert.equal((await asked).field('X-User'), USERS.alice);
      gate.open();
    });
  }

  test('R15 may come again and again while a request logs in', async () => {
    const gate = new Gate();
    const accounts = changeable();
    await using world = await startWorld({
      upstream: {
        accounts,
        login: {
          beforeAnswer: (leg, id) => (leg === 'type1' && id < 4 ? gate.pass() : Promise.resolve()),
        },
      },
    });
    const asked = world.ask('alice');
    for (const n of [1, 2, 3]) {
      await until(() => gate.arrivals === n, `login ${n} at the origin`);
      accounts['LAB\\alice'] = `secret-${n}`;
      await world.daemon.reload(undefined, { ALICE: `secret-${n}` });
    }
    assert.equal((await asked).field('X-User'), USERS.alice);
    gate.open();
    assert.equal(world.sockets.filter(({ type3 }) => type3 > 0).length, 1);
  });

  test('is tried at once where the guard had shut the old one off', async () => {
    await using world = await startWorld({ secrets: { alice: 'wrong' }, guard: 'rejections: 1' });
    assert.equal((await world.ask('alice')).status, 502);
    assert.equal((await world.ask('alice')).status, 503);
    await world.daemon.reload(undefined, { ALICE: 'alice-secret' });
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
    // What was shut off stays so: a roll-back is no way round the guard.
    await world.daemon.reload(undefined, { ALICE: 'wrong' });
    assert.equal((await world.ask('alice')).status, 503);
  });

  test('that is the same one from another place is none', async () => {
    await using world = await startWorld();
    await world.ask('alice');
    const report = await world.daemon.reload(
      (text) => text.replace('{ env: ALICE }', '{ env: OTHER }'),
      { OTHER: 'alice-secret\n' },
    );
    assert.deepEqual(report.principals, { added: [], removed: [], changed: [] });
    await world.ask('alice');
    assert.equal(world.sockets.length, 1);
  });

  test('of a principal that was taken away: its connections close', async () => {
    await using world = await startWorld();
    await Promise.all([world.ask('alice'), world.ask('bob')]);
    const report = await world.daemon.reload((text) =>
      text.replace(/^ {2}bob: .*\n/m, '').replace(/^.*principal: bob.*\n/m, ''),
    );
    assert.deepEqual(report.principals, { added: [], removed: ['bob'], changed: [] });
    await world.upstream.saw(
      ({ sockets }) => sockets.every(({ open, logins }) => open === logins.includes(USERS.alice)),
      'bob gone',
    );
    assert.equal((await world.ask('bob')).status, 404);
    assert.doesNotMatch((await world.daemon.metrics()).text, /principal="bob"/);
  });
});
