/** The verifier of one issuer: its checks one by one, and shared, stale and late verifications. */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { ProxyError } from '../../../../src/errors.ts';
import { tokenDigest } from '../../../../src/inbound/jwt/jwt-verifier.ts';
import { JwtWorld } from '../../../support/jwt-world.ts';
import { AUDIENCE, ISSUER, signingKey, signToken } from '../../../support/tokens.ts';
import { Gate, until } from '../../../support/waiting.ts';

const KEY = signingKey();
const OTHER = signingKey({ kid: 'k2', nth: 1 });

/** Counts signature checks of this process while the test runs. */
function countVerifications(t: TestContext): () => number {
  const { mock } = t.mock.method(crypto.subtle, 'verify');
  return () => mock.callCount();
}

describe('a good token', () => {
  test('gives a frozen caller with the claims and the subject', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const { caller } = await world.accepted(world.token(KEY, { groups: ['finance'] }));
    assert.ok(Object.isFrozen(caller));
    assert.deepEqual([caller.kind, caller.issuer, caller.subject], ['jwt', ISSUER, 'alice']);
    assert.deepEqual(caller.claims['groups'], ['finance']);
  });

  test('may lack a subject, an nbf, an iat and a type', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const claims = { sub: undefined, iat: undefined };
    const { caller } = await world.accepted(world.token(KEY, claims, { typ: undefined }));
    assert.equal(caller.subject, undefined);
  });

  test('may be for several, one of whom is ours', async () => {
    const world = new JwtWorld({ keys: [KEY], audience: ['x', AUDIENCE] });
    assert.equal(await world.outcome(world.token(KEY, { aud: ['other', AUDIENCE] })), 'ok');
    assert.equal(await world.outcome(world.token(KEY, { aud: 'x' })), 'ok');
  });
});

describe('claims:', () => {
  const start = new JwtWorld().now() / 1000;
  const rows: [title: string, claims: Record<string, unknown>, outcome: string][] = [
    ['another issuer', { iss: 'https://idp.example' }, 'is from another issuer'],
    ['an issuer in a list', { iss: [ISSUER] }, 'is from another issuer'],
    ['no issuer', { iss: undefined }, 'is from another issuer'],
    ['another audience', { aud: 'API' }, 'is for another audience'],
    ['several other audiences', { aud: ['a', 'b'] }, 'is for another audience'],
    ['no audience', { aud: undefined }, 'is for another audience'],
    ['an empty list of audiences', { aud: [] }, 'is for another audience'],
    ['an audience as a name of an object', { aud: { api: true } }, 'is for another audience'],
    ['a list that is not of texts alone', { aud: [AUDIENCE, 1] }, 'is for another audience'],
    ['no exp', { exp: undefined }, 'has no time of expiry'],
    ['an exp that is text', { exp: String(start + 60) }, 'has an exp that is no number'],
    ['an exp that is null', { exp: null }, 'has an exp that is no number'],
    ['an exp that is true', { exp: true }, 'has an exp that is no number'],
    ['an exp of now', { exp: start }, 'has expired'],
    ['an exp long ago', { exp: -1e300 }, 'has expired'],
    ['an exp a fraction ahead', { exp: start + 0.001 }, 'ok'],
    ['an exp beyond all time', { exp: 1e308 }, 'ok'],
    ['an nbf of now', { nbf: start }, 'ok'],
    ['an nbf a fraction ahead', { nbf: start + 0.001 }, 'is not valid yet'],
    ['an nbf that is text', { nbf: String(start) }, 'has an nbf that is no number'],
    ['an nbf that is null', { nbf: null }, 'has an nbf that is no number'],
    ['an iat that is text', { iat: String(start) }, 'has an iat that is no number'],
    ['an iat in the future', { iat: start + 60 }, 'ok'],
    ['a sub that is empty', { sub: '' }, 'has a sub that is no name'],
    ['a sub that is null', { sub: null }, 'has a sub that is no name'],
    ['a sub that is a number', { sub: 7 }, 'has a sub that is no name'],
    ['a sub that is a list', { sub: ['alice'] }, 'has a sub that is no name'],
    ['a sub of 1024 units', { sub: '😀'.repeat(512) }, 'ok'],
    ['a sub of 1025 units', { sub: `${'😀'.repeat(512)}a` }, 'has a sub that is no name'],
  ];
  for (const [title, claims, outcome] of rows) {
    test(title, async () => {
      const world = new JwtWorld({ keys: [KEY] });
      assert.equal(await world.outcome(world.token(KEY, claims)), outcome);
      assert.equal(world.cache.size, outcome === 'ok' && claims['exp'] !== start + 0.001 ? 1 : 0);
    });
  }
});

