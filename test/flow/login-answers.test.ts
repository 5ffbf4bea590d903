/** What answers of the origin lead to: the 401 and 407 table, and the text and body of challenges. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fieldValues } from '../support/strict-http.ts';
import type {
  ChallengeBody,
  ChallengeText,
  ScriptedUpstreamOptions,
} from '../support/upstream-options.ts';
import { patterned, startWorld, USERS, type World } from './login-world.ts';

describe('401 and 407 of the upstream', () => {
  test('R38 a 401 without a challenge is passed on and the socket is kept', async () => {
    await using world = await startWorld({
      upstream: { deny: ({ target }) => (target.endsWith('/no') ? 'bare-401' : undefined) },
    });
    // As the first answer of a login, and as a later one.
    for (const path of ['no', 'yes', 'no', 'yes']) {
      const answer = await world.ask('alice', 'GET', { path });
      assert.equal(answer.status, path === 'no' ? 401 : 200);
      if (path === 'no') assert.equal(answer.body.toString(), 'not for you');
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
    assert.equal(world.upstream.count('type3'), 1);
  });

  test('R38 a 401 with our challenge on a warm socket leads to one login on a fresh one', async () => {
    await using world = await startWorld({ upstream: { forgetAfter: 2 } });
    await world.prove('alice');
    const users: (string | undefined)[] = [];
    for (let n = 0; n < 6; n += 1) users.push((await world.ask('alice')).field('X-User'));
    assert.deepEqual(
      users,
      Array.from({ length: 6 }, () => USERS.alice),
    );
    assert.deepEqual(
      world.sockets.map(({ type3 }) => type3),
      [1, 1, 1],
    );
    const metrics = await world.daemon.metrics();
    assert.ok(metrics.sum('sidekerb_reauthentications_total', { upstream: 'origin' }) >= 2);
  });

  test('R38 a path that answers a good login with a challenge is an error and not a loop', async () => {
    await using world = await startWorld({
      upstream: { deny: ({ target }) => (target.endsWith('/no') ? '401-challenge' : undefined) },
    });
    assert.equal((await world.ask('alice', 'GET', { path: 'yes' })).status, 200);
    for (let n = 0; n < 3; n += 1) {
      const before = world.upstream.count('type3');
      const answer = await world.ask('alice', 'POST', { path: 'no', body: Buffer.from('x') });
      assert.ok([502, 403].includes(answer.status), `${n}: ${answer.status}`);
      assert.deepEqual(answer.all('WWW-Authenticate'), []);
      assert.ok(world.upstream.count('type3') - before <= 1, `${n}`);
      // What is allowed goes on working: the guard stays closed.
      assert.equal((await world.ask('alice', 'GET', { path: 'yes' })).status, 200);
    }
    const metrics = await world.daemon.metrics();
    assert.equal(
      metrics.sum('sidekerb_guard_state', { principal: 'alice', upstream: 'origin' }),
      0,
    );
  });

  test('R26 a 407 of an origin is never answered and becomes 502', async () => {
    const asProxy = { status: 407, fields: [['Proxy-Authenticate', 'NTLM']] as const };
    for (const who of ['alice', 'open', 'plain'] as const) {
      await using world = await startWorld({ upstream: { handler: () => asProxy } });
      for (const method of ['GET', 'POST']) {
        const body = method === 'POST' ? { body: Buffer.from('x') } : {};
        const answer = await world.ask(who, method, body);
        assert.equal(answer.status, 502, `${who} ${method}`);
        assert.deepEqual(answer.all('Proxy-Authenticate'), []);
      }
      for (const { fields } of world.upstream.requests) {
        assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
      }
      assert.equal(world.upstream.openSockets <= 1, true);
    }
  });

  test('R26 a 407 in place of a challenge ends the login', async () => {
    await using world = await startWorld({
      upstream: {
        open: () => true,
        handler: () => ({ status: 407, fields: [['Proxy-Authenticate', 'NTLM TlRMTVNTUAACAAAA']] }),
      },
    });
    assert.equal((await world.ask('alice')).status, 502);
    assert.equal(world.upstream.count('type3'), 0);
  });

  test('R29 an origin that offers Basic or Negotiate only gets no password', async () => {
    await using basic = await startWorld({ upstream: { scheme: 'basic-only' } });
    const answer = await basic.ask('alice', 'POST', { body: Buffer.from('x') });
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /no-common-scheme/);
    const tokens = basic.upstream.requests.map(({ token }) => token);
    assert.deepEqual(tokens, ['type1']);
    assert.deepEqual(basic.writes, []);
    await using negotiate = await startWorld({
      upstream: {
        open: () => true,
        handler: () => ({ status: 401, fields: [['WWW-Authenticate', 'Negotiate']] }),
      },
    });
    assert.equal((await negotiate.ask('alice')).status, 502);
    assert.deepEqual(
      negotiate.upstream.requests.map(({ token }) => token),
      ['type1'],
    );
  });

  test('R19 a socket as nobody that was asked for a connection login serves nobody else', async () => {
    for (const scheme of [
      'NTLM',
      'negotiate',
      'Nego2 abc',
      'KERBEROS',
      'Basic realm="a", NTLM',
      'NTLM, Basic realm=my own',
    ]) {
      let first = true;
      const fields: [string, string][] = [['WWW-Authenticate', scheme]];
      await using world = await startWorld({
        upstream: {
          handler: () => {
            const script = first ? { status: 401, fields } : { body: 'fine' };
            first = false;
            return script;
          },
        },
      });
      const refused = await world.ask('plain');
      assert.equal(refused.status, 401);
      assert.ok(!/ntlm|negotiate/i.test(refused.all('WWW-Authenticate').join()), scheme);
      assert.equal((await world.ask('plain')).status, 200);
      const sockets = world.upstream.journal.sockets.map(({ requests }) => requests.length);
      assert.deepEqual(sockets, [1, 1], scheme);
    }
  });

  test('R38 a malformed challenge field still refuses a login, and asks for a new one', async () => {
    let refuses = false;
    const fields: [string, string][] = [['WWW-Authenticate', 'NTLM, Basic realm=my own']];
    await using world = await startWorld({
      upstream: { handler: () => (refuses ? { status: 401, fields } : { body: 'fine' }) },
    });
    await world.prove('alice');
    refuses = true;
    const rejected = await world.ask('alice');
    assert.equal(rejected.status, 502);
    assert.match(rejected.field('Proxy-Status') ?? '', /credential-rejected/);
    refuses = false;
    assert.equal((await world.ask('alice')).status, 200);
    // On a warm socket: one login elsewhere.
    refuses = true;
    assert.equal((await world.ask('alice')).status, 502);
    assert.deepEqual(
      world.sockets.map(({ type3 }) => type3),
      [1, 1, 1],
    );
  });

  test('a challenge for people is passed on to the caller of a route without login', async () => {
    await using world = await startWorld({
      upstream: {
        handler: () => ({ status: 401, fields: [['WWW-Authenticate', 'Basic realm="r"']] }),
      },
    });
    const answer = await world.ask('plain');
    assert.deepEqual(answer.all('WWW-Authenticate'), ['Basic realm="r"']);
    await world.ask('plain');
    assert.equal(world.upstream.journal.sockets.length, 1);
  });
});

describe('challenges', () => {
  const texts: ChallengeText[] = [
    'NTLM',
    'ntlm',
    'negotiate-lines',
    'basic-first-lines',
    'comma-list',
    'basic-first-comma-list',
  ];
  for (const challengeText of texts) {
    test(`a challenge written as ${challengeText} is understood`, async () => {
      await using world = await startWorld({ upstream: { challengeText } });
      const answer = await world.ask('alice', 'POST', { body: Buffer.from('x') });
      assert.equal(answer.field('X-User'), USERS.alice);
      assert.equal(world.writes.length, 1);
    });
  }

  const drained: Readonly<Record<string, ChallengeBody>> = {
    'no body': { kind: 'none' },
    'a counted body': { kind: 'counted', bytes: 3000 },
    'a chunked body': { kind: 'chunked', bytes: 3000 },
    'a counted body at the limit': { kind: 'counted', bytes: 64 * 1024 },
  };
  for (const [name, challengeBody] of Object.entries(drained)) {
    for (const method of ['GET', 'POST']) {
      test(`R34 ${method}: a challenge with ${name} is drained and the next leg uses its socket`, async () => {
        await using world = await startWorld({
          upstream: { challengeBody },
        });
        await world.prove('alice');
        const answer = await world.ask(
          'alice',
          method,
          method === 'POST' ? { body: patterned(9) } : {},
        );
        assert.equal(answer.status, 200);
        assert.equal(world.sockets.length, 1);
        assert.equal(world.executed.length, 1);
      });
    }
  }

  const endless: Readonly<Record<string, ChallengeBody>> = {
    'over the limit, counted': { kind: 'counted', bytes: 200_000 },
    'over the limit, chunked': { kind: 'chunked', bytes: 200_000 },
    'without end': { kind: 'endless' },
    'until the end of the connection': { kind: 'close', bytes: 100 },
  };
  for (const [name, challengeBody] of Object.entries(endless)) {
    test(`R34 a challenge with a body ${name} ends the login, and its socket`, async () => {
      await using world = await startWorld({
        upstream: { challengeBody },
      });
      // Legs by HEAD have no body to drain.
      await world.prove('alice');
      assert.equal((await world.ask('alice')).status, 502);
      assert.deepEqual(
        world.sockets.map(({ type3 }) => type3),
        [0],
      );
      await noSocketsLeft(world);
    });
  }

  test('R33 an origin that asks for no login executes a POST once, cold and warm', async () => {
    await using world = await startWorld({ upstream: { open: () => true } });
    for (const round of [1, 2, 3]) {
      const answer = await world.ask('alice', 'POST', { body: patterned(5000) });
      assert.equal(answer.status, 200);
      assert.equal(world.writes.length, round);
      assert.equal(world.writes.at(-1)?.bodyLength, 5000);
    }
    assert.equal(world.upstream.count('type3'), 0);
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_unauthenticated_accepts_total', { upstream: 'origin' }), 1);
  });

  test('R33 a DELETE, a PUT and an unknown method are executed once, where a login is asked or not', async () => {
    for (const open of [true, false]) {
      for (const method of ['DELETE', 'PUT', 'PATCH', 'MERGE']) {
        await using world = await startWorld({ upstream: { open: () => open } });
        for (const round of [1, 2]) {
          const body = method === 'DELETE' ? {} : { body: patterned(10) };
          assert.equal((await world.ask('alice', method, body)).status, 200);
          assert.equal(world.writes.length, round, `${method} ${open}`);
        }
      }
    }
  });

  test('R33 a POST whose path asks for a login where others do not is executed once', async () => {
    await using world = await startWorld({
      upstream: { open: ({ method, target }) => method === 'HEAD' || target.endsWith('/free') },
    });
    for (const path of ['free', 'tied', 'free', 'tied']) {
      const answer = await world.ask('alice', 'POST', { path, body: patterned(100) });
      assert.equal(answer.status, 200, path);
    }
    const runs = world.writes.map(({ target, user }) => [target, user]);
    assert.deepEqual(runs, [
      ['/alice/free', undefined],
      ['/alice/tied', USERS.alice],
      ['/alice/free', undefined],
      ['/alice/tied', USERS.alice],
    ]);
  });
});

describe('methods that some paths let in without a login', () => {
  const openHeads: ScriptedUpstreamOptions = {
    open: ({ method, target }) => method === 'HEAD' || target.endsWith('/free'),
  };

  test('R33 a second principal executes a POST once on a path without login', async () => {
    await using world = await startWorld({ upstream: openHeads });
    await world.ask('alice', 'POST', { path: 'free', body: patterned(10) });
    await world.ask('alice', 'POST', { path: 'tied', body: patterned(11) });
    await world.ask('bob', 'POST', { path: 'free', body: patterned(12) });
    await world.ask('bob', 'POST', { path: 'tied', body: patterned(13) });
    const runs = world.writes.map(({ target, user, bodyLength }) => [target, user, bodyLength]);
    assert.deepEqual(runs, [
      ['/alice/free', undefined, 10],
      ['/alice/tied', USERS.alice, 11],
      ['/bob/free', undefined, 12],
      ['/bob/tied', USERS.bob, 13],
    ]);
  });

  test('R33 an origin known to ask for logins may still let HEAD in', async () => {
    await using world = await startWorld({ upstream: openHeads });
    assert.equal((await world.ask('alice')).status, 200);
    const sizes = [10, 70_000];
    for (const size of sizes) {
      for (const framing of ['counted', 'chunked'] as const) {
        world.upstream.drop('fin');
        await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
        const answer = await world.ask('bob', 'POST', { body: patterned(size), framing });
        assert.equal(
          answer.status,
          200,
          `${size} ${framing} ${answer.field('Proxy-Status') ?? ''}`,
        );
      }
    }
    const runs = world.writes.map(({ user, bodyLength }) => [user, bodyLength]);
    assert.deepEqual(
      runs,
      [10, 10, 70_000, 70_000].map((size) => [USERS.bob, size]),
    );
  });
});

const noSocketsLeft = (world: World): Promise<void> =>
  world.upstream.saw((journal) => journal.sockets.every(({ open }) => !open), 'all sockets closed');
