/** MS-NLMP 3.3.2 and 4.2.4: keys, proofs, session keys. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  encodeFileTime,
  ntlmv2Response,
  ntowfv1,
  ntowfv2,
  upperCase,
} from '../../src/auth/ntlm/ntlmv2.ts';
import { hex, readVectors } from './vectors.ts';

interface ResponseVector {
  name: string;
  user: string;
  domain: string;
  password: string;
  serverChallenge: string;
  clientChallenge: string;
  timestamp: string;
  targetInfo: string;
  ntowfv1: string;
  ntowfv2: string;
  response: string;
  proof: string;
  sessionKey: string;
}

interface KeyVector {
  user: string;
  domain: string;
  password: string;
  ntowfv2: string;
  why: string;
}

const vectors = readVectors('ntlmv2.json') as {
  responses: ResponseVector[];
  keys: KeyVector[];
  wrongWithoutFinalZeros: { proof: string; sessionKey: string };
};

for (const vector of vectors.responses) {
  describe(`${vector.name}: NTLMv2`, () => {
    const response = () =>
      ntlmv2Response({
        key: hex(vector.ntowfv2),
        serverChallenge: hex(vector.serverChallenge),
        clientChallenge: hex(vector.clientChallenge),
        timestamp: hex(vector.timestamp),
        targetInfo: hex(vector.targetInfo),
      });

    test('NTOWFv1 is the MD4 of the UTF-16LE password', () => {
      assert.equal(ntowfv1(vector.password).toString('hex'), vector.ntowfv1);
    });

    test('NTOWFv2 upper-cases the user and not the domain', () => {
      const key = ntowfv2(hex(vector.ntowfv1), vector.user, vector.domain);
      assert.equal(key.toString('hex'), vector.ntowfv2);
    });

    test('NTProofStr stands before the blob it proves', () => {
      const { ntResponse } = response();
      assert.equal(ntResponse.subarray(0, 16).toString('hex'), vector.proof);
      assert.equal(ntResponse.toString('hex'), vector.response);
    });

    test('SessionBaseKey is made from the proof', () => {
      assert.equal(response().sessionKey.toString('hex'), vector.sessionKey);
    });
  });
}

test('the four zero bytes after the EOL pair are part of what is proved', () => {
  const [vector] = vectors.responses;
  assert.ok(vector);
  assert.notEqual(vector.proof, vectors.wrongWithoutFinalZeros.proof);
  assert.notEqual(vector.sessionKey, vectors.wrongWithoutFinalZeros.sessionKey);
  assert.ok(vector.response.endsWith('00000000'.repeat(2)));
});

for (const { user, domain, password, ntowfv2: expected, why } of vectors.keys) {
  test(`MS-NLMP 3.3.2: NTOWFv2 of ${domain}\\${user}: ${why}`, () => {
    assert.equal(ntowfv2(ntowfv1(password), user, domain).toString('hex'), expected);
  });
}

test('upper case maps one UTF-16 unit to one unit, as the Windows table does', () => {
  const pairs = [
    ['user', 'USER'],
    ['jürgen-ÿ', 'JÜRGEN-Ÿ'],
    ['straße', 'STRAßE'],
    ['ıſµŉΐ', 'ıſµŉΐ'],
    ['γιώργος', 'ΓΙΏΡΓΟΣ'],
    ['иван', 'ИВАН'],
    ['გიორგი', 'გიორგი'],
    ['a\ud83d', 'A\ud83d'],
    ['\u{10428}', '\u{10428}'],
  ] as const;
  for (const [lower, upper] of pairs) assert.equal(upperCase(lower), upper);
});

test('FILETIME counts 100 ns from 1601', () => {
  assert.equal(encodeFileTime(0).readBigUInt64LE(0), 116_444_736_000_000_000n);
  assert.equal(encodeFileTime(1_495_570_387_000.5).readBigUInt64LE(0), 131_400_439_870_000_000n);
});