describe('keys:', () => {
  test('before the first keys every token of an allowed algorithm is jwks-unavailable', async () => {
    const world = new JwtWorld();
    assert.equal(world.verifier.loaded, false);
    const error = await world.ask(world.token(KEY));
    assert.ok(error instanceof ProxyError);
    assert.deepEqual([error.code, error.side], ['jwks-unavailable', 'internal']);
    const signed = 'is signed with an algorithm that is not allowed';
    assert.equal(await world.outcome(world.token(KEY, {}, { alg: 'none' })), signed);
    assert.equal(await world.outcome(world.token(KEY, { exp: 1 })), 'has expired');
    world.serve(KEY);
    assert.equal(world.verifier.loaded, true);
    assert.equal(await world.outcome(world.token(KEY)), 'ok');
  });

  test('a token of another key, of no key, or of two is refused', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const outcome = (kid: string | undefined): Promise<string> =>
      world.outcome(signToken(OTHER, { iss: ISSUER, aud: AUDIENCE, exp: 2e9 }, { kid }));
    assert.equal(await outcome('k1'), 'has a signature that its key does not verify');
    assert.equal(await outcome('k2'), 'names a key that its issuer does not have');
    assert.equal(await outcome(undefined), 'has a signature that its key does not verify');
    world.serve(KEY, OTHER);
    assert.equal(await outcome(undefined), 'does not say which key verifies it');
    assert.equal(await outcome('k2'), 'ok');
  });

  test('a token for an algorithm that the key is not for is refused', async () => {
    const rsa = signingKey({ algorithm: 'RS256' });
    const world = new JwtWorld({ keys: [rsa] });
    const strong = world.token({ ...rsa, algorithm: 'RS512' });
    assert.equal(
      await world.outcome(strong),
      'is signed with an algorithm that the key is not for',
    );
    const narrow = new JwtWorld({ keys: [rsa], algorithms: ['ES256'] });
    const refused = 'is signed with an algorithm that is not allowed';
    assert.equal(await narrow.outcome(narrow.token(rsa)), refused);
  });
});

describe('an unknown kid', () => {
  test('asks the source once and is looked for again', async () => {
    let asked = 0;
    const refreshForUnknownKid = (): Promise<void> => {
      asked += 1;
      world.serve(KEY, OTHER);
      return Promise.resolve();
    };
    const world: JwtWorld = new JwtWorld({ keys: [KEY], source: { refreshForUnknownKid } });
    assert.equal(await world.outcome(world.token(OTHER)), 'ok');
    assert.equal(asked, 1);
    const unknown = world.token(OTHER, {}, { kid: 'k3' });
    assert.equal(await world.outcome(unknown), 'names a key that its issuer does not have');
    assert.equal(asked, 2);
  });

  test('asks for nothing when the claims are not for us, or the kid is none', async () => {
    let asked = 0;
    const refreshForUnknownKid = (): Promise<void> => {
      asked += 1;
      return Promise.resolve();
    };
    const rsa = signingKey({ algorithm: 'RS256' });
    const world = new JwtWorld({ keys: [KEY], source: { refreshForUnknownKid } });
    await world.outcome(world.token(OTHER, { exp: 1 }));
    await world.outcome(world.token(OTHER, { iss: 'x' }));
    await world.outcome(world.token(rsa, {}, { kid: undefined }));
    await world.outcome(world.token(OTHER, {}, { alg: 'none' }));
    assert.equal(asked, 0);
  });

  test('that took until the end of the token does not save it', async () => {
    const gate = new Gate();
    const source = { refreshForUnknownKid: () => gate.pass() };
    const world = new JwtWorld({ keys: [KEY], source });
    const outcome = world.outcome(world.token(OTHER, { exp: world.now() / 1000 + 5 }));
    await until(() => gate.arrivals === 1, 'the source is asked');
    world.clock.advance(5_000);
    world.serve(KEY, OTHER);
    gate.open();
    assert.equal(await outcome, 'has expired');
    assert.equal(world.cache.size, 0);
  });
});

