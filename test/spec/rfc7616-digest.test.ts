/** RFC 7616 3.9.1: the example of SHA-256 and MD5, with the client nonce of the text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DigestContext } from '../../src/auth/digest.ts';
import { parseChallenges } from '../../src/http/challenge.ts';
import { createNtlmIdentity } from '../../src/identity/identity.ts';
import { ntHashSecret, passwordSecret } from '../support/versioned-secrets.ts';

const NONCE = '7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v';
const OPAQUE = 'FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS';

const challenge = (algorithm: string): string =>
  `Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=${algorithm}, nonce="${NONCE}", opaque="${OPAQUE}"`;

function answer(fields: readonly string[], method = 'GET'): string {
  const context = new DigestContext({
    identity: createNtlmIdentity({
      principal: 'p',
      username: 'Mufasa',
      workstation: '',
      ntHash: ntHashSecret(),
      password: passwordSecret('Circle of Life'),
    }),
    challenges: parseChallenges(fields),
    request: { method, upstreamTarget: '/dir/index.html' },
    // Its hexadecimal form is the client nonce.
    random: (bytes) => Buffer.alloc(bytes, 0xab),
  });
  return Buffer.from(context.step()).toString('latin1');
}

const value = (text: string, name: string): string | undefined =>
  new RegExp(`(?:^|, )${name}="?([^",]*)"?`).exec(text)?.[1];

/** The formula of 3.4.1, computed by another program (OpenSSL's command line), for this client nonce. */
const RESPONSES = {
  'SHA-256': '0254cfcd849e1987ff9088abf953f0cf783a0b14b8bdb002b15c0657ee6cc88d',
  MD5: '6e114d2208396d988eb63b7ff96192be',
} as const;

for (const [algorithm, expected] of Object.entries(RESPONSES)) {
  test(`RFC 7616 3.4: the response by ${algorithm}`, () => {
    const text = answer([challenge(algorithm)]);
    assert.equal(value(text, 'response'), expected);
    assert.equal(value(text, 'algorithm'), algorithm);
    assert.deepEqual(
      ['username', 'realm', 'nonce', 'opaque', 'uri', 'nc', 'qop'].map((name) => value(text, name)),
      ['Mufasa', 'http-auth@example.org', NONCE, OPAQUE, '/dir/index.html', '00000001', 'auth'],
    );
  });
}

test('RFC 7616 3.7: the stronger one of two challenges is answered', () => {
  const text = answer([challenge('MD5'), challenge('SHA-256')]);
  assert.equal(value(text, 'algorithm'), 'SHA-256');
});

test('a challenge that cannot be answered is none', () => {
  const rows = [
    [],
    ['Digest realm="x"'],
    [challenge('SHA-512-256')],
    ['Digest nonce="n", qop="auth-int"'],
  ];
  for (const fields of rows) {
    assert.throws(() => answer(fields), { code: 'mechanism-unavailable' });
  }
});

/** The answer of `username` to a challenge of MD5. */
const contextOf = (username: string): DigestContext =>
  new DigestContext({
    identity: createNtlmIdentity({
      principal: 'p',
      username,
      workstation: '',
      ntHash: ntHashSecret(),
      password: passwordSecret('x'),
    }),
    challenges: parseChallenges([challenge('MD5')]),
    request: { method: 'GET', upstreamTarget: '/' },
    random: (bytes) => Buffer.alloc(bytes),
  });

test('RFC 7616 3.4: the count of the nonce goes on with each request', () => {
  const context = contextOf('DOM\\müller');
  const first = Buffer.from(context.step()).toString('latin1');
  const second = context.credentialsFor({ method: 'PUT', upstreamTarget: '/a' });
  assert.match(first, /nc=00000001/);
  assert.match(second, /^Digest .*nc=00000002/);
  assert.match(second, /username\*=UTF-8''DOM%5Cm%C3%BCller/);
});

test('RFC 7616 3.4: no target ends the parameter that it stands in (RFC 9110 5.6.4)', () => {
  const context = contextOf("DOM\\o'brién(*)!");
  const upstreamTarget = '/a", username="eve\\';
  const text = context.credentialsFor({ method: 'GET', upstreamTarget });
  const [read, ...more] = parseChallenges([text]);
  assert.deepEqual(more, []);
  assert.equal(read?.params?.get('uri'), upstreamTarget);
  assert.equal(read?.params?.get('username'), undefined);
  // RFC 8187 3.2.1: these four are no attr-char.
  assert.match(text, /username\*=UTF-8''DOM%5Co%27bri%C3%A9n%28%2A%29!, /);
});
