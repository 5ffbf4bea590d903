/** Which tokens of callers an acceptor may see at all (hostile rows A12, A16, A18, A19). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { foreignToken } from '../../../../src/auth/kerberos/initiator-token.ts';
import { encodeElement, encodeOid, TAG } from '../../../../src/auth/spnego/der.ts';
import { encodeNegTokenInit, encodeNegTokenResp, OID } from '../../../../src/auth/spnego/tokens.ts';

const AP_REQ = encodeElement(0x6e, Buffer.from('a request'));
const AP_REP = encodeElement(0x6f, Buffer.from('an answer'));
const REQUEST_ID = Buffer.from([1, 0]);
const NTLM = Buffer.from('NTLMSSP\0\u0001\0\0\0');
const IAKERB = '1.3.6.1.5.2.5';

const gss = (mechanism: string, ...parts: readonly Uint8Array[]): Buffer =>
  encodeElement(TAG.APPLICATION_0, encodeOid(mechanism), ...parts);

const KRB5 = gss(OID.KRB5, REQUEST_ID, AP_REQ);

const offer = (mechTypes: readonly string[], mechToken?: Uint8Array): Buffer =>
  encodeNegTokenInit({ mechTypes, mechToken });

describe('a token that an acceptor may see', () => {
  for (const [name, token] of [
    ['bare Kerberos', KRB5],
    ['bare Kerberos by the other name', gss(OID.MS_KRB5, REQUEST_ID, AP_REQ)],
    ['SPNEGO with Kerberos alone', offer([OID.KRB5], KRB5)],
    ['SPNEGO as Windows writes it', offer([OID.MS_KRB5, OID.KRB5, OID.NEGOEX, OID.NTLM], KRB5)],
  ] as const) {
    test(`is ${name}`, () => {
      assert.equal(foreignToken(token), undefined);
    });
  }
});

describe('a token that no acceptor sees', () => {
  for (const [name, token, reason] of [
    ['nothing', Buffer.alloc(0), /no GSS-API header/],
    ['raw NTLM', NTLM, /no GSS-API header/],
    ['of NTLM', gss(OID.NTLM, NTLM), /another mechanism/],
    ['of IAKERB, which would ask a KDC', gss(IAKERB, REQUEST_ID, AP_REQ), /another mechanism/],
    ['an answer', gss(OID.KRB5, Buffer.from([2, 0]), AP_REP), /no AP-REQ/],
    ['an answer by the id of a request', gss(OID.KRB5, REQUEST_ID, AP_REP), /no AP-REQ/],
    ['a request with bytes behind it', gss(OID.KRB5, REQUEST_ID, AP_REQ, NTLM), /no AP-REQ/],
    ['empty Kerberos', gss(OID.KRB5), /no AP-REQ/],
    ['a second leg', encodeNegTokenResp({ responseToken: KRB5 }), /no GSS-API header/],
    ['NTLM in SPNEGO', offer([OID.NTLM], NTLM), /prefers another/],
    ['NTLM before Kerberos', offer([OID.NTLM, OID.KRB5], NTLM), /prefers another/],
    ['Kerberos behind what nobody knows', offer(['1.2.3.4', OID.KRB5], KRB5), /prefers another/],
    ['NEGOEX', offer([OID.NEGOEX, OID.KRB5], KRB5), /prefers another/],
    ['Kerberos without a token', offer([OID.KRB5]), /without a token/],
    ['NTLM as a token of Kerberos', offer([OID.KRB5], NTLM), /inside is of another/],
    [
      'IAKERB as a token of Kerberos',
      offer([OID.KRB5], gss(IAKERB, AP_REQ)),
      /inside is of another/,
    ],
    ['SPNEGO in SPNEGO', offer([OID.KRB5], offer([OID.KRB5], KRB5)), /inside is of another/],
    ['without mechanisms', offer([]), /malformed SPNEGO/],
    ['with bytes behind it', Buffer.concat([KRB5, NTLM]), /no GSS-API header/],
    ['cut off', offer([OID.KRB5], KRB5).subarray(0, -1), /no GSS-API header/],
    ['of indefinite length', Buffer.from([0x60, 0x80, 0x06, 0x00]), /no GSS-API header/],
    ['with an empty name', Buffer.from([0x60, 0x02, 0x06, 0x00]), /no GSS-API header/],
    ['with an absurd length', Buffer.from('6084ffffffff0600', 'hex'), /no GSS-API header/],
    ['10,000 deep', Buffer.alloc(20_000, Buffer.from([0x60, 0x80])), /no GSS-API header/],
  ] as const) {
    test(`is ${name}`, () => {
      assert.match(foreignToken(token) ?? '', reason);
    });
  }
});
