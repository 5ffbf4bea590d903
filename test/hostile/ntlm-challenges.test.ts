/** hostile-inputs A1 to A6 and A10: odd and malformed CHALLENGE messages, each with its one answer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { decodeAuthenticate, encodeChallenge, MIC_OFFSET } from '../../src/auth/ntlm/messages.ts';
import { AV, decodeTargetInfo } from '../../src/auth/ntlm/target-info.ts';
import { ProxyError } from '../../src/errors.ts';
import { hex, readVectors } from '../spec/vectors.ts';
import { CHALLENGE_FLAGS, newContext, SERVER_CHALLENGE } from '../unit/auth/ntlm/fixture.ts';

const cases = readVectors('ntlm-challenges-malformed.json') as {
  name: string;
  hex: string;
  expect: string;
  why: string;
}[];

/** Where the vectors leave a choice, this is the one made. */
const CHOSEN: Readonly<Record<string, 'accept' | 'reject'>> = {
  'tn-odd-length': 'accept',
  'av-eol-nonzero-len': 'reject',
  'av-empty-list': 'accept',
  'av-dup-timestamp': 'reject',
  'av-1000-pairs': 'accept',
  'av-server-sends-cb': 'accept',
  'av-server-sends-target-name': 'accept',
};

function wanted(name: string, expect: string): 'accept' | 'reject' {
  const chosen = CHOSEN[name];
  if (chosen !== undefined) return chosen;
  assert.ok(!/\bor\b/.test(expect), `${name} leaves a choice`);
  return expect.startsWith('accept') ? 'accept' : 'reject';
}

/** What is in the answer to a challenge. */
function answer(challenge: Uint8Array) {
  const context = newContext();
  context.step();
  const bytes = Buffer.from(context.step(challenge));
  const message = decodeAuthenticate(bytes) ?? assert.fail('AUTHENTICATE not decoded');
  const response = Buffer.from(message.ntResponse);
  const pairs = decodeTargetInfo(response.subarray(44)) ?? assert.fail('no target info');
  const hasMic = bytes.subarray(MIC_OFFSET, MIC_OFFSET + 16).some((byte) => byte !== 0);
  return { message, response, pairs, ids: pairs.map((pair) => pair.id), hasMic };
}

function answerTo(name: string) {
  const found = cases.find((candidate) => candidate.name === name) ?? assert.fail(name);
  return answer(hex(found.hex));
}

function refuses(challenge: Uint8Array): void {
  const context = newContext();
  context.step();
  assert.throws(
    () => context.step(challenge),
    (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, 'challenge-malformed');
      assert.ok(error.message.length < 100);
      assert.ok(!error.message.includes('NTLMSSP'));
      return true;
    },
  );
  assert.equal(context.complete, false);
}

test('there are 42 cases', () => {
  assert.equal(cases.length, 42);
});

describe('A1: challenges', () => {
  for (const { name, hex: bytes, expect, why } of cases) {
    const verdict = wanted(name, expect);
    test(`${name} (${why}): ${verdict}`, () => {
      if (verdict === 'reject') {
        refuses(hex(bytes));
        return;
      }
      const { message, response } = answer(hex(bytes));
      assert.ok(response.length >= 48, 'no NTLMv2 response');
      assert.deepEqual([...message.lmResponse], Array(24).fill(0));
    });
  }
});

describe('what accepted oddities lead to', () => {
  test('no target info, or an empty field: own pairs only, no MIC', () => {
    for (const name of ['len32-no-targetinfo', 'av-empty-list', 'version-flag-but-short']) {
      const { ids, hasMic } = answerTo(name);
      assert.deepEqual(ids, [AV.CHANNEL_BINDINGS, AV.TARGET_NAME], name);
      assert.equal(hasMic, false, name);
    }
  });

  test('bytes after EOL are not sent back', () => {
    const { ids } = answerTo('av-data-after-eol');
    assert.deepEqual(ids, answerTo('zero-challenge').ids);
  });

  test('A5: bindings and target name of the server are replaced', () => {
    const { ids, pairs } = answerTo('av-server-sends-cb');
    assert.equal(ids.filter((id) => id === AV.CHANNEL_BINDINGS).length, 1);
    const bindings = pairs.find((pair) => pair.id === AV.CHANNEL_BINDINGS);
    assert.deepEqual([...(bindings?.value ?? [])], Array(16).fill(0));
    const named = answerTo('av-server-sends-target-name').pairs;
    const names = named.filter((pair) => pair.id === AV.TARGET_NAME);
    assert.deepEqual(
      names.map((pair) => Buffer.from(pair.value).toString('utf16le')),
      ['HTTP/server'],
    );
  });

  test('an unknown pair is copied through', () => {
    const pair = answerTo('av-unknown-id').pairs.find((candidate) => candidate.id === 0x1234);
    assert.equal(Buffer.from(pair?.value ?? []).toString(), 'xyz');
  });

  test('both character sets: UNICODE is answered and OEM cleared', () => {
    assert.equal(answerTo('both-charsets').message.flags & 3, 1);
    assert.equal(answerTo('oem-only').message.flags & 3, 2);
  });

  test('A6: LM_KEY and a missing EXTENDED_SESSIONSECURITY change no flag to our loss', () => {
    for (const name of ['lm-key', 'no-ESS']) {
      const { message, hasMic } = answerTo(name);
      assert.equal(message.flags & 0x80, 0, name);
      assert.ok(hasMic, name);
    }
  });
});

test('A4: an EOL whose length runs over the end is no EOL', () => {
  assert.deepEqual(decodeTargetInfo(hex('00000000')), []);
  assert.equal(decodeTargetInfo(hex('00000500')), undefined);
  assert.equal(decodeTargetInfo(hex('0200020041000000')), undefined);
});

describe('A10: size', () => {
  const challengeOf = (bytes: number): Buffer =>
    encodeChallenge({
      flags: CHALLENGE_FLAGS,
      serverChallenge: SERVER_CHALLENGE,
      targetName: '',
      targetInfo: [{ id: 0x99, value: Buffer.alloc(bytes) }],
    });

  test('target info up to 8 KiB is answered, more is refused, up to the largest field', () => {
    assert.ok(answer(challengeOf(8 * 1024 - 8)));
    for (const bytes of [8 * 1024 - 7, 9_000, 16_000, 65_527]) refuses(challengeOf(bytes));
  });

  test('a challenge of 1 MiB is refused though all its fields are good', () => {
    refuses(Buffer.concat([challengeOf(8), Buffer.alloc(1024 * 1024)]));
  });
});
