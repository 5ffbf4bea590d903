/** Key sets: what becomes a key, what is passed over, and what is no key set. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { describe, test } from 'node:test';
import { JWT_ALGORITHMS, parseJwks, type PublicJwk, suits } from '../../../src/identity/jwks.ts';
import { jwks, signingKey, type TestJwk } from '../../support/tokens.ts';

const RSA = signingKey({ algorithm: 'RS256', kid: 'rsa' });
const EC = signingKey({ algorithm: 'ES256', kid: 'ec' });
const OKP = signingKey({ algorithm: 'EdDSA', kid: 'okp' });

function keysOf(text: string): readonly PublicJwk[] {
  const parsed = parseJwks(text);
  assert.ok('keys' in parsed, 'fault' in parsed ? parsed.fault : '');
  return parsed.keys;
}

function onlyKey(jwk: TestJwk): PublicJwk {
  const [key, ...more] = keysOf(jwks(jwk));
  assert.ok(key !== undefined && more.length === 0);
  return key;
}

function faultOf(text: string): string {
  const parsed = parseJwks(text);
  assert.ok('fault' in parsed, 'it was taken');
  return parsed.fault;
}

/** The same JWK with members laid over it; undefined takes one away. */
const having = (jwk: TestJwk, more: TestJwk): TestJwk => ({ ...jwk, ...more });

/** The set of a sound key, and this one before it. */
const beside = (jwk: unknown): string => JSON.stringify({ keys: [jwk, EC.jwk] });

describe('a key set', () => {
  test('gives keys of every kind with their public members, name and algorithm', () => {
    const keys = keysOf(jwks(RSA, EC, OKP));
    assert.deepEqual(
      keys.map(({ kid, alg, kty }) => [kid, alg, kty]),
      [
        ['rsa', 'RS256', 'RSA'],
        ['ec', 'ES256', 'EC'],
        ['okp', 'EdDSA', 'OKP'],
      ],
    );
    assert.deepEqual(keys[0]?.members, { kty: 'RSA', n: RSA.jwk['n'], e: 'AQAB' });
    const { x, y } = EC.jwk;
    assert.deepEqual(keys[1]?.members, { kty: 'EC', crv: 'P-256', x, y });
    assert.deepEqual(keys[2]?.members, { kty: 'OKP', crv: 'Ed25519', x: OKP.jwk['x'] });
  });

  test('needs no more of a key than the key itself', () => {
    const key = onlyKey(EC.publicKey.export({ format: 'jwk' }) as TestJwk);
    assert.deepEqual([key.kid, key.alg], [undefined, undefined]);
    const verifying = having(EC.jwk, { key_ops: ['verify', 'sign'] });
    assert.equal(onlyKey(verifying).kid, 'ec');
  });

  test('takes the public part alone of a key that is private', () => {
    const text = jwks(having(RSA.privateKey.export({ format: 'jwk' }) as TestJwk, { kid: 'p' }));
    const [key] = keysOf(text);
    assert.deepEqual(Object.keys(key?.members ?? {}).sort(), ['e', 'kty', 'n']);
    const { d } = RSA.privateKey.export({ format: 'jwk' });
    assert.ok(d !== undefined && text.includes(d));
    assert.ok(!JSON.stringify(key).includes(d));
  });
});

describe('a key that cannot verify is passed over:', () => {
  const weak = generateKeyPairSync('rsa', { modulusLength: 2040 }).publicKey;
  const okp = generateKeyPairSync('x25519').publicKey.export({ format: 'jwk' });
  const curve = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey;
  const n = String(RSA.jwk['n']);
  const rows: [title: string, jwk: unknown][] = [
    ['for encryption', having(EC.jwk, { use: 'enc' })],
    ['for a use that is no text', having(EC.jwk, { use: ['sig'] })],
    ['for other operations', having(EC.jwk, { key_ops: ['deriveKey'] })],
    ['for operations that are no list', having(EC.jwk, { key_ops: 'verify' })],
    ['a shared secret', { kty: 'oct', k: 'c2VjcmV0', alg: 'HS256' }],
    ['of an unknown type', { kty: 'AKP', alg: 'ML-DSA-44', pub: 'AA' }],
    ['without a type', having(EC.jwk, { kty: undefined })],
    ['on an unknown curve', curve.export({ format: 'jwk' })],
    ['for key agreement', okp],
    ['of RSA with 2040 bits', weak.export({ format: 'jwk' })],
    ['of RSA with 2040 bits and zeros before', padded(weak.export({ format: 'jwk' }).n)],
    ['of RSA with too many bits', having(RSA.jwk, { n: n.repeat(9) })],
    ['of RSA with an even modulus', having(RSA.jwk, { n: `${n.slice(0, -2)}AA` })],
    ['of RSA with the exponent 1', having(RSA.jwk, { e: 'AQ' })],
    ['of RSA with an even exponent', having(RSA.jwk, { e: 'AQAA' })],
    ['of RSA with no exponent', having(RSA.jwk, { e: undefined })],
    ['of RSA with an endless exponent', having(RSA.jwk, { e: n })],
    ['of RSA with a modulus in base64', having(RSA.jwk, { n: `${n}==` })],
    ['of RSA with a modulus that is no text', having(RSA.jwk, { n: 5 })],
    ['a point beside its curve', having(EC.jwk, { x: EC.jwk['y'], y: EC.jwk['x'] })],
    ['a short coordinate', having(EC.jwk, { x: String(EC.jwk['x']).slice(4) })],
    ['a short Ed25519 key', having(OKP.jwk, { x: String(OKP.jwk['x']).slice(4) })],
    ['for a foreign algorithm', having(RSA.jwk, { alg: 'RSA-OAEP' })],
    ['for an algorithm of another kind', having(EC.jwk, { alg: 'RS256' })],
    ['for an algorithm of another curve', having(EC.jwk, { alg: 'ES384' })],
    ['with an algorithm that is no text', having(EC.jwk, { alg: null })],
    ['with a name that is no text', having(EC.jwk, { kid: 7 })],
    ['that is no object', 'key'],
    ['that is null', null],
    ['that is a list', [EC.jwk]],
  ];
  for (const [title, jwk] of rows) {
    test(title, () => {
      assert.deepEqual(
        keysOf(beside(jwk)).map(({ kid }) => kid),
        ['ec'],
      );
      assert.equal(
        faultOf(JSON.stringify({ keys: [jwk] })),
        'the key set has no key that can verify signatures',
      );
    });
  }

  function padded(modulus: string | undefined): TestJwk {
    const bytes = Buffer.from(modulus ?? '', 'base64url');
    const longer = Buffer.concat([Buffer.alloc(40), bytes]);
    return { kty: 'RSA', e: 'AQAB', n: longer.toString('base64url') };
  }
});

