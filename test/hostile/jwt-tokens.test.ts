/**
 * Forged and malformed tokens against a verifier that has the true keys, loaded from a real server. All
 * are refused, none is remembered, and nothing is fetched because a token asks for it.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProxyError } from '../../src/errors.ts';
import { JwtWorld } from '../support/jwt-world.ts';
import { type JwksServer, startJwksServer } from '../support/jwks-server.ts';
import {
  encodePart,
  goodClaims,
  jwks,
  macToken,
  type SigningKey,
  signingKey,
  signParts,
  signToken,
} from '../support/tokens.ts';

const RSA = signingKey({ algorithm: 'RS256', kid: 'rsa' });
const EC = signingKey({ algorithm: 'ES256', kid: 'ec' });
const ED = signingKey({ algorithm: 'EdDSA', kid: 'ed' });
/** The attacker's own. */
const EVIL = signingKey({ algorithm: 'RS256', kid: 'rsa', nth: 6 });
const CLAIMS = goodClaims(new JwtWorld().now());

const UNVERIFIED = 'has a signature that its key does not verify';
const NOT_ALLOWED = 'is signed with an algorithm that is not allowed';
const UNKNOWN_KEY = 'names a key that its issuer does not have';
const NO_FORM = 'is not three parts of base64url, as a signed JWT is';

const parts = (token: string): [string, string, string] => {
  const [header = '', payload = '', signature = ''] = token.split('.');
  return [header, payload, signature];
};

/** A token of any header and signature around good claims. */
const unsigned = (header: object, signature: string | Uint8Array): string =>
  [JSON.stringify(header), JSON.stringify(CLAIMS), signature].map(encodePart).join('.');

function secretsFromPublicKey({ publicKey, jwk }: SigningKey): [string, string | Buffer][] {
  const spki = publicKey.export({ type: 'spki', format: 'pem' });
  const pkcs1 = publicKey.export({ type: 'pkcs1', format: 'pem' });
  return [
    ['PEM', spki],
    ['PEM without its last line end', spki.trimEnd()],
    ['PEM with CRLF', spki.replaceAll('\n', '\r\n')],
    ['PKCS#1 PEM', pkcs1],
    ['DER', publicKey.export({ type: 'spki', format: 'der' })],
    ['PKCS#1 DER', publicKey.export({ type: 'pkcs1', format: 'der' })],
    ['modulus', Buffer.from(String(jwk['n']), 'base64url')],
    ['JWK', JSON.stringify(jwk)],
    ['nothing', ''],
  ];
}

type Row = [title: string, token: string, why: string];

const good = parts(signToken(RSA, CLAIMS));
const goodEc = parts(signToken(EC, CLAIMS));

const algorithms: Row[] = [
  ...['none', 'None', 'NONE', 'nOnE'].flatMap((alg): Row[] => [
    [`alg ${alg} without a signature`, unsigned({ alg }, ''), NO_FORM],
    [`alg ${alg} with any signature`, unsigned({ alg, kid: 'rsa' }, 'x'), NOT_ALLOWED],
    [`alg ${alg} with a true one`, signToken(RSA, CLAIMS, { alg }), NOT_ALLOWED],
  ]),
  ...secretsFromPublicKey(RSA).map(([what, secret]): Row => [
    `HS256 with the ${what} of the RSA key as secret`,
    macToken(secret, CLAIMS, 'rsa'),
    NOT_ALLOWED,
  ]),
  ['an algorithm in small letters', signToken(RSA, CLAIMS, { alg: 'rs256' }), NOT_ALLOWED],
  ['an algorithm that is empty', signToken(RSA, CLAIMS, { alg: '' }), NOT_ALLOWED],
  ['an inherited name as algorithm', signToken(RSA, CLAIMS, { alg: '__proto__' }), NOT_ALLOWED],
  [
    'an algorithm of another key',
    signToken(RSA, CLAIMS, { alg: 'ES256' }),
    'is signed with an algorithm that the key is not for',
  ],
  [
    'PS256 with a key for RS256',
    signToken({ ...RSA, algorithm: 'PS256' }, CLAIMS),
    'is signed with an algorithm that the key is not for',
  ],
];

