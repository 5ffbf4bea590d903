/** Request bodies through a parent that asks for a login: each is executed once, whole. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chunked } from '../support/upstream-answers.ts';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { patterned, sha256 } from './login-world.ts';
import { ask, marks, type ParentWorld, startParent } from './parent-world.ts';

const KIB = 1024;
const SIZES = [0, 1, 64 * KIB, 64 * KIB + 1, 600_000];
const FRAMINGS = ['counted', 'chunked'] as const;

type Framing = (typeof FRAMINGS)[number];

/** Parents by how long a login lasts there. */
const PARENTS: Readonly<Record<string, ScriptedUpstreamOptions>> = {
  'keeps logins': {},
  'asks on every request': { binding: 'request' },
  'forgets after two answers': { forgetAfter: 2 },
  'challenges before it reads': { body: { earlyChallenge: true }, forgetAfter: 1 },
  'forgets and ignores Expect': { body: { expect: 'ignore' }, forgetAfter: 1 },
  'forgets and refuses Expect': { body: { expect: 'refuse-417' }, forgetAfter: 1 },
};

/** Parents that remember a login for as long as one at an origin takes. */
const PATIENT_PARENTS: Readonly<Record<string, ScriptedUpstreamOptions>> = {
  'keeps logins': {},
  'forgets after five answers': { forgetAfter: 5 },
  'forgets after six answers': { forgetAfter: 6 },
  'forgets and challenges before it reads': { body: { earlyChallenge: true }, forgetAfter: 5 },
};

/** Origins behind it by whether the daemon logs in there. */
const ORIGINS = {
  'an open origin': { parents: PARENTS, setup: {} },
  'an origin that is logged in to': {
    parents: PATIENT_PARENTS,
    setup: {
      origin: { scheme: 'ntlm' },
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app]',
    },
  },
} as const;

async function post(
  world: ParentWorld,
  body: Buffer,
  framing: Framing,
): Promise<{ status: number; proxyStatus: string }> {
  await using client = await world.daemon.connect();
  const fields: Record<string, string> =
    framing === 'chunked'
      ? { 'Transfer-Encoding': 'chunked' }
      : { 'Content-Length': String(body.length) };
  const bytes = framing === 'chunked' ? chunked(body, 10_000) : body;
  const answer = await ask(client, 'POST http://app.test/p', { ...marks('pat'), ...fields }, bytes);
  return { status: answer.status, proxyStatus: answer.field('Proxy-Status') ?? '' };
}

const posts = (world: ParentWorld) =>
  world.executed.filter(({ method, status }) => method === 'POST' && status === 200);

describe('bodies through a parent', () => {
  for (const [place, { parents, setup }] of Object.entries(ORIGINS)) {
    for (const [name, parent] of Object.entries(parents)) {
      for (const framing of FRAMINGS) {
        test(`R33 I11 ${framing}, that ${name}, to ${place} are executed once`, async () => {
          await using world = await startParent({ parent, ...setup });
          for (const body of SIZES.map((size) => patterned(size))) {
            for (const round of [1, 2]) {
              const before = posts(world).length;
              const { status, proxyStatus } = await post(world, body, framing);
              const made = posts(world).slice(before);
              const label = `${body.length}, round ${round}: ${status} ${proxyStatus}`;
              if (status === 503) {
                assert.match(proxyStatus, /body-not-replayable/, label);
                // Chunks are kept as they came.
                assert.ok(body.length >= 64 * KIB, label);
                assert.deepEqual(made, [], label);
                continue;
              }
              assert.equal(status, 200, label);
              assert.deepEqual(
                made.map(({ bodySha256 }) => bodySha256),
                [sha256(body)],
                label,
              );
            }
          }
        });
      }
    }
  }

  test('R33 a body over the limit meets a lost login on a warm connection', async () => {
    await using world = await startParent({ parent: { forgetAfter: 2 } });
    await world.prove();
    const body = patterned(500_000);
    for (const round of [1, 2, 3, 4, 5]) {
      const { status } = await post(world, body, 'counted');
      // The daemon asks with Expect on a warm connection, so the body is whole when the 407 comes.
      assert.equal(status, 200, String(round));
      assert.equal(posts(world).length, round);
    }
  });
});
