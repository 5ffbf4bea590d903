/** Request bodies and logins: each body reaches the application once, whole, as the right user. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { patterned, sha256, startWorld, USERS, type World } from './login-world.ts';

const KIB = 1024;
const SIZES = [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 2_000_000];
const FRAMINGS = ['counted', 'chunked'] as const;

/** Origins by how long a login lasts there. */
const ORIGINS: Readonly<Record<string, ScriptedUpstreamOptions>> = {
  'keeps logins': {},
  'asks on every request': { binding: 'request' },
  'forgets after one answer': { forgetAfter: 1 },
  'forgets after three answers': { forgetAfter: 3 },
  'challenges before it reads': { body: { earlyChallenge: true }, forgetAfter: 1 },
  'keeps logins and ignores Expect': { body: { expect: 'ignore' } },
};

describe('bodies over logins', () => {
  for (const [name, upstream] of Object.entries(ORIGINS)) {
    for (const framing of FRAMINGS) {
      test(`R33 ${framing} bodies arrive once and whole at an origin that ${name}`, async () => {
        await using world = await startWorld({ upstream });
        for (const size of SIZES) await postTwice(world, patterned(size), framing);
      });
    }
  }

  test('R33 a replay limit above the default keeps larger bodies whole', async () => {
    await using world = await startWorld({
      upstream: { forgetAfter: 1 },
      more: ', replay: { maxBytes: 1MiB }',
    });
    for (const size of [100_000, 500_000, 1024 * KIB, 1024 * KIB + 1]) {
      for (const framing of FRAMINGS) await postTwice(world, patterned(size), framing, 1024 * KIB);
    }
  });

  test('R33 with a replay limit of nothing no body is cut or sent twice', async () => {
    await using world = await startWorld({
      upstream: { forgetAfter: 1 },
      more: ', replay: { maxBytes: 0KiB }',
    });
    for (const size of [0, 1, 70_000]) {
      for (const framing of FRAMINGS) await postTwice(world, patterned(size), framing, 0);
    }
  });

  test('R33 a login refused before its body was read ends request and socket', async () => {
    for (const framing of FRAMINGS) {
      let refuses = false;
      await using world = await startWorld({
        upstream: {
          forgetAfter: 1,
          login: { type3: () => (refuses ? 'bare' : 'verify') },
          body: { earlyChallenge: true },
        },
      });
      await world.prove('alice');
      refuses = true;
      const answer = await world.ask('alice', 'POST', { body: patterned(3_000_000), framing });
      assert.equal(answer.status, 502);
      assert.match(answer.field('Proxy-Status') ?? '', /credential-rejected/);
      assert.deepEqual(world.writes, []);
      await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
    }
  });

  test('R33 bodies of two principals at a forgetful origin are never mixed up', async () => {
    await using world = await startWorld({ upstream: { forgetAfter: 2 } });
    const bodies = Array.from({ length: 24 }, (_, n) => patterned(1000 + n * 3000));
    const answers = await Promise.all(
      bodies.map((body, n) =>
        world.ask(n % 2 === 0 ? 'alice' : 'bob', 'POST', { body, path: `${n}` }),
      ),
    );
    for (const [n, answer] of answers.entries()) {
      if (answer.status === 503) continue;
      assert.equal(answer.status, 200, `${n}`);
    }
    for (const [n, body] of bodies.entries()) {
      const user = n % 2 === 0 ? 'alice' : 'bob';
      const runs = world.writes.filter(({ target }) => target === `/${user}/${n}`);
      assert.equal(runs.length, answers[n]?.status === 200 ? 1 : 0, `${n}`);
      for (const run of runs) {
        assert.equal(run.user, USERS[user]);
        assert.equal(run.bodySha256, sha256(body));
      }
    }
  });
});

/** A cold or forgotten connection first, then one that is warm by then. */
async function postTwice(
  world: World,
  body: Buffer,
  framing: (typeof FRAMINGS)[number],
  replayLimit = 64 * KIB,
): Promise<void> {
  for (const round of [1, 2]) {
    const before = world.writes.length;
    const answer = await world.ask('alice', 'POST', { body, framing });
    const done = world.writes.slice(before);
    const label = `${framing} ${body.length}, round ${round}`;
    // A login that would need a body which is gone: the caller is told, nothing was executed.
    if (answer.status === 503) {
      assert.equal(answer.field('Retry-After'), '0', label);
      assert.match(answer.field('Proxy-Status') ?? '', /body-not-replayable/);
      assert.ok(body.length > replayLimit, label);
      assert.deepEqual(done, [], label);
      continue;
    }
    assert.equal(answer.status, 200, label);
    assert.equal(done.length, 1, label);
    assert.equal(done[0]?.user, USERS.alice, label);
    assert.equal(done[0]?.bodySha256, sha256(body), label);
    assert.equal(answer.field('X-User'), USERS.alice, label);
  }
}
