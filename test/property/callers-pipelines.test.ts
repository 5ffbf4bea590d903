/**
 * Requests of several callers on one connection, whose tokens are verified each time (`cache: off`), cut
 * into pieces anywhere: every request waits for its caller's name, and is answered in its turn, executed
 * once, with its own body, and as nobody else.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { within } from '../support/waiting.ts';
import { bearer, CallersWorld, type Fields, tokenOf } from '../flow/callers-world.ts';

const USERS = ['alice', 'bob', 'carol'] as const;

interface Planned {
  readonly user: (typeof USERS)[number];
  readonly method: 'GET' | 'POST' | 'HEAD';
  readonly body: string;
  readonly chunked: boolean;
}

const planned: fc.Arbitrary<Planned> = fc.record({
  user: fc.constantFrom(...USERS),
  method: fc.constantFrom('GET', 'POST', 'POST', 'HEAD'),
  body: fc.oneof(
    fc.constant(''),
    fc.string({ unit: 'grapheme-ascii', maxLength: 60 }),
    fc.constant('x'.repeat(20_000)),
  ),
  chunked: fc.boolean(),
});

function bytesOf(one: Planned, at: number, host: string, token: Fields): string {
  const fields = Object.entries({ Host: host, ...token }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const head = `${one.method} /${at} HTTP/1.1\r\n${fields.join('')}`;
  if (one.method !== 'POST') return `${head}\r\n`;
  if (!one.chunked) return `${head}Content-Length: ${one.body.length}\r\n\r\n${one.body}`;
  const chunk = one.body === '' ? '' : `${one.body.length.toString(16)}\r\n${one.body}\r\n`;
  return `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

test('R1 R33 R53 a connection of many callers is served in order, however its bytes come', async () => {
  await using world = await CallersWorld.ready({
    jwt: 'cache: { mode: off }',
    rules: '{ when: { client: jwt }, use: alice }',
    clients: '{ JWT }',
    routes: '{ upstream: plain, forwardIdentity: X-Caller }',
    upstream: {
      scheme: 'none',
      handler: ({ target, field }) => ({ body: `${target} ${field('x-caller')}` }),
    },
  });
  const tokens = Object.fromEntries(USERS.map((user) => [user, bearer(tokenOf(user))]));
  const host = world.daemon.authority();
  const cuts = fc.array(fc.integer({ min: 1, max: 4000 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(planned, { minLength: 1, maxLength: 6 }),
      cuts,
      async (all, pieces) => {
        const before = world.upstream.requests.length;
        await using client = await world.connect();
        const sent = client.send(
          all.map((one, at) => bytesOf(one, at, host, tokens[one.user] ?? {})).join(''),
          pieces,
        );
        for (const [at, { method, user }] of all.entries()) {
          const answer = await within(client.response(method), `answer ${at}`);
          assert.equal(answer.status, 200);
          if (method !== 'HEAD') assert.equal(answer.body.toString(), `/${at} ${user}`);
        }
        await sent;
        const seen = world.upstream.requests.slice(before);
        const executed = seen.map(
          ({ method, target, bodySha256 }) => `${method} ${target} ${bodySha256}`,
        );
        const wanted = all.map(
          ({ method, body }, at) => `${method} /${at} ${sha256(method === 'POST' ? body : '')}`,
        );
        assert.deepEqual(new Set(executed), new Set(wanted));
        assert.equal(executed.length, wanted.length);
      },
    ),
    { numRuns: 120 },
  );
});
