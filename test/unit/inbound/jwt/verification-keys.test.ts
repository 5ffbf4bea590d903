/** Which key a token gets, for how long that choice lives, and signatures of every algorithm. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JWT_ALGORITHMS, type JwtAlgorithm, parseJwks } from '../../../../src/identity/jwks.ts';
import { KeySet, VerificationKey } from '../../../../src/inbound/jwt/verification-keys.ts';
import {
  goodClaims,
  jwks,
  type SigningKey,
  signingKey,
  signToken,
  type TestJwk,
} from '../../../support/tokens.ts';

const ONE = signingKey({ kid: 'one' });
const TWO = signingKey({ kid: 'two', nth: 1 });

function replace(set: KeySet, ...keys: readonly (SigningKey | TestJwk)[]): void {
  const parsed = parseJwks(jwks(...keys));
  assert.ok('keys' in parsed);
  set.replace(parsed.keys);
}

function keySet(...keys: readonly (SigningKey | TestJwk)[]): KeySet {
  const set = new KeySet(JWT_ALGORITHMS);
  if (keys.length > 0) replace(set, ...keys);
  return set;
}

function found(set: KeySet, kid: string | undefined, alg: string): VerificationKey {
  const key = set.find(kid, alg);
  assert.ok(key instanceof VerificationKey, typeof key === 'string' ? key : '');
  return key;
}

const withoutAlg = ({ jwk }: SigningKey): TestJwk => ({ ...jwk, alg: undefined });

describe('a token gets', () => {
  test('the key of its name and algorithm, the same object each time', () => {
    const set = keySet(ONE, TWO);
    const key = found(set, 'two', 'ES256');
    assert.equal(key.jwk.kid, 'two');
    assert.equal(found(set, 'two', 'ES256'), key);
    assert.notEqual(found(set, 'one', 'ES256'), key);
  });

  test('without a name, the only key that suits', () => {
    const rsa = signingKey({ algorithm: 'RS256', kid: 'rsa' });
    const set = keySet(ONE, rsa);
    assert.equal(found(set, undefined, 'ES256').jwk.kid, 'one');
    assert.equal(found(set, undefined, 'RS256').jwk.kid, 'rsa');
    assert.equal(set.find(undefined, 'PS256'), 'none-suits');
    assert.equal(keySet(ONE, TWO).find(undefined, 'ES256'), 'several-suit');
  });

  test('no key of another name, of inherited names, of the empty name', () => {
    const set = keySet(ONE, signingKey({ kid: null, nth: 2 }));
    for (const kid of ['three', '', '__proto__', 'constructor', 'ONE', 'one ', 'undefined']) {
      assert.equal(set.find(kid, 'ES256'), 'kid-unknown', kid);
    }
  });

  test('none of two that suit, and the one of two that are for different algorithms', () => {
    const twice = keySet(ONE, signingKey({ kid: 'one', nth: 1 }));
    assert.equal(twice.find('one', 'ES256'), 'several-suit');
    const rsa = signingKey({ algorithm: 'RS256', kid: 'one' });
    assert.equal(found(keySet(ONE, rsa), 'one', 'RS256').jwk.kty, 'RSA');
    assert.equal(found(keySet(ONE, ONE), 'one', 'ES256').jwk.kty, 'EC');
  });

  test('none for an algorithm that the key does not name, or that is not allowed', () => {
    const rsa = signingKey({ algorithm: 'RS256', kid: 'rsa' });
    assert.equal(keySet(rsa).find('rsa', 'RS512'), 'none-suits');
    assert.equal(keySet(rsa).find('rsa', 'ES256'), 'none-suits');
    assert.equal(found(keySet(withoutAlg(rsa)), 'rsa', 'RS512').algorithm, 'RS512');
    for (const alg of ['none', 'HS256', 'rs256', 'Ed25519', '', '__proto__']) {
      assert.equal(keySet(rsa).find('rsa', alg), 'algorithm-refused', alg);
    }
    const narrow = new KeySet(['ES256']);
    replace(narrow, rsa);
    assert.equal(narrow.find('rsa', 'RS256'), 'algorithm-refused');
  });
});

describe('when the keys are replaced', () => {
  test('a key of the same content lives on, and all others die at once', () => {
    const set = keySet(ONE, TWO);
    const [one, two] = [found(set, 'one', 'ES256'), found(set, 'two', 'ES256')];
    replace(set, TWO);
    assert.deepEqual([one.live, two.live], [false, true]);
    assert.equal(found(set, 'two', 'ES256'), two);
    assert.equal(set.find('one', 'ES256'), 'kid-unknown');
    replace(set, ONE, TWO);
    assert.equal(one.live, false);
    assert.notEqual(found(set, 'one', 'ES256'), one);
  });

  test('a key dies of any change of its content', () => {
    for (const more of [{ x5t: 'AAAA' }, { use: undefined }, signingKey({ nth: 3 }).jwk]) {
      const set = keySet(ONE);
      const key = found(set, 'one', 'ES256');
      replace(set, { ...ONE.jwk, ...more, kid: 'one' });
      assert.equal(key.live, false);
    }
  });

  test('a choice dies that would not be made again, though its key is still there', () => {
    const set = keySet(ONE);
    const [named, unnamed] = [found(set, 'one', 'ES256'), found(set, undefined, 'ES256')];
    replace(set, ONE, TWO);
    assert.deepEqual([named.live, unnamed.live], [true, false]);
    replace(set, ONE, TWO, signingKey({ kid: 'one', nth: 2 }));
    assert.equal(named.live, false);
  });
});

describe('a signature of', () => {
  for (const algorithm of JWT_ALGORITHMS) {
    test(`${algorithm} verifies with its key and no other`, async () => {
      const key = signingKey({ algorithm, kid: 'k' });
      const other = signingKey({ algorithm, kid: 'k', nth: 1 });
      const set = keySet(key);
      const token = signToken(key, goodClaims(0));
      const chosen = found(set, 'k', algorithm);
      assert.equal(await set.verifies(chosen, token), true);
      assert.equal(
        await set.verifies(chosen, signToken(other, goodClaims(0), { kid: 'k' })),
        false,
      );
      // An algorithm in the header that is not the chosen one.
      const alg = algorithm === 'RS256' ? 'PS256' : 'RS256';
      assert.equal(await set.verifies(chosen, signToken(key, goodClaims(0), { alg })), false);
    });
  }

  test('one key serves each algorithm of its kind when it names none', async () => {
    const key = signingKey({ algorithm: 'RS256', kid: 'k' });
    const set = keySet(withoutAlg(key));
    const algorithms: JwtAlgorithm[] = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
    for (const algorithm of algorithms) {
      const token = signToken({ ...key, algorithm }, {});
      assert.equal(await set.verifies(found(set, 'k', algorithm), token), true, algorithm);
    }
  });

  test('RSA verifies also when the modulus was written with zeros before it', async () => {
    const key = signingKey({ algorithm: 'RS256', kid: 'k' });
    const bytes = Buffer.from(String(key.jwk['n']), 'base64url');
    const n = Buffer.concat([Buffer.alloc(1), bytes]).toString('base64url');
    const set = keySet({ ...key.jwk, n });
    assert.equal(await set.verifies(found(set, 'k', 'RS256'), signToken(key, {})), true);
  });
});

test('a set is loaded once it was given keys', () => {
  const set = keySet();
  assert.equal(set.loaded, false);
  replace(set, ONE);
  assert.equal(set.loaded, true);
});
