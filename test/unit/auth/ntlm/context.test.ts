import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { NtlmContextOptions } from '../../../../src/auth/ntlm/context.ts';
import { FLAG } from '../../../../src/auth/ntlm/fields.ts';
import {
  decodeAuthenticate,
  encodeChallenge,
  MIC_OFFSET,
  type ChallengeFields,
} from '../../../../src/auth/ntlm/messages.ts';
import {
  encodeFileTime,
  messageIntegrityCode,
  ntlmv2Response,
  ntowfv1,
  ntowfv2,
} from '../../../../src/auth/ntlm/ntlmv2.ts';
import { AV, decodeTargetInfo, type AvPair } from '../../../../src/auth/ntlm/target-info.ts';
import {
  CHALLENGE,
  CHALLENGE_FLAGS,
  CLIENT_CHALLENGE,
  newContext,
  newIdentity,
  PASSWORD,
  SERVER_CHALLENGE,
  TIMESTAMP,
} from './fixture.ts';

/** Runs a login and takes its AUTHENTICATE message apart. */
function answer(challenge: Uint8Array = CHALLENGE, options: Partial<NtlmContextOptions> = {}) {
  const context = newContext(options);
  const negotiate = context.step();
  const bytes = Buffer.from(context.step(challenge));
  const message = decodeAuthenticate(bytes) ?? assert.fail('AUTHENTICATE not decoded');
  const response = Buffer.from(message.ntResponse);
  const pairs = decodeTargetInfo(response.subarray(44)) ?? assert.fail('no target info');
  const mic = bytes.subarray(MIC_OFFSET, MIC_OFFSET + 16);
  return { negotiate, bytes, message, response, pairs, mic, context };
}

function challengeWith(pairs: AvPair[], fields: Partial<ChallengeFields> = {}): Buffer {
  return encodeChallenge({
    flags: CHALLENGE_FLAGS,
    serverChallenge: SERVER_CHALLENGE,
    targetName: 'LAB',
    targetInfo: pairs,
    ...fields,
  });
}

const idsOf = (pairs: readonly AvPair[]): number[] => pairs.map((pair) => pair.id);

const hexOf = (pairs: readonly AvPair[], id: number): string | undefined => {
  const pair = pairs.find((candidate) => candidate.id === id);
  return pair && Buffer.from(pair.value).toString('hex');
};

const DOMAIN_PAIR = { id: AV.NB_DOMAIN_NAME, value: Buffer.from('D', 'utf16le') };

describe('NEGOTIATE', () => {
  test('has 40 bytes, a fixed version, and no name', () => {
    assert.equal(
      Buffer.from(newContext().step()).toString('hex'),
      '4e544c4d5353500001000000078208a2000000000000000000000000000000000a00614a0000000f',
    );
  });
});

describe('AUTHENTICATE', () => {
  test('carries the proof of the account, no LM response and no session key', () => {
    const { message, response } = answer();
    assert.deepEqual(
      [message.domain, message.user, message.workstation],
      ['Domain', 'User', 'COMPUTER'],
    );
    assert.deepEqual([...message.lmResponse], Array(24).fill(0));
    assert.equal(message.sessionKey.length, 0);
    const expected = ntlmv2Response({
      key: ntowfv2(ntowfv1(PASSWORD), 'User', 'Domain'),
      serverChallenge: SERVER_CHALLENGE,
      clientChallenge: CLIENT_CHALLENGE,
      timestamp: TIMESTAMP,
      targetInfo: response.subarray(44, -4),
    });
    assert.deepEqual(response, expected.ntResponse);
  });

  test('a UPN goes whole into the user field and the key', () => {
    const { message, response } = answer(CHALLENGE, { identity: newIdentity('user@corp.example') });
    assert.deepEqual([message.domain, message.user], ['', 'user@corp.example']);
    const expected = ntlmv2Response({
      key: ntowfv2(ntowfv1(PASSWORD), 'user@corp.example', ''),
      serverChallenge: SERVER_CHALLENGE,
      clientChallenge: CLIENT_CHALLENGE,
      timestamp: TIMESTAMP,
      targetInfo: response.subarray(44, -4),
    });
    assert.deepEqual(response, expected.ntResponse);
  });

  test('flags are those that both sides want, UNICODE before OEM, and never more', () => {
    const every = challengeWith([DOMAIN_PAIR], { flags: 0xffffffff });
    assert.equal(answer(every).message.flags, 0xa2088205);
    assert.equal(answer().message.flags, (CHALLENGE_FLAGS & ~FLAG.TARGET_INFO) >>> 0);
  });

  test('without a timestamp of the server the own clock is used', () => {
    const { response } = answer(challengeWith([DOMAIN_PAIR]));
    const expected = encodeFileTime(Date.UTC(2026, 0, 1));
    assert.deepEqual(response.subarray(24, 32), expected);
  });
});

