/** Decoders of NTLM messages on any bytes; codecs against each other. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';

import { SIGNATURE } from '../../src/auth/ntlm/fields.ts';
import {
  decodeAuthenticate,
  decodeChallenge,
  decodeNegotiate,
  encodeAuthenticate,
  encodeChallenge,
  encodeNegotiate,
} from '../../src/auth/ntlm/messages.ts';
import { decodeTargetInfo, encodeTargetInfo } from '../../src/auth/ntlm/target-info.ts';
import { ProxyError } from '../../src/errors.ts';
import { damaged } from './damaged.ts';
import { CHALLENGE, newContext } from '../unit/auth/ntlm/fixture.ts';

const RUNS = { numRuns: 3_000 };

function authenticateMessage(): Uint8Array {
  const context = newContext();
  context.step();
  return context.step(CHALLENGE);
}

const SEEDS = [CHALLENGE, newContext().step(), authenticateMessage()];

/** Random bytes; random bytes behind a good start; good messages with bytes changed, cut or added. */
const anyMessage: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc
    .tuple(fc.constantFrom(1, 2, 3), fc.uint8Array({ maxLength: 300 }))
    .map(([type, rest]) => Buffer.concat([SIGNATURE, Buffer.from([type, 0, 0, 0]), rest])),
  damaged(SEEDS),
);

describe('any bytes', () => {
  test('decodeChallenge throws nothing but challenge-malformed', () => {
    fc.assert(
      fc.property(anyMessage, (bytes) => {
        try {
          const { serverChallenge, targetInfo } = decodeChallenge(bytes);
          assert.equal(serverChallenge.length, 8);
          const total = (targetInfo ?? []).reduce((sum, pair) => sum + 4 + pair.value.length, 0);
          assert.ok(total <= bytes.length);
        } catch (error) {
          assert.ok(error instanceof ProxyError, String(error));
          assert.equal(error.code, 'challenge-malformed');
        }
      }),
      RUNS,
    );
  });

  test('a context answers a challenge or throws challenge-malformed', () => {
    fc.assert(
      fc.property(anyMessage, (bytes) => {
        const context = newContext();
        context.step();
        try {
          assert.ok(decodeAuthenticate(context.step(bytes)));
        } catch (error) {
          assert.ok(error instanceof ProxyError, String(error));
          assert.equal(error.code, 'challenge-malformed');
        }
      }),
      RUNS,
    );
  });

  test('what an acceptor decodes is undefined when malformed', () => {
    fc.assert(
      fc.property(anyMessage, (bytes) => {
        decodeNegotiate(bytes);
        decodeAuthenticate(bytes);
        decodeTargetInfo(bytes);
      }),
      RUNS,
    );
  });

  test('nothing outside the message is read: its neighbours change nothing', () => {
    fc.assert(
      fc.property(anyMessage, fc.nat(255), (bytes, filler) => {
        const framed = Buffer.alloc(bytes.length + 64, filler);
        framed.set(bytes, 32);
        const inside = framed.subarray(32, 32 + bytes.length);
        const outcome = (message: Uint8Array): unknown => {
          try {
            return decodeChallenge(message);
          } catch (error) {
            return String(error);
          }
        };
        assert.deepEqual(outcome(inside), outcome(bytes));
        assert.deepEqual(decodeAuthenticate(inside), decodeAuthenticate(bytes));
      }),
      RUNS,
    );
  });

  test('a list of AV pairs costs linear time', () => {
    const seconds = (pairs: number): number => {
      const list = Buffer.alloc(pairs * 4 + 4);
      for (let at = 0; at < pairs * 4; at += 4) list.writeUInt16LE(0x100, at);
      const started = process.cpuUsage().user;
      for (let round = 0; round < 20; round += 1)
        assert.equal(decodeTargetInfo(list)?.length, pairs);
      return (process.cpuUsage().user - started) / 1e6;
    };
    seconds(2_000);
    const small = seconds(20_000);
    // Ten times the input: a hundred times the time if it were quadratic.
    assert.ok(seconds(200_000) < 40 * Math.max(small, 0.005));
  });
});

const name = fc.string({ maxLength: 30, unit: 'grapheme' });
const bytes8 = fc.uint8Array({ minLength: 8, maxLength: 8 });
const avPair = fc
  .tuple(fc.integer({ min: 8, max: 0xffff }), fc.uint8Array({ maxLength: 40 }))
  .map(([id, value]) => ({ id, value: Buffer.from(value) }));

describe('encode then decode is equality', () => {
  test('NEGOTIATE', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffffff }), (flags) => {
        assert.deepEqual(decodeNegotiate(encodeNegotiate(flags)), { flags });
      }),
    );
  });

  test('AV pairs', () => {
    fc.assert(
      fc.property(fc.array(avPair, { maxLength: 20 }), (pairs) => {
        assert.deepEqual(decodeTargetInfo(encodeTargetInfo(pairs)), pairs);
      }),
    );
  });

  test('CHALLENGE', () => {
    fc.assert(
      fc.property(bytes8, name, fc.array(avPair, { maxLength: 20 }), (challenge, target, pairs) => {
        const message = encodeChallenge({
          flags: 0x02800001,
          serverChallenge: challenge,
          targetName: target,
          targetInfo: pairs,
        });
        const decoded = decodeChallenge(message);
        assert.deepEqual(Buffer.from(decoded.serverChallenge), Buffer.from(challenge));
        assert.deepEqual(decoded.targetInfo, pairs);
        assert.equal(decoded.flags, 0x02800001);
      }),
    );
  });

  test('AUTHENTICATE', () => {
    fc.assert(
      fc.property(name, name, name, fc.uint8Array({ maxLength: 200 }), (...parts) => {
        const [domain, user, workstation, ntResponse] = parts;
        const fields = {
          flags: 0xa2088205,
          lmResponse: Buffer.alloc(24),
          ntResponse: Buffer.from(ntResponse),
          domain,
          user,
          workstation,
          sessionKey: Buffer.alloc(0),
        };
        assert.deepEqual(decodeAuthenticate(encodeAuthenticate(fields)), fields);
      }),
    );
  });
});