const signatures: Row[] = [
  ['another key', signToken(EVIL, CLAIMS), UNVERIFIED],
  ['another key, without a name', signToken(EVIL, CLAIMS, { kid: undefined }), UNVERIFIED],
  ['zeros in ES256', `${goodEc[0]}.${goodEc[1]}.${encodePart(Buffer.alloc(64))}`, UNVERIFIED],
  ['ones in ES256', `${goodEc[0]}.${goodEc[1]}.${encodePart(Buffer.alloc(64, 0xff))}`, UNVERIFIED],
  [
    'half an ES256 signature',
    `${goodEc[0]}.${goodEc[1]}.${encodePart(Buffer.from(goodEc[2], 'base64url').subarray(0, 32))}`,
    UNVERIFIED,
  ],
  [
    'too much of an ES256 signature',
    `${goodEc[0]}.${goodEc[1]}.${goodEc[2].slice(0, 84)}${encodePart('xxxx')}`,
    UNVERIFIED,
  ],
  ['zeros in RS256', `${good[0]}.${good[1]}.${encodePart(Buffer.alloc(256))}`, UNVERIFIED],
  ['one byte in RS256', `${good[0]}.${good[1]}.${encodePart(Buffer.from([1]))}`, UNVERIFIED],
  [
    'a megabit in EdDSA',
    unsigned({ alg: 'EdDSA', kid: 'ed' }, Buffer.alloc(11_000, 1)),
    UNVERIFIED,
  ],
  [
    'that of another token',
    `${good[0]}.${good[1]}.${parts(signToken(RSA, { ...CLAIMS, sub: 'bob' }))[2]}`,
    UNVERIFIED,
  ],
  [
    'that of the payload alone',
    `${good[0]}.${good[1]}.${signParts(RSA, '', '').split('.')[2]}`,
    UNVERIFIED,
  ],
  [
    'a changed header',
    `${encodePart('{"alg":"RS256","kid":"rsa" }')}.${good[1]}.${good[2]}`,
    UNVERIFIED,
  ],
];

// prettier-ignore
const NAMES = [
  '', '__proto__', 'constructor', 'toString', 'rsa\0', 'RSA', ' rsa', 'rsa/../rsa',
  '../../../../dev/null', '/proc/self/environ', 'file:///etc/passwd', 'C:\\keys\\a.pem',
  "' OR '1'='1", '| id', '$HOME', 'k'.repeat(8_000), '🔑',
];

const kids = NAMES.map((kid): Row => [
  JSON.stringify(kid.slice(0, 30)),
  signToken(EVIL, CLAIMS, { kid }),
  UNKNOWN_KEY,
]);

const claim = (more: object): string => signToken(RSA, { ...CLAIMS, ...more });
const raw = (header: string, payload: string): string => signParts(RSA, header, payload);
const HEADER = '{"alg":"RS256","kid":"rsa"}';
const text = JSON.stringify(CLAIMS).slice(0, -1);