describe('one verification', () => {
  test('serves a hundred requests that bring the same token at once', async (t) => {
    const world = new JwtWorld({ keys: [KEY] });
    const count = countVerifications(t);
    const token = world.token(KEY);
    const answers = await Promise.all(Array.from({ length: 100 }, () => world.accepted(token)));
    assert.equal(count(), 1);
    assert.equal(new Set(answers).size, 1);
    assert.equal(await world.accepted(token), answers[0]);
    assert.equal(count(), 1);
    assert.deepEqual([world.cache.requests, world.cache.hits], [101, 1]);
  });

  test('serves one refusal likewise, which is then forgotten', async (t) => {
    const world = new JwtWorld({ keys: [KEY] });
    const count = countVerifications(t);
    const token = world.token(OTHER, {}, { kid: 'k1' });
    await Promise.all(Array.from({ length: 100 }, () => world.outcome(token)));
    assert.equal(count(), 1);
    await world.outcome(token);
    assert.equal(count(), 2);
    assert.equal(world.cache.size, 0);
  });

  test('is for one request alone when the cache is off', async (t) => {
    const world = new JwtWorld({ keys: [KEY], cache: { mode: 'off', max: 1000 } });
    const count = countVerifications(t);
    const token = world.token(KEY);
    const answers = await Promise.all([world.accepted(token), world.accepted(token)]);
    await world.accepted(token);
    assert.equal(count(), 3);
    assert.ok(answers[0] !== undefined && !world.verifier.isValid(answers[0]));
    assert.deepEqual([world.cache.requests, world.cache.hits, world.cache.size], [0, 0, 0]);
  });

  test('that began before the keys were replaced is decided by the new ones', async () => {
    const world = new JwtWorld({ keys: [KEY, OTHER] });
    const [gone, staying] = [world.token(KEY), world.token(OTHER)];
    const outcomes = [world.outcome(gone), world.outcome(staying)];
    world.serve(OTHER);
    assert.deepEqual(await Promise.all(outcomes), [
      'names a key that its issuer does not have',
      'ok',
    ]);
    assert.equal(world.cache.size, 1);
    // And the other way: a bad signature under the old content, a good one under the new.
    const renewed = signingKey({ kid: 'k2', nth: 2 });
    const early = world.outcome(world.token(renewed));
    world.serve(renewed);
    assert.equal(await early, 'ok');
  });

  test('that began before is not joined by who comes after', async (t) => {
    const world = new JwtWorld({ keys: [KEY] });
    const count = countVerifications(t);
    const token = world.token(KEY);
    // The first check stands at jose's first step when the second request comes.
    const before = world.outcome(token);
    world.serve(KEY, OTHER);
    const after = world.outcome(token);
    assert.deepEqual(await Promise.all([before, after]), ['ok', 'ok']);
    assert.equal(count(), 2);
    assert.equal(world.cache.size, 1);
  });
});

describe('a remembered token', () => {
  test('is valid until its end, and each look counts as a hit of the cache', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const token = await world.accepted(world.token(KEY, { exp: world.now() / 1000 + 10 }));
    assert.equal(world.verifier.isValid(token), true);
    assert.deepEqual([world.cache.requests, world.cache.hits], [2, 1]);
    world.clock.block(9_999);
    assert.equal(world.verifier.isValid(token), true);
    world.clock.block(1);
    assert.equal(world.verifier.isValid(token), false);
    assert.deepEqual([world.cache.requests, world.cache.hits], [3, 2]);
  });

  test('is not valid before its time, nor after its key is gone', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const nbf = world.now() / 1000;
    const token = await world.accepted(world.token(KEY, { nbf }));
    world.wallShift = -1;
    assert.equal(world.verifier.isValid(token), false);
    world.wallShift = 0;
    assert.equal(world.verifier.isValid(token), true);
    world.serve(OTHER);
    assert.equal(world.verifier.isValid(token), false);
    world.serve(KEY, OTHER);
    assert.equal(world.verifier.isValid(token), false);
  });

  test('is worth its last five seconds to a connection, but not to the cache', async () => {
    const world = new JwtWorld({ keys: [KEY] });
    const token = await world.accepted(world.token(KEY, { exp: world.now() / 1000 + 4.999 }));
    assert.equal(world.cache.size, 0);
    assert.equal(world.verifier.isValid(token), true);
  });
});

test('a change of keys frees the memory of dead tokens within two ticks', async () => {
  const world = new JwtWorld({ keys: [KEY, OTHER] });
  await world.accepted(world.token(KEY));
  await world.accepted(world.token(OTHER));
  world.serve(OTHER);
  world.clock.advance(100);
  assert.deepEqual([world.cache.size, world.cache.evictions.changed], [1, 1]);
});

test('a closed verifier still decides, and remembers nothing', async () => {
  const world = new JwtWorld({ keys: [KEY] });
  const token = world.token(KEY);
  await world.accepted(token);
  world.verifier.close();
  assert.equal(world.cache.size, 0);
  assert.equal(await world.outcome(token), 'ok');
  assert.equal(world.cache.size, 0);
});

test('the digest is the whole SHA-256 of the bytes between the bounds', () => {
  const bytes = Buffer.from('xabcx');
  const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
  assert.equal(tokenDigest(bytes, 1, 4), abc);
});

test('no refusal holds anything of the token', async () => {
  const world = new JwtWorld({ keys: [KEY] });
  const canary = 'c4n4ry';
  const claims = [{ iss: canary }, { aud: canary }, { exp: canary }, { sub: { a: canary } }];
  for (const wrong of [...claims, { nbf: canary }, { iat: canary }]) {
    assert.ok(!(await world.outcome(world.token(KEY, wrong))).includes(canary));
  }
  for (const header of [{ kid: canary }, { alg: canary }, { typ: canary }, { jku: canary }]) {
    const error = await world.ask(world.token(KEY, { sub: canary }, header));
    assert.ok(error instanceof ProxyError);
    assert.ok(!`${error.stack} ${String(error.cause)}`.includes(canary));
  }
});
