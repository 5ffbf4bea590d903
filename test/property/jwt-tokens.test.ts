/**
 * Tokens under random damage, and the promise of the cache: it may make a decision faster, never
 * different. Worlds with each mode go through the same random days as one without a cache.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { VerifiedToken } from '../../src/inbound/jwt/verified-token.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { JwtWorld } from '../support/jwt-world.ts';
import {
  goodClaims,
  type SigningKey,
  signingKey,
  signToken,
  type TestJwk,
} from '../support/tokens.ts';
import { damaged } from './damaged.ts';

const START = new FakeClock().wall();

describe('a damaged token', () => {
  const keys = (['RS256', 'PS384', 'ES256', 'ES512', 'EdDSA'] as const).map((algorithm) =>
    signingKey({ algorithm, kid: algorithm }),
  );
  const tokens = keys.map((key) => signToken(key, goodClaims(START)));
  const seeds = tokens.map((token) => Buffer.from(token));

  test('is refused, whether or not the whole one is remembered', async () => {
    const world = new JwtWorld({ keys });
    for (const token of tokens) await world.accepted(token);
    await fc.assert(
      fc.asyncProperty(damaged(seeds), async (bytes) => {
        const text = Buffer.from(bytes).toString('latin1');
        const outcome = await world.outcome(text);
        assert.equal(outcome === 'ok', tokens.includes(text), text);
      }),
      { numRuns: 3_000 },
    );
    assert.equal(world.cache.size, tokens.length);
  });

  test('is refused after any single character was changed', async () => {
    const world = new JwtWorld({ keys });
    const place = fc.tuple(fc.constantFrom(...tokens), fc.nat(), fc.nat(255));
    await fc.assert(
      fc.asyncProperty(place, async ([token, where, code]) => {
        const at = where % token.length;
        const text = token.slice(0, at) + String.fromCharCode(code) + token.slice(at + 1);
        assert.equal((await world.outcome(text)) === 'ok', text === token, `${at} ${code}`);
      }),
      { numRuns: 3_000 },
    );
  });
});

/** Keys that come and go, some of them under one name, some the same but for a member. */
const K1 = signingKey({ kid: 'k1' });
const K1_OTHER = signingKey({ kid: 'k1', nth: 1 });
const K2 = signingKey({ kid: 'k2', nth: 2 });
const ED = signingKey({ algorithm: 'EdDSA', kid: 'k1' });
const UNNAMED = signingKey({ kid: null, nth: 3 });
const PUBLISHED: readonly (SigningKey | TestJwk)[] = [
  K1,
  K1_OTHER,
  K2,
  ED,
  UNNAMED,
  { ...K1.jwk, x5t: 'AAAA' },
  { ...K1.jwk, alg: undefined },
  { ...K2.jwk, kid: 'k1' },
];

/** Tokens of these keys, of lives from below the least that is kept up to an hour. */
const TOKENS = [K1, K1_OTHER, K2, ED, UNNAMED].flatMap((key) =>
  [3600, 60, 4, 0].flatMap((life) =>
    [undefined, 0, 30].flatMap((nbf) => {
      const seconds = START / 1000;
      const claims = goodClaims(START, {
        exp: seconds + life,
        nbf: nbf === undefined ? undefined : seconds + nbf,
      });
      return [signToken(key, claims), signToken(key, claims, { kid: undefined })];
    }),
  ),
);

type Step =
  | { readonly kind: 'ask'; readonly token: number; readonly connection: number }
  | { readonly kind: 'advance'; readonly ms: number }
  | { readonly kind: 'set'; readonly ms: number }
  | { readonly kind: 'serve'; readonly keys: readonly (SigningKey | TestJwk)[] };

const ask = fc.record({
  kind: fc.constant('ask' as const),
  // Often one of few that live long, so that hits are frequent.
  token: fc.oneof(fc.nat(1), fc.nat(5), fc.nat(TOKENS.length - 1)),
  connection: fc.nat(1),
});
const ms = fc.oneof(fc.nat(5_000), fc.nat(100_000), fc.constantFrom(1, 3_999, 4_000, 60_000));
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 16, arbitrary: ask },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('advance' as const), ms }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('set' as const),
        ms: fc.integer({ min: -60_000, max: 60_000 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('serve' as const),
        keys: fc.subarray([...PUBLISHED], { minLength: 1 }),
      }),
    },
  ),
  { minLength: 20, maxLength: 80 },
);

/** A listener's way: the memo of the connection first, then the cache, then the token. */
class Caller {
  readonly #memos = new Map<number, { text: string; token: VerifiedToken }>();
  readonly world: JwtWorld;
  memoHits = 0;

  constructor(world: JwtWorld) {
    this.world = world;
  }

  async outcome(text: string, connection: number): Promise<string> {
    const memo = this.#memos.get(connection);
    if (memo?.text === text && this.world.verifier.isValid(memo.token)) {
      this.memoHits += 1;
      return 'ok';
    }
    const answer = await this.world.ask(text);
    if (answer instanceof Error) return answer.message;
    this.#memos.set(connection, { text, token: answer });
    return 'ok';
  }
}

test('a cache decides as no cache does, at any time and under any change of keys', async () => {
  let hits = 0;
  let memoHits = 0;
  await fc.assert(
    fc.asyncProperty(steps, fc.constantFrom(1, 3, 100), async (day, max) => {
      const clock = new FakeClock();
      const modes = ['off', 'lru', 'fifo', 'fixed'] as const;
      const callers = modes.map(
        (mode) => new Caller(new JwtWorld({ clock, keys: [K1, K2], cache: { mode, max } })),
      );
      for (const step of day) {
        if (step.kind === 'advance') clock.advance(step.ms);
        else if (step.kind === 'set') for (const { world } of callers) world.wallShift += step.ms;
        else if (step.kind === 'serve') for (const { world } of callers) world.serve(...step.keys);
        else {
          const text = TOKENS[step.token] ?? '';
          const outcomes: string[] = [];
          for (const caller of callers) outcomes.push(await caller.outcome(text, step.connection));
          assert.equal(new Set(outcomes).size, 1, outcomes.join(' / '));
        }
      }
      for (const { world, memoHits: own } of callers) {
        assert.ok(world.cache.size <= max);
        hits += world.cache.hits;
        memoHits += own;
      }
      assert.equal(callers[0]?.world.cache.requests, 0);
    }),
    { numRuns: 300 },
  );
  // The days are such that memories had something to say.
  assert.ok(memoHits > 500 && hits > memoHits + 500, `${hits} hits, ${memoHits} of memos`);
});