const forms: Row[] = [
  ['a megabyte', claim({ x: 'x'.repeat(1_000_000) }), 'is larger than 16 KiB'],
  ['a megabyte of dots', '.'.repeat(1_000_000), 'is larger than 16 KiB'],
  ['16 KiB of dots', '.'.repeat(16_384), NO_FORM],
  [
    '16 KiB of brackets',
    raw(HEADER, `{"a":${'['.repeat(11_500)}`),
    'has a payload that is nested too deeply',
  ],
  [
    'a claim twice',
    raw(HEADER, `${text},"sub":"admin"}`),
    'has a payload that has two members of one name',
  ],
  [
    'a claim twice, once escaped',
    raw(HEADER, `${text},"s\\u0075b":"admin"}`),
    'has a payload that has two members of one name',
  ],
  [
    'an algorithm twice',
    raw('{"alg":"none","kid":"rsa","alg":"RS256"}', `${text}}`),
    'has a header that has two members of one name',
  ],
  ['exp as text', claim({ exp: '99999999999' }), 'has an exp that is no number'],
  [
    'exp beyond all numbers',
    raw(HEADER, `${text.replace(/"exp":\d+/, '"exp":1e999')}}`),
    'has a payload that has a number out of range',
  ],
  [
    'exp that is NaN',
    raw(HEADER, `${text.replace(/"exp":\d+/, '"exp":NaN')}}`),
    'has a payload that is not JSON',
  ],
  ['nbf in the future', claim({ nbf: 9_999_999_999 }), 'is not valid yet'],
  [
    'crit of an unknown extension',
    signToken(RSA, CLAIMS, { crit: ['x'], x: 1 }),
    'has the header parameter crit',
  ],
  [
    'crit of a known claim',
    signToken(RSA, CLAIMS, { crit: ['exp'], exp: 1 }),
    'has the header parameter crit',
  ],
  ['crit that is empty', signToken(RSA, CLAIMS, { crit: [] }), 'has the header parameter crit'],
  ['an unencoded payload', signToken(RSA, CLAIMS, { b64: false }), 'has the header parameter b64'],
  ['its own key', signToken(EVIL, CLAIMS, { jwk: EVIL.jwk }), 'has the header parameter jwk'],
  ['a certificate of its own', signToken(EVIL, CLAIMS, { x5c: ['MIIB'], x5t: 'AAAA' }), UNVERIFIED],
  ['five parts', `${good[0]}.a.b.c.${good[2]}`, NO_FORM],
  ['a token in a token', raw(HEADER, good.join('.')), 'has a payload that is not JSON'],
  ['a list of tokens', `${good.join('.')}, ${good.join('.')}`, NO_FORM],
  [
    'JSON serialisation',
    JSON.stringify({ payload: good[1], protected: good[0], signature: good[2] }),
    NO_FORM,
  ],
];

/** A verifier whose keys are in place, and which may ask `server` about unknown ones. */
function newWorld(server: JwksServer): JwtWorld {
  const refreshForUnknownKid = async (): Promise<void> => {
    await (await fetch(server.url)).text();
  };
  return new JwtWorld({ keys: [RSA, EC, ED], source: { refreshForUnknownKid } });
}

for (const [title, rows] of [
  ['algorithms that nobody allowed', algorithms],
  ['signatures that nobody made', signatures],
  ['names of keys that nobody has', kids],
  ['tokens that are none', forms],
] as const) {
  describe(title, () => {
    for (const [name, token, why] of rows) {
      test(name, async () => {
        await using server = await startJwksServer(jwks(RSA, EC, ED));
        const world = newWorld(server);
        await world.accepted(good.join('.'));
        const answer = await world.ask(token);
        assert.ok(answer instanceof ProxyError, 'it was accepted');
        assert.equal(answer.code, 'caller-token-refused');
        assert.equal(answer.message, `the caller's token ${why}`);
        assert.equal(world.cache.size, 1);
        assert.equal(server.fetches, why === UNKNOWN_KEY ? 1 : 0);
      });
    }
  });
}

test('a server that a token points at is never asked', async () => {
  await using trap = await startJwksServer(jwks(EVIL));
  await using server = await startJwksServer(jwks(RSA));
  const world = newWorld(server);
  const { href } = trap.url;
  const headers = [
    { jku: href },
    { x5u: href },
    { jku: href, jwk: EVIL.jwk, kid: href },
    { kid: href },
    { kid: href, x5c: [href], x5t: href },
    { typ: href },
    { alg: href },
  ];
  for (const header of headers) {
    assert.notEqual(await world.outcome(signToken(EVIL, CLAIMS, header)), 'ok');
    const iss = { ...CLAIMS, iss: href, jku: href, jwks_uri: href };
    assert.notEqual(await world.outcome(signToken(EVIL, iss, header)), 'ok');
  }
  assert.equal(trap.fetches, 0);
});

test('the true tokens beside them are accepted', async () => {
  await using server = await startJwksServer(jwks(RSA, EC, ED));
  const world = newWorld(server);
  for (const key of [RSA, EC, ED]) {
    assert.equal(await world.outcome(signToken(key, CLAIMS)), 'ok');
  }
  assert.equal(server.fetches, 0);
});
