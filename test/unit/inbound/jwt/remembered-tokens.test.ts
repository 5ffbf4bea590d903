/**
 * Rule R48, sentence by sentence, in every mode of the cache: the key covers the whole token; only fully
 * valid tokens are stored; each hit is judged anew; an entry is bound to the exact JWK; a change of keys
 * is in force for the first request that follows.
 */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { CacheMode } from '../../../../src/inbound/jwt/token-cache.ts';
import { JwtWorld } from '../../../support/jwt-world.ts';
import { type SigningKey, signingKey, type TestJwk } from '../../../support/tokens.ts';

const MODES: readonly CacheMode[] = ['lru', 'fifo', 'fixed'];
const KEY = signingKey({ algorithm: 'RS256' });
const OTHER = signingKey({ kid: 'k2', nth: 1 });
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** A world with a token of KEY that is a hit already. */
async function remembering(mode: CacheMode): Promise<{ world: JwtWorld; token: string }> {
  const world = new JwtWorld({ keys: [KEY, OTHER], cache: { mode, max: 10 } });
  const token = world.token(KEY, { nbf: world.now() / 1000, exp: world.now() / 1000 + 600 });
  await world.accepted(token);
  await world.accepted(token);
  assert.deepEqual([world.cache.hits, world.cache.size], [1, 1]);
  return { world, token };
}

const countVerifications = (t: TestContext): (() => number) => {
  const { mock } = t.mock.method(crypto.subtle, 'verify');
  return () => mock.callCount();
};

/** The text with its character at `at` replaced by the next one of base64url, or by what is given. */
const changed = (text: string, at: number, to?: string): string => {
  const next = ALPHABET[(ALPHABET.indexOf(text[at] ?? '') + 1) % ALPHABET.length] ?? '';
  return text.slice(0, at) + (to ?? next) + text.slice(at + 1);
};

