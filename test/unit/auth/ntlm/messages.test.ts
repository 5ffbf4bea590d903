import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { VERSION } from '../../../../src/auth/ntlm/fields.ts';
import {
  decodeAuthenticate,
  decodeChallenge,
  decodeNegotiate,
  encodeAuthenticate,
  encodeChallenge,
  encodeNegotiate,
  MAX_AUTHENTICATE_BYTES,
  MAX_TOKEN_BYTES,
  type AuthenticateFields,
} from '../../../../src/auth/ntlm/messages.ts';
import { upperCase } from '../../../../src/auth/ntlm/ntlmv2.ts';
import { CHALLENGE, CHALLENGE_FLAGS, SERVER_CHALLENGE } from './fixture.ts';

const FIELDS: AuthenticateFields = {
  flags: 0xa2088205,
  lmResponse: Buffer.alloc(24),
  ntResponse: Buffer.alloc(48, 1),
  domain: 'Domain',
  user: 'User',
  workstation: 'COMPUTER',
  sessionKey: Buffer.alloc(16, 2),
};

describe('the smallest and the largest message', () => {
  test('NEGOTIATE: 16 bytes are read, 15 are not', () => {
    const message = encodeNegotiate();
    assert.ok(decodeNegotiate(message.subarray(0, 16)));
    assert.equal(decodeNegotiate(message.subarray(0, 15)), undefined);
    assert.equal(decodeNegotiate(CHALLENGE), undefined);
  });

  test('CHALLENGE: 48 bytes hold an empty target info field', () => {
    const message = Buffer.from(CHALLENGE.subarray(0, 48));
    message.fill(0, 40, 48);
    assert.equal(decodeChallenge(message).targetInfo, undefined);
    assert.throws(() => decodeChallenge(message.subarray(0, 47)), { code: 'challenge-malformed' });
  });

  test('CHALLENGE: 12 KiB are read, one byte more is not', () => {
    const large = Buffer.concat([CHALLENGE, Buffer.alloc(MAX_TOKEN_BYTES - CHALLENGE.length)]);
    assert.ok(decodeChallenge(large).targetInfo);
    const larger = Buffer.concat([large, Buffer.alloc(1)]);
    assert.throws(() => decodeChallenge(larger), { code: 'challenge-malformed' });
  });

  test('AUTHENTICATE: 9 KiB are written, one byte more is not', () => {
    const rest = encodeAuthenticate({ ...FIELDS, ntResponse: Buffer.alloc(0) }).length;
    const ntResponse = Buffer.alloc(MAX_AUTHENTICATE_BYTES - rest);
    assert.equal(encodeAuthenticate({ ...FIELDS, ntResponse }).length, MAX_AUTHENTICATE_BYTES);
    const larger = Buffer.alloc(ntResponse.length + 1);
    assert.throws(() => encodeAuthenticate({ ...FIELDS, ntResponse: larger }), {
      code: 'challenge-malformed',
    });
  });

  test('AUTHENTICATE: 64 bytes of empty fields are read, 63 are not', () => {
    const message = encodeAuthenticate(FIELDS).subarray(0, 64);
    message.fill(0, 12, 60);
    assert.equal(decodeAuthenticate(message)?.user, '');
    assert.equal(decodeAuthenticate(message.subarray(0, 63)), undefined);
  });
});

describe('AUTHENTICATE for an acceptor', () => {
  test('any field out of range makes the message malformed', () => {
    for (const at of [12, 20, 28, 36, 44, 52]) {
      for (const offset of [0, 63, 100_000, 0xffffffff]) {
        const message = encodeAuthenticate(FIELDS);
        message.writeUInt32LE(offset, at + 4);
        assert.equal(decodeAuthenticate(message), undefined, `${at} at ${offset}`);
      }
    }
  });

  test('a name of half a UTF-16 unit makes the message malformed, an OEM name of one byte not', () => {
    for (const at of [28, 36, 44]) {
      const message = encodeAuthenticate(FIELDS);
      message.writeUInt16LE(3, at);
      assert.equal(decodeAuthenticate(message), undefined);
    }
    const oem = encodeAuthenticate({ ...FIELDS, flags: 0xa2088206, user: 'abc' });
    assert.equal(decodeAuthenticate(oem)?.user, 'abc');
  });
});

test('Version is written, in a challenge only when its flag is set', () => {
  const challenge = (flags: number): Buffer =>
    encodeChallenge({
      flags,
      serverChallenge: SERVER_CHALLENGE,
      targetName: 'LAB',
      targetInfo: [],
    }).subarray(48, 56);
  assert.deepEqual(challenge(CHALLENGE_FLAGS), VERSION);
  assert.deepEqual(challenge(CHALLENGE_FLAGS & ~0x02000000), Buffer.alloc(8));
  assert.deepEqual(encodeAuthenticate(FIELDS).subarray(64, 72), VERSION);
});

test('the whole Georgian alphabet keeps its case, its neighbours do not', () => {
  assert.equal(upperCase('\u10d0\u10ff'), '\u10d0\u10ff');
  assert.equal(upperCase('\u2d00\u0561'), '\u10a0\u0531');
});
