/** SPNEGO decoders and contexts on any bytes; the codec against itself. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';

import { createSpnegoKerberosContext } from '../../src/auth/spnego/kerberos-context.ts';
import {
  decodeOid,
  encodeElement,
  encodeOid,
  readElements,
  readOnly,
} from '../../src/auth/spnego/der.ts';
import {
  decodeNegToken,
  encodeNegTokenInit,
  encodeNegTokenResp,
  OID,
} from '../../src/auth/spnego/tokens.ts';
import { rc4 } from '../../src/auth/ntlm/rc4.ts';
import { ProxyError } from '../../src/errors.ts';
import { damaged } from './damaged.ts';
import { hex, readVectors } from '../spec/vectors.ts';
import {
  challengeToken,
  completed,
  newSpnegoContext,
  SERVER_MIC,
  SIGNING_CHALLENGE,
} from '../unit/auth/spnego/fixture.ts';

const RUNS = { numRuns: 3_000 };

const vectors = readVectors('spnego.json') as {
  tokens: { hex: string }[];
  exchanges: { init: string; answer: string; final: string }[];
};

const SEEDS = [
  ...vectors.tokens.map((token) => hex(token.hex)),
  ...vectors.exchanges.flatMap(({ init, answer, final }) => [hex(init), hex(answer), hex(final)]),
  challengeToken(),
  SIGNING_CHALLENGE,
  encodeNegTokenResp({ state: 'accept-completed', mechListMic: SERVER_MIC }),
];

/** Random bytes; elements in elements; good tokens with bytes changed, cut or added. */
const anyToken: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc
    .tuple(
      fc.uint8Array({ maxLength: 40 }),
      fc.array(fc.constantFrom(0x30, 0x60, 0xa0, 0xa1, 0xa2, 0xa3, 0x04, 0x06, 0x0a), {
        maxLength: 12,
      }),
    )
    .map(([inner, tags]) =>
      tags.reduce<Uint8Array>((bytes, tag) => encodeElement(tag, bytes), inner),
    ),
  damaged(SEEDS),
);

/** Runs `work`; what it throws must be a ProxyError with one of these codes. */
function throwsOnly(codes: readonly string[], work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    assert.ok(error instanceof ProxyError, String(error));
    assert.ok(codes.includes(error.code), error.code);
    return false;
  }
}

describe('any bytes', () => {
  test('decodeNegToken throws nothing but challenge-malformed, and invents no bytes', () => {
    fc.assert(
      fc.property(anyToken, (bytes) => {
        throwsOnly(['challenge-malformed'], () => {
          const token = decodeNegToken(bytes);
          const inner = token.kind === 'init' ? token.mechToken : token.responseToken;
          const total = (inner?.length ?? 0) + (token.mechListMic?.length ?? 0);
          assert.ok(total < bytes.length);
        });
      }),
      RUNS,
    );
  });

  test('NTLM in Negotiate answers or throws a ProxyError, and is complete only when it answered', () => {
    fc.assert(
      fc.property(anyToken, (bytes) => {
        const context = newSpnegoContext();
        context.step();
        const answered = throwsOnly(['challenge-malformed', 'handshake-failed'], () => {
          assert.ok(context.step(bytes).length > 0);
        });
        if (!answered) assert.equal(context.complete, false);
      }),
      RUNS,
    );
  });

  test('a final token satisfies `required` only with the checksum of the server', () => {
    fc.assert(
      fc.property(anyToken, (bytes) => {
        const context = completed({ mutual: 'required' });
        const believed = throwsOnly(['mutual-failed'], () => context.finish(bytes));
        if (!believed) return;
        const mic = decodeNegToken(bytes).mechListMic ?? assert.fail('no checksum');
        assert.deepEqual(Buffer.from(mic), SERVER_MIC);
      }),
      RUNS,
    );
  });

  test('Kerberos in Negotiate throws nothing but mutual-failed', async () => {
    const use = {
      token: Buffer.alloc(1),
      finish: () => Promise.resolve(),
      dispose: () => undefined,
    };
    await fc.assert(
      fc.asyncProperty(anyToken, async (bytes) => {
        const context = createSpnegoKerberosContext(use, 'required');
        try {
          await context.finish(bytes);
        } catch (error) {
          assert.ok(error instanceof ProxyError, String(error));
          assert.equal(error.code, 'mutual-failed');
        }
      }),
      RUNS,
    );
  });

  test('nothing outside the token is read: its neighbours change nothing', () => {
    const outcome = (bytes: Uint8Array): unknown => {
      try {
        return decodeNegToken(bytes);
      } catch (error) {
        return String(error);
      }
    };
    fc.assert(
      fc.property(anyToken, fc.nat(255), (bytes, filler) => {
        const framed = new Uint8Array(bytes.length + 64).fill(filler);
        framed.set(bytes, 32);
        const inside = framed.subarray(32, 32 + bytes.length);
        assert.deepEqual(outcome(inside), outcome(new Uint8Array(bytes)));
      }),
      RUNS,
    );
  });

  test('a list of elements costs linear time', () => {
    /** The least of several runs: what other work and the collector add is not of the list. */
    const seconds = (count: number): number => {
      const list = Buffer.alloc(count * 2, Buffer.from([0x04, 0x00]));
      const runs = Array.from({ length: 15 }, () => {
        const started = process.cpuUsage().user;
        assert.equal(readElements(list)?.length, count);
        return (process.cpuUsage().user - started) / 1e6;
      });
      return Math.min(...runs);
    };
    seconds(2_000);
    const small = seconds(5_000);
    // Twenty times the input: four hundred times the time if it were quadratic.
    assert.ok(seconds(100_000) < 150 * Math.max(small, 0.0003));
  });
});

