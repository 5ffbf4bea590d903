/** RFC 4178 4.2 and MS-SPNG 2.2.1: tokens of real peers, and NTLM inside SPNEGO as servers took it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FLAG, hasFlag } from '../../src/auth/ntlm/fields.ts';
import { decodeAuthenticate, decodeChallenge, MIC_OFFSET } from '../../src/auth/ntlm/messages.ts';
import { hmacMd5, messageIntegrityCode, ntowfv1, ntowfv2 } from '../../src/auth/ntlm/ntlmv2.ts';
import { rc4 } from '../../src/auth/ntlm/rc4.ts';
import { NtlmSigner } from '../../src/auth/ntlm/signing.ts';
import { decodeOid, encodeOid, readOnlyTagged, TAG } from '../../src/auth/spnego/der.ts';
import {
  decodeNegToken,
  encodeMechTypes,
  encodeNegTokenInit,
  encodeNegTokenResp,
  OID,
  type NegTokenInit,
  type NegTokenResp,
} from '../../src/auth/spnego/tokens.ts';
import { hex, readVectors } from './vectors.ts';

interface TokenVector {
  name: string;
  hex: string;
  kind: 'init' | 'resp';
  mechTypes?: string[];
  state?: string;
  mech?: string;
  token?: { bytes: number; starts: string };
  mechListMic?: string;
  hintName?: string;
  reencodes: boolean;
}

interface ExchangeVector {
  name: string;
  user: string;
  domain: string;
  password: string;
  init: string;
  challenge: string;
  answer: string;
  final: string;
  sessionKey: string;
  flags: number;
  mechTypes: string;
  clientMic: string | null;
  serverMic: string | null;
}

const vectors = readVectors('spnego.json') as {
  oids: { oid: string; der: string }[];
  tokens: TokenVector[];
  exchanges: ExchangeVector[];
};

const hexOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes && Buffer.from(bytes).toString('hex');

const encode = (token: NegTokenInit | NegTokenResp): Buffer =>
  token.kind === 'init' ? encodeNegTokenInit(token) : encodeNegTokenResp(token);

describe('object identifiers', () => {
  for (const { oid, der } of vectors.oids) {
    test(`${oid}, both ways`, () => {
      assert.equal(hexOf(encodeOid(oid)), der);
      const content = readOnlyTagged(hex(der), TAG.OID) ?? assert.fail('no OID element');
      assert.equal(decodeOid(content), oid);
    });
  }
});

describe('tokens', () => {
  test('there are 11', () => {
    assert.equal(vectors.tokens.length, 11);
  });

  for (const vector of vectors.tokens) {
    test(`${vector.name} is read in full`, () => {
      const token = decodeNegToken(hex(vector.hex));
      assert.equal(token.kind, vector.kind);
      assert.equal(hexOf(token.mechListMic), vector.mechListMic);
      const inner = token.kind === 'init' ? token.mechToken : token.responseToken;
      assert.equal(inner?.length, vector.token?.bytes);
      if (vector.token) assert.ok(hexOf(inner)?.startsWith(vector.token.starts));
      if (token.kind === 'init') {
        assert.deepEqual(token.mechTypes, vector.mechTypes);
        assert.equal(token.hintName, vector.hintName);
      } else {
        assert.equal(token.state, vector.state);
        assert.equal(token.mech, vector.mech);
      }
    });

    if (vector.reencodes) {
      test(`${vector.name} is written back byte for byte`, () => {
        assert.equal(hexOf(encode(decodeNegToken(hex(vector.hex)))), vector.hex);
      });
    }
  }

  test('MS-SPNG: [3] holds hints or the checksum, by the tag inside', () => {
    const hints = decodeNegToken(hex(vectorOf('windows-NegTokenInit2').hex));
    assert.equal(hints.mechListMic, undefined);
    const mic = decodeNegToken(hex(vectorOf('pyspnego-init-all-fields').hex));
    assert.equal(hexOf(mic.mechListMic), '01010101');
    assert.equal(mic.kind === 'init' && mic.hintName, undefined);
  });
});

function vectorOf(name: string): TokenVector {
  return vectors.tokens.find((vector) => vector.name === name) ?? assert.fail(name);
}

for (const vector of vectors.exchanges) {
  describe(vector.name, () => {
    const init = decodeNegToken(hex(vector.init)) as NegTokenInit;
    const answer = decodeNegToken(hex(vector.answer)) as NegTokenResp;
    const final = decodeNegToken(hex(vector.final)) as NegTokenResp;
    const message = decodeAuthenticate(answer.responseToken ?? hex('')) ?? assert.fail('type 3');

    test('both tokens of the client are written back byte for byte', () => {
      assert.equal(hexOf(encode(init)), vector.init);
      assert.equal(hexOf(encode(answer)), vector.answer);
    });

    test('the list of mechanisms is signed as it was sent', () => {
      assert.equal(init.mechTypes[0], OID.NTLM);
      assert.equal(hexOf(encodeMechTypes(init.mechTypes)), vector.mechTypes);
    });

    test('the key, exchanged or not, is the one both sides exported', () => {
      const key = ntowfv2(ntowfv1(vector.password), vector.user, vector.domain);
      const base = hmacMd5(key, message.ntResponse.subarray(0, 16));
      const exchanged = hasFlag(message.flags, FLAG.KEY_EXCH);
      assert.equal(exchanged, vector.clientMic !== null);
      assert.equal(hexOf(exchanged ? rc4(base, message.sessionKey) : base), vector.sessionKey);
    });

    test('the MIC of the AUTHENTICATE message runs under that key', () => {
      const sent = Buffer.from(answer.responseToken ?? []);
      const mic = hexOf(sent.subarray(MIC_OFFSET, MIC_OFFSET + 16));
      sent.fill(0, MIC_OFFSET, MIC_OFFSET + 16);
      const negotiate = init.mechToken ?? assert.fail('no type 1');
      const challenge = hex(vector.challenge);
      const made = messageIntegrityCode(hex(vector.sessionKey), negotiate, challenge, sent);
      assert.equal(hexOf(made), mic);
      assert.ok(decodeChallenge(challenge).targetInfo);
    });

    test('the checksums of both sides are those of MS-NLMP 3.4.4.2', () => {
      assert.equal(final.state, 'accept-completed');
      assert.equal(hexOf(answer.mechListMic) ?? null, vector.clientMic);
      assert.equal(hexOf(final.mechListMic) ?? null, vector.serverMic ?? null);
      if (vector.clientMic === null) return;
      assert.equal(message.flags, vector.flags);
      const signer = new NtlmSigner(hex(vector.sessionKey), message.flags);
      const list = hex(vector.mechTypes);
      assert.equal(hexOf(signer.sign('client-to-server', list)), vector.clientMic);
      assert.equal(hexOf(signer.sign('server-to-client', list)), vector.serverMic);
    });
  });
}
