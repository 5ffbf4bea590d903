/** The reason that an acceptor gives for refusing a Kerberos token. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextTag, encodeElement, encodeOid } from '../../../../src/auth/spnego/der.ts';
import { KERBEROS_ERROR, kerberosErrorIn } from '../../../../src/auth/spnego/kerberos-error.ts';
import { encodeNegTokenResp, OID } from '../../../../src/auth/spnego/tokens.ts';

const SEQUENCE = 0x30;
const INTEGER = 0x02;
const GENERALIZED_TIME = 0x18;

/** RFC 4120 5.9.1, with the fields before the code as MIT Kerberos sends them. */
function krbError(code: number): Buffer {
  const field = (number: number, tag: number, ...bytes: number[]): Buffer =>
    encodeElement(contextTag(number), encodeElement(tag, Buffer.from(bytes)));
  const time = encodeElement(GENERALIZED_TIME, Buffer.from('20261130224740Z'));
  const fields = [
    field(0, INTEGER, 5),
    field(1, INTEGER, 30),
    encodeElement(contextTag(4), time),
    field(5, INTEGER, 0),
    field(6, INTEGER, code),
  ];
  return encodeElement(0x7e, encodeElement(SEQUENCE, ...fields));
}

/** RFC 4121 4.1. */
const inGss = (message: Buffer, oid: string, id = [3, 0]): Buffer =>
  encodeElement(0x60, encodeOid(oid), Buffer.from(id), message);

test('the code is found bare, behind the header of GSS-API, and inside SPNEGO', () => {
  const message = krbError(KERBEROS_ERROR.SKEW);
  const token = inGss(message, OID.KRB5);
  const spnego = encodeNegTokenResp({ state: 'reject', mech: OID.KRB5, responseToken: token });
  for (const form of [message, token, spnego]) assert.equal(kerberosErrorIn(form), 37);
  assert.equal(kerberosErrorIn(krbError(KERBEROS_ERROR.TICKET_NOT_YET_VALID)), 33);
});

test('anything else has none', () => {
  const message = krbError(37);
  const others = [
    Buffer.alloc(0),
    message.subarray(0, -1),
    inGss(message, OID.NTLM),
    inGss(message, OID.KRB5, [2, 0]),
    encodeNegTokenResp({ state: 'accept-completed' }),
    encodeNegTokenResp({ state: 'reject', responseToken: Buffer.from('NTLMSSP\0') }),
    Buffer.from([0xa1, 0x03, 0x30]),
  ];
  for (const other of others) assert.equal(kerberosErrorIn(other), undefined);
});

test('damaged tokens have a code or none, and never throw', () => {
  const token = inGss(krbError(37), OID.KRB5);
  const whole = encodeNegTokenResp({ state: 'reject', responseToken: token });
  for (let at = 0; at < whole.length; at += 1) {
    assert.equal(kerberosErrorIn(whole.subarray(0, at)), undefined);
    for (const byte of [0x00, 0x7f, 0x80, 0x84, 0xff]) {
      const damaged = Buffer.from(whole);
      damaged[at] = byte;
      const code = kerberosErrorIn(damaged);
      assert.ok(code === undefined || (code >= 0 && code <= 0xff));
    }
  }
});