const octets = fc.option(fc.uint8Array({ maxLength: 300 }), { nil: undefined });
const arc = fc.integer({ min: 0, max: 2 ** 40 });
const oid = fc
  .tuple(fc.constantFrom(0, 1, 2), fc.integer({ min: 0, max: 39 }), fc.array(arc, { maxLength: 8 }))
  .map(([root, second, rest]) => [root, second, ...rest].join('.'));

const plain = (bytes: Uint8Array | undefined): Uint8Array | undefined =>
  bytes && new Uint8Array(bytes);

describe('encode then decode is equality', () => {
  test('object identifiers', () => {
    fc.assert(
      fc.property(oid, (dotted) => {
        assert.equal(decodeOid(readOnly(encodeOid(dotted))?.value ?? Buffer.alloc(0)), dotted);
      }),
    );
  });

  test('NegTokenInit', () => {
    const list = fc.array(oid, { minLength: 1, maxLength: 64 });
    fc.assert(
      fc.property(list, octets, octets, (mechTypes, mechToken, mechListMic) => {
        const token = decodeNegToken(encodeNegTokenInit({ mechTypes, mechToken, mechListMic }));
        assert.ok(token.kind === 'init');
        assert.deepEqual(token.mechTypes, mechTypes);
        assert.deepEqual(plain(token.mechToken), plain(mechToken));
        assert.deepEqual(plain(token.mechListMic), plain(mechListMic));
      }),
    );
  });

  test('NegTokenResp', () => {
    const states = fc.constantFrom(
      undefined,
      'accept-completed',
      'accept-incomplete',
      'reject',
      'request-mic',
    );
    const mechs = fc.constantFrom(undefined, OID.NTLM, OID.KRB5);
    fc.assert(
      fc.property(states, mechs, octets, octets, (state, mech, responseToken, mechListMic) => {
        const fields = { state, mech, responseToken, mechListMic };
        const token = decodeNegToken(encodeNegTokenResp(fields));
        assert.ok(token.kind === 'resp');
        assert.deepEqual([token.state, token.mech], [state, mech]);
        assert.deepEqual(plain(token.responseToken), plain(responseToken));
        assert.deepEqual(plain(token.mechListMic), plain(mechListMic));
      }),
    );
  });

  test('RC4 undoes itself', () => {
    const key = fc.uint8Array({ minLength: 1, maxLength: 32 });
    fc.assert(
      fc.property(key, fc.uint8Array({ maxLength: 600 }), (bytes, data) => {
        assert.deepEqual(plain(rc4(bytes, rc4(bytes, data))), plain(data));
      }),
    );
  });
});