for (const mode of MODES) {
  describe(`in mode ${mode}`, () => {
    test('a token that differs in any part, by any kind of character, is another token', async () => {
      const { world, token } = await remembering(mode);
      const [header = '', payload = '', signature = ''] = token.split('.');
      const starts = [0, header.length + 1, header.length + payload.length + 2];
      const lengths = [header.length, payload.length, signature.length];
      for (const [part, start] of starts.entries()) {
        const length = lengths[part] ?? 0;
        for (const at of [start, start + 1, start + length / 2, start + length - 1].map(
          Math.floor,
        )) {
          const kinds = [undefined, '.', '=', ' ', '\t', '\0', '+', '/', '\x7f', '\xe9'];
          for (const to of kinds) {
            assert.notEqual(await world.outcome(changed(token, at, to)), 'ok', `${at} ${to}`);
          }
        }
      }
      for (const more of [`${token}A`, `${token}.`, ` ${token}`, token.slice(0, -1)]) {
        assert.notEqual(await world.outcome(more), 'ok');
      }
      assert.deepEqual([world.cache.hits, world.cache.size], [1, 1]);
      await world.accepted(token);
      assert.equal(world.cache.hits, 2);
    });

    test('parts of two good tokens make no third one', async () => {
      const { world, token } = await remembering(mode);
      const other = world.token(KEY, { sub: 'bob' });
      await world.accepted(other);
      const [a, b] = [token.split('.'), other.split('.')];
      for (const mixed of [
        [a[0], a[1], b[2]],
        [a[0], b[1], a[2]],
      ]) {
        const outcome = await world.outcome(mixed.join('.'));
        assert.equal(outcome, 'has a signature that its key does not verify');
      }
      assert.equal(world.cache.size, 2);
    });

    test('only a token that passes every check is stored', async () => {
      const world = new JwtWorld({ keys: [KEY], cache: { mode, max: 10 } });
      const now = world.now() / 1000;
      // prettier-ignore
      const claims = [
        { iss: 'x' }, { aud: 'x' }, { exp: now }, { exp: undefined }, { exp: '1' },
        { nbf: now + 1 }, { nbf: 'x' }, { iat: 'x' }, { sub: '' }, { sub: 1 },
      ];
      for (const wrong of claims) await world.outcome(world.token(KEY, wrong));
      for (const header of [{ typ: 'x' }, { crit: ['exp'] }, { kid: 'k9' }, { alg: 'PS256' }]) {
        await world.outcome(world.token(KEY, {}, header));
      }
      await world.outcome(world.token({ ...signingKey({ algorithm: 'RS256', nth: 1 }) }));
      assert.equal(world.cache.size, 0);
      await world.outcome(world.token(KEY));
      assert.equal(world.cache.size, 1);
    });

    test('exp is looked at again on each hit', async (t) => {
      const { world, token } = await remembering(mode);
      const count = countVerifications(t);
      world.clock.block(599_999);
      assert.equal(await world.outcome(token), 'ok');
      world.clock.block(1);
      assert.equal(await world.outcome(token), 'has expired');
      assert.deepEqual([world.cache.hits, world.cache.evictions.expired, count()], [2, 1, 0]);
    });

    test('nbf is looked at again on each hit, when the clock was set back', async () => {
      const { world, token } = await remembering(mode);
      world.wallShift = -1;
      assert.equal(await world.outcome(token), 'is not valid yet');
      world.wallShift = 0;
      assert.equal(await world.outcome(token), 'ok');
      assert.equal(world.cache.hits, 2);
    });

    const replacements: [title: string, jwk: TestJwk | SigningKey, outcome: string][] = [
      [
        'another key under the same name',
        signingKey({ algorithm: 'RS256', nth: 1 }),
        'has a signature that its key does not verify',
      ],
      [
        'a key of another kind under the same name',
        signingKey({ nth: 1 }),
        'is signed with an algorithm that the key is not for',
      ],
      ['the same key with a certificate thumbprint', { ...KEY.jwk, x5t: 'AAAA' }, 'ok'],
      ['the same key with an unknown member', { ...KEY.jwk, extra: [1] }, 'ok'],
      [
        'the same key under another name',
        { ...KEY.jwk, kid: 'k9' },
        'names a key that its issuer does not have',
      ],
      [
        'the same key for another algorithm',
        { ...KEY.jwk, alg: 'RS512' },
        'is signed with an algorithm that the key is not for',
      ],
    ];
    for (const [title, jwk, outcome] of replacements) {
      test(`an entry does not outlive its JWK: ${title}`, async () => {
        const { world, token } = await remembering(mode);
        world.serve(jwk, OTHER);
        assert.equal(await world.outcome(token), outcome);
        assert.equal(world.cache.hits, 1);
        assert.equal(world.cache.evictions.changed, 1);
      });
    }

    test('a change of keys drops the entries of that key alone, before the next request', async (t) => {
      const { world, token } = await remembering(mode);
      const other = world.token(OTHER);
      await world.accepted(other);
      const count = countVerifications(t);
      world.serve(OTHER, signingKey({ kid: 'k3', nth: 2 }));
      assert.equal(await world.outcome(token), 'names a key that its issuer does not have');
      assert.equal(await world.outcome(other), 'ok');
      assert.equal(count(), 0);
      assert.deepEqual([world.cache.hits, world.cache.size], [2, 1]);
    });

    test('a second key that makes the choice ambiguous drops the entry too', async () => {
      const { world, token } = await remembering(mode);
      world.serve(KEY, signingKey({ algorithm: 'RS256', nth: 1 }), OTHER);
      assert.equal(await world.outcome(token), 'does not say which key verifies it');
      const unnamed = new JwtWorld({ keys: [OTHER], cache: { mode, max: 10 } });
      const nameless = unnamed.token(OTHER, {}, { kid: undefined });
      assert.equal(await unnamed.outcome(nameless), 'ok');
      unnamed.serve(OTHER, signingKey({ kid: 'k3', nth: 2 }));
      assert.equal(await unnamed.outcome(nameless), 'does not say which key verifies it');
    });

    test('the same keys again, in any order, drop nothing', async (t) => {
      const { world, token } = await remembering(mode);
      const count = countVerifications(t);
      world.serve(OTHER, Object.fromEntries(Object.entries(KEY.jwk).toReversed()), OTHER);
      assert.equal(await world.outcome(token), 'ok');
      assert.deepEqual([world.cache.hits, count()], [2, 0]);
    });
  });
}
