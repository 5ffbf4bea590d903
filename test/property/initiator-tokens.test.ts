/** What an acceptor may see of any bytes: nothing that a look of another kind does not find Kerberos in. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { foreignToken } from '../../src/auth/kerberos/initiator-token.ts';
import { encodeElement, encodeOid, TAG } from '../../src/auth/spnego/der.ts';
import { encodeNegTokenInit, OID } from '../../src/auth/spnego/tokens.ts';
import { damaged } from './damaged.ts';

const RUNS = { numRuns: 3_000 };

const KRB5 = encodeElement(
  TAG.APPLICATION_0,
  encodeOid(OID.KRB5),
  Buffer.from([1, 0]),
  encodeElement(0x6e, Buffer.from('a request of some length')),
);
const SEEDS = [
  KRB5,
  encodeNegTokenInit({ mechTypes: [OID.KRB5], mechToken: KRB5 }),
  encodeNegTokenInit({ mechTypes: [OID.MS_KRB5, OID.KRB5, OID.NTLM], mechToken: KRB5 }),
  encodeNegTokenInit({ mechTypes: [OID.NTLM, OID.KRB5], mechToken: Buffer.from('NTLMSSP\0') }),
];

/** `1.2.840.113554.1.2.2` and `1.2.840.48018.1.2.2`, as they lie in tokens, then the id and an AP-REQ. */
const IN_BYTES = /(?:2a864886f712010202|2a864882f712010202)01006e/;

describe('a look into a token', () => {
  test('ends on any bytes, and finds Kerberos only where its bytes are', () => {
    const any = fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged(SEEDS));
    fc.assert(
      fc.property(any, (token) => {
        if (foreignToken(token) !== undefined) return;
        assert.match(Buffer.from(token).toString('hex'), IN_BYTES);
        assert.ok(!Buffer.from(token).subarray(0, 40).includes('NTLMSSP'));
      }),
      RUNS,
    );
  });

  test('finds it in every token that is whole', () => {
    for (const seed of SEEDS.slice(0, 3)) assert.equal(foreignToken(seed), undefined);
  });
});