describe('target info of the response', () => {
  test("keeps the server's order and appends flags, channel bindings and target name", () => {
    const { pairs } = answer();
    const added = [AV.FLAGS, AV.CHANNEL_BINDINGS, AV.TARGET_NAME];
    assert.deepEqual(idsOf(pairs), [2, 1, 7, ...added]);
    assert.equal(hexOf(pairs, AV.FLAGS), '02000000');
    assert.equal(hexOf(pairs, AV.CHANNEL_BINDINGS), '00'.repeat(16));
    const spn = Buffer.from('HTTP/server', 'utf16le').toString('hex');
    assert.equal(hexOf(pairs, AV.TARGET_NAME), spn);
  });

  test("sets the MIC bit in the server's flags where they stand, and keeps its other bits", () => {
    const flags = { id: AV.FLAGS, value: Buffer.from('01000080', 'hex') };
    const { pairs } = answer(challengeWith([flags, DOMAIN_PAIR]));
    assert.deepEqual(idsOf(pairs), [6, 2, 10, 9]);
    assert.equal(hexOf(pairs, AV.FLAGS), '03000080');
  });

  test('A5: channel bindings and target name of the server are dropped', () => {
    const { pairs } = answer(
      challengeWith([
        { id: AV.CHANNEL_BINDINGS, value: Buffer.alloc(16, 7) },
        { id: AV.TARGET_NAME, value: Buffer.from('HTTP/evil', 'utf16le') },
        DOMAIN_PAIR,
      ]),
    );
    assert.deepEqual(idsOf(pairs), [2, 6, 10, 9]);
    assert.equal(hexOf(pairs, AV.CHANNEL_BINDINGS), '00'.repeat(16));
  });

  test('has the hash of the bindings of this TLS connection', () => {
    const { pairs } = answer(CHALLENGE, { bindings: Buffer.from('tls-server-end-point:x') });
    assert.notEqual(hexOf(pairs, AV.CHANNEL_BINDINGS), '00'.repeat(16));
  });

  test('has no target name when none is configured', () => {
    assert.deepEqual(idsOf(answer(CHALLENGE, { spn: undefined }).pairs), [2, 1, 7, 6, 10]);
  });
});

describe('MIC', () => {
  test('is written for target info, over the three messages as they crossed the wire', () => {
    const trailing = Buffer.concat([CHALLENGE, Buffer.from('trailing')]);
    const { negotiate, bytes, message, response, mic } = answer(trailing);
    const { sessionKey } = ntlmv2Response({
      key: ntowfv2(ntowfv1(PASSWORD), message.user, message.domain),
      serverChallenge: SERVER_CHALLENGE,
      clientChallenge: CLIENT_CHALLENGE,
      timestamp: TIMESTAMP,
      targetInfo: response.subarray(44, -4),
    });
    const zeroed = Buffer.from(bytes).fill(0, MIC_OFFSET, MIC_OFFSET + 16);
    assert.deepEqual(mic, messageIntegrityCode(sessionKey, negotiate, trailing, zeroed));
  });

  test('is written for target info without a timestamp too', () => {
    const { mic, pairs } = answer(challengeWith([DOMAIN_PAIR]));
    assert.notDeepEqual(mic, Buffer.alloc(16));
    assert.equal(hexOf(pairs, AV.FLAGS), '02000000');
  });

  test('is absent, and not announced, when the challenge has no target info', () => {
    const flags = (CHALLENGE_FLAGS & ~FLAG.TARGET_INFO) >>> 0;
    const { mic, pairs } = answer(challengeWith([], { flags }));
    assert.deepEqual(mic, Buffer.alloc(16));
    assert.deepEqual(idsOf(pairs), [AV.CHANNEL_BINDINGS, AV.TARGET_NAME]);
  });
});

describe('OEM servers', () => {
  const oem = challengeWith([DOMAIN_PAIR], {
    flags: ((CHALLENGE_FLAGS & ~FLAG.UNICODE) | FLAG.OEM) >>> 0,
  });

  test('get ASCII names, one byte each, and pairs in UTF-16', () => {
    const { bytes, message, pairs } = answer(oem);
    assert.equal(message.user, 'User');
    assert.ok(bytes.includes('DomainUserCOMPUTER'));
    const spn = Buffer.from('HTTP/server', 'utf16le').toString('hex');
    assert.equal(hexOf(pairs, AV.TARGET_NAME), spn);
  });

  test('are refused for a name that is not ASCII', () => {
    for (const identity of [newIdentity('D\\Jürgen'), newIdentity('Ö\\user')]) {
      const context = newContext({ identity });
      context.step();
      assert.throws(() => context.step(oem), { code: 'challenge-malformed' });
    }
  });
});

describe('order of the messages', () => {
  const refused = { name: 'ProxyError', code: 'challenge-malformed', stage: 'handshake' };

  test('complete turns true with AUTHENTICATE', () => {
    const context = newContext();
    assert.equal(context.complete, false);
    context.step();
    assert.equal(context.complete, false);
    context.step(CHALLENGE);
    assert.equal(context.complete, true);
  });

  test('A7: a token too early, a missing one and a second CHALLENGE are refused', () => {
    assert.throws(() => newContext().step(CHALLENGE), refused);
    const context = newContext();
    context.step();
    assert.throws(() => context.step(), refused);
    context.step(CHALLENGE);
    assert.throws(() => context.step(CHALLENGE), refused);
    assert.throws(() => context.step(), refused);
  });

  test('R46 no error names the account or holds a token', () => {
    const context = newContext();
    context.step();
    assert.throws(
      () => context.step(CHALLENGE.subarray(0, 60)),
      (error: Error) => !/User|Domain|NTLMSSP|Password/.test(error.message + String(error.cause)),
    );
  });
});

test('an answer that would pass the header limits of servers is not sent', () => {
  const large = { id: 0x99, value: Buffer.alloc(8_000) };
  const names = { identity: newIdentity(`${'D'.repeat(255)}\\${'u'.repeat(104)}`) };
  assert.ok(answer(challengeWith([large])).bytes.length < 9 * 1024);
  const context = newContext({ ...names, spn: `HTTP/${'h'.repeat(250)}` });
  context.step();
  assert.throws(() => context.step(challengeWith([large])), { code: 'challenge-malformed' });
});