describe('no key set is', () => {
  const many = JSON.stringify({ keys: Array.from({ length: 201 }, () => EC.jwk) });
  const padding = 'x'.repeat(512 * 1024);
  const nested = `{"keys":[${'['.repeat(100_000)}`;
  const rows: [title: string, text: string, fault: string][] = [
    ['nothing', '', 'the key set is not JSON'],
    ['a web page', '<!doctype html><title>Sign in</title>', 'the key set is not JSON'],
    ['JSON of something else', '"keys"', 'the key set is no JSON object'],
    ['a lone key', JSON.stringify(EC.jwk), 'the key set has no list `keys`'],
    ['keys by name', `{"keys":{"a":${JSON.stringify(EC.jwk)}}}`, 'the key set has no list `keys`'],
    ['an empty list', '{"keys":[]}', 'the key set is empty'],
    ['one key too many', many, 'the key set has more than 200 keys'],
    ['a long text', jwks({ ...EC.jwk, padding }), 'the key set is larger than 512 KiB'],
    [
      'a text long in UTF-8',
      `{"é":"${'é'.repeat(270_000)}"}`,
      'the key set is larger than 512 KiB',
    ],
    ['lists without end', nested, 'the key set is nested too deeply'],
    ['one that repeats itself', '{"keys":[],"keys":[]}', 'the key set has two members of one name'],
    ['one cut off', jwks(EC).slice(0, -1), 'the key set is not JSON'],
  ];
  for (const [title, text, fault] of rows) {
    test(title, () => assert.equal(faultOf(text), fault));
  }

  test('more than it may be: 200 keys and nearly 512 KiB are taken', () => {
    const list = Array.from({ length: 200 }, (_, i) => ({ ...EC.jwk, kid: `k${i}` }));
    const text = JSON.stringify({ keys: list, padding: 'x'.repeat(400 * 1024) });
    assert.equal(keysOf(text).length, 200);
  });
});

describe('the fingerprint', () => {
  const fingerprint = (jwk: TestJwk): string => onlyKey(jwk).fingerprint;
  const own = fingerprint(EC.jwk);

  test('is a whole SHA-256, and the same for the same content in any order', () => {
    assert.match(own, /^[0-9a-f]{64}$/);
    const turned = Object.fromEntries(Object.entries(EC.jwk).toReversed());
    assert.equal(fingerprint(turned), own);
  });

  const rows: [title: string, more: TestJwk][] = [
    ['name', { kid: 'ec2' }],
    ['absent name', { kid: undefined }],
    ['empty name', { kid: '' }],
    ['algorithm', { alg: undefined }],
    ['use', { use: undefined }],
    ['operations', { key_ops: ['verify'] }],
    ['certificate thumbprint', { x5t: 'AAAA' }],
    ['unknown member', { extra: null }],
    ['unknown nested member', { extra: { a: [1, { b: '2' }] } }],
  ];
  test('changes with every member, also with those that are no part of the key', () => {
    const all = rows.map(([, more]) => fingerprint(having(EC.jwk, more)));
    assert.equal(new Set([own, ...all]).size, rows.length + 1);
  });

  test('is not the same for contents that are written alike', () => {
    const pairs: [TestJwk, TestJwk][] = [
      [{ a: '1' }, { a: 1 }],
      [{ a: 'x","b":"y' }, { a: 'x', b: 'y' }],
      [{ a: ['x', 'y'] }, { a: ['x,y'] }],
      [{ a: [] }, { a: {} }],
      [{ a: null }, { a: 'null' }],
      [{ a: { b: 1 } }, { 'a.b': 1 }],
      [{ a: [['x'], 'y'] }, { a: ['x', ['y']] }],
    ];
    for (const [one, other] of pairs) {
      assert.notEqual(fingerprint(having(EC.jwk, one)), fingerprint(having(EC.jwk, other)));
    }
  });
});

test('a key is for the algorithm it names, else for all of its kind', () => {
  const suited = (jwk: TestJwk): string[] => {
    const key = onlyKey(jwk);
    return JWT_ALGORITHMS.filter((algorithm) => suits(key, algorithm));
  };
  assert.deepEqual(suited(RSA.jwk), ['RS256']);
  const anyRsa = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
  assert.deepEqual(suited(having(RSA.jwk, { alg: undefined })), anyRsa);
  assert.deepEqual(suited(having(EC.jwk, { alg: undefined })), ['ES256']);
  assert.deepEqual(suited(having(OKP.jwk, { alg: undefined })), ['EdDSA']);
});
