/** The form of tokens: what is read, and every deviation that is refused before anything is verified. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProxyError } from '../../../../src/errors.ts';
import {
  type CompactToken,
  MAX_TOKEN_BYTES,
  parseCompactToken,
} from '../../../../src/inbound/jwt/compact-token.ts';
import { encodePart, signingKey, signParts, signToken } from '../../../support/tokens.ts';

const KEY = signingKey();
const HEADER = '{"alg":"ES256"}';

function parse(token: string | Buffer): CompactToken | ProxyError {
  const bytes = Buffer.from(token as string, 'latin1');
  return parseCompactToken(bytes, 0, bytes.length);
}

function read(token: string): CompactToken {
  const parsed = parse(token);
  if (parsed instanceof ProxyError) throw parsed;
  return parsed;
}

function refusal(token: string | Buffer): string {
  const parsed = parse(token);
  assert.ok(parsed instanceof ProxyError, 'it was read');
  assert.deepEqual(
    [parsed.code, parsed.side, parsed.stage],
    ['caller-token-refused', 'downstream', 'identify'],
  );
  return parsed.message.replace("the caller's token ", '');
}

test('a token is read out of the bytes around it', () => {
  const token = signToken(KEY, { iss: 'https://idp.example/', n: [1, { a: null }] });
  const bytes = Buffer.from(`a.b.${token}.c`);
  const parsed = parseCompactToken(bytes, 4, 4 + token.length);
  assert.ok(!(parsed instanceof ProxyError));
  const { claims, ...facts } = parsed;
  const issuer = 'https://idp.example/';
  assert.deepEqual(facts, { text: token, alg: 'ES256', kid: 'k1', issuer });
  assert.equal(JSON.stringify(claims), JSON.stringify({ iss: issuer, n: [1, { a: null }] }));
});

test('claims are frozen at every level and have no prototype', () => {
  const { claims } = read(signParts(KEY, HEADER, '{"a":{"b":[{"__proto__":1}]},"toString":0}'));
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    assert.ok(Object.isFrozen(value));
    if (!Array.isArray(value)) assert.equal(Object.getPrototypeOf(value), null);
    Object.values(value).forEach(visit);
  };
  visit(claims);
  assert.throws(() => Object.assign(claims, { a: 1 }), TypeError);
});

test('the issuer is for choosing a verifier: undefined where it is no text', () => {
  assert.equal(read(signToken(KEY, {})).issuer, undefined);
  assert.equal(read(signToken(KEY, { iss: ['x'] })).issuer, undefined);
});

test('types of access tokens are taken in every spelling, and none at all', () => {
  for (const typ of [undefined, 'JWT', 'jwt', 'at+jwt', 'AT+JWT', 'application/at+jwt']) {
    assert.equal(read(signToken(KEY, {}, { typ })).alg, 'ES256');
  }
  assert.equal(read(signToken(KEY, {}, { typ: 'Application/JWT' })).alg, 'ES256');
});

test('parameters that choose no key are ignored', () => {
  const header = { x5t: 'AAAA', 'x5t#S256': 'AAAA', x5c: ['AAAA'], nonce: 'n', cty: 'x' };
  assert.equal(read(signToken(KEY, {}, header)).kid, 'k1');
});

test('16 KiB are read, one byte more is refused without a look inside', () => {
  const header = '{"alg":"ES256" }';
  const rest = signParts(KEY, header, '').length;
  // Three bytes of JSON are four of base64url.
  const spaces = ' '.repeat(Math.floor(((MAX_TOKEN_BYTES - rest) * 3) / 4) - 2);
  const largest = signParts(KEY, header, `{${spaces}}`);
  assert.equal(largest.length, MAX_TOKEN_BYTES);
  assert.equal(read(largest).alg, 'ES256');
  assert.equal(refusal('x'.repeat(MAX_TOKEN_BYTES + 1)), 'is larger than 16 KiB');
});

describe('the form of a token:', () => {
  const form = 'is not three parts of base64url, as a signed JWT is';
  const [header = '', payload = '', signature = ''] = signToken(KEY, { a: 1 }).split('.');
  const rows: [title: string, token: string][] = [
    ['nothing', ''],
    ['dots alone', '..'],
    ['two parts', `${header}.${payload}`],
    ['no signature', `${header}.${payload}.`],
    ['no payload', `${header}..${signature}`],
    ['no header', `.${payload}.${signature}`],
    ['four parts', `${header}.${payload}.${signature}.`],
    ['the five parts of an encrypted token', `${header}.a.a.a.${signature}`],
    ['padding', `${header}.${Buffer.from('{"a":1}').toString('base64')}.${signature}`],
    ['the other alphabet', `${encodePart('{"a":"~~~"}').replace('-', '+')}.${payload}.+/+/`],
    ['white space before', ` ${header}.${payload}.${signature}`],
    ['white space after', `${header}.${payload}.${signature}\t`],
    ['white space inside', `${header}.${payload.slice(0, 3)} ${payload.slice(3)}.${signature}`],
    ['a line end inside', `${header}.${payload}.${signature.slice(0, 4)}\n${signature.slice(4)}`],
    ['NUL', `${header}.${payload}.${signature}\0`],
    ['an 8-bit letter', `${header}.${payload}.${signature.slice(1)}\xe9`],
    ['a length that no bytes have', `${header}.${payload}.${signature.slice(0, 85)}`],
    // 64 bytes end in a character with four bits to spare.
    ['stray bits', `${header}.${payload}.${signature.slice(0, -1)}${strayed(signature)}`],
  ];
  for (const [title, token] of rows) test(title, () => assert.equal(refusal(token), form));

  function strayed(text: string): string {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    return alphabet[alphabet.indexOf(text.at(-1) ?? '') + 1] ?? '';
  }
});

describe('the header of a token:', () => {
  const rows: [title: string, header: string | Uint8Array, why: string][] = [
    ['no JSON', 'alg=ES256', 'has a header that is not JSON'],
    ['a list', '["ES256"]', 'has a header that is no JSON object'],
    [
      'not UTF-8',
      Buffer.from('{"alg":"ES256","x":"\xff"}', 'latin1'),
      'has a header that is not UTF-8',
    ],
    ['a mark of byte order', '\ufeff{"alg":"ES256"}', 'has a header that is not JSON'],
    [
      'two algorithms',
      '{"alg":"none","alg":"ES256"}',
      'has a header that has two members of one name',
    ],
    [
      'two names, one escaped',
      '{"alg":"ES256","kid":"a","k\\u0069d":"b"}',
      'has a header that has two members of one name',
    ],
    ['no algorithm', '{"kid":"k1"}', 'names no algorithm'],
    ['an algorithm that is no text', '{"alg":["ES256"]}', 'names no algorithm'],
    ['a kid that is a number', '{"alg":"ES256","kid":1}', 'has a kid that is no text'],
    ['a kid that is null', '{"alg":"ES256","kid":null}', 'has a kid that is no text'],
    ['another type', '{"alg":"ES256","typ":"logout+jwt"}', 'is not of the type JWT or at+jwt'],
    [
      'a type that only ends well',
      '{"alg":"ES256","typ":"text/jwt"}',
      'is not of the type JWT or at+jwt',
    ],
    ['a type that is no text', '{"alg":"ES256","typ":["JWT"]}', 'is not of the type JWT or at+jwt'],
    ...['crit', 'b64', 'jku', 'jwk', 'x5u'].flatMap((name): [string, string, string][] => [
      [name, `{"alg":"ES256","${name}":["exp"]}`, `has the header parameter ${name}`],
      [
        `${name} that is null`,
        `{"alg":"ES256","${name}":null}`,
        `has the header parameter ${name}`,
      ],
    ]),
  ];
  for (const [title, header, why] of rows) {
    test(title, () => assert.equal(refusal(signParts(KEY, header, '{}')), why));
  }
});

describe('the payload of a token:', () => {
  const rows: [title: string, payload: string | Uint8Array, why: string][] = [
    ['no JSON', 'alice', 'has a payload that is not JSON'],
    ['text', '"alice"', 'has a payload that is no JSON object'],
    ['another token', signToken(KEY, {}), 'has a payload that is not JSON'],
    [
      'two subjects',
      '{"sub":"alice","sub":"admin"}',
      'has a payload that has two members of one name',
    ],
    [
      'the same deep inside',
      '{"a":[{"b":1,"b":1}]}',
      'has a payload that has two members of one name',
    ],
    ['a number without end', '{"exp":1e400}', 'has a payload that has a number out of range'],
    ['half a letter', '{"sub":"\\ud800"}', 'has a payload that has text that is not Unicode'],
    [
      'an overlong encoding',
      Buffer.from([0x7b, 0xc0, 0xa2, 0x7d]),
      'has a payload that is not UTF-8',
    ],
    [
      'depth',
      `{"a":${'['.repeat(40)}${']'.repeat(40)}}`,
      'has a payload that is nested too deeply',
    ],
  ];
  for (const [title, payload, why] of rows) {
    test(title, () => assert.equal(refusal(signParts(KEY, HEADER, payload)), why));
  }
});
