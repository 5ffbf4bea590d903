/** hostile-inputs A12 to A16: SPNEGO tokens that no honest server sends, and what ends there. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { judgeFinalAnswer } from '../../src/auth/handshake.ts';
import { contextTag, encodeElement, encodeOid, TAG } from '../../src/auth/spnego/der.ts';
import {
  decodeNegToken,
  encodeMechTypes,
  encodeNegTokenInit,
  encodeNegTokenResp,
  OID,
} from '../../src/auth/spnego/tokens.ts';
import { parseChallenges } from '../../src/http/challenge.ts';
import { hex } from '../spec/vectors.ts';
import {
  challengeToken,
  CLIENT_MIC,
  completed,
  newSpnegoContext,
  proxyError,
  respOf,
  SERVER_MIC,
  SIGNING_CHALLENGE,
} from '../unit/auth/spnego/fixture.ts';

const refused = proxyError('challenge-malformed');

/** A context refuses the token after its first one, as malformed, and is not complete. */
function refuses(token: Uint8Array, code = refused): void {
  const context = newSpnegoContext();
  context.step();
  assert.throws(() => context.step(token), code);
  assert.equal(context.complete, false);
}

const resp = (...elements: Uint8Array[]): Buffer =>
  encodeElement(contextTag(1), encodeElement(TAG.SEQUENCE, ...elements));
const init = (...elements: Uint8Array[]): Buffer =>
  encodeElement(
    TAG.APPLICATION_0,
    encodeOid(OID.SPNEGO),
    encodeElement(contextTag(0), encodeElement(TAG.SEQUENCE, ...elements)),
  );
const at = (number: number, ...inner: Uint8Array[]): Buffer =>
  encodeElement(contextTag(number), ...inner);

const state = (value: number): Buffer => at(0, hex(`0a01${value.toString(16).padStart(2, '0')}`));
const token = at(2, encodeElement(TAG.OCTET_STRING, SIGNING_CHALLENGE));
const good = resp(state(1), token);

function nested(depth: number): Buffer {
  let inner: Buffer = Buffer.from('0400', 'hex');
  for (let level = 0; level < depth; level += 1) inner = encodeElement(TAG.SEQUENCE, inner);
  return inner;
}

describe('A12: DER', () => {
  test('what these tests build is otherwise good', () => {
    assert.equal(respOf(good).state, 'accept-incomplete');
    const context = newSpnegoContext();
    context.step();
    assert.ok(context.step(good));
    assert.equal(context.complete, true);
    const list = decodeNegToken(init(at(0, encodeMechTypes([OID.NTLM]))));
    assert.equal(list.kind === 'init' && list.mechTypes[0], OID.NTLM);
  });

  const malformed: Readonly<Record<string, Buffer>> = {
    'nothing at all': Buffer.alloc(0),
    'an indefinite length outside': hex('a1803000000'.padEnd(12, '0')),
    'an indefinite length inside': resp(hex('a0800a01010000')),
    'a length of 2^32 - 1': hex('a184ffffffff3000'),
    'five length bytes': hex('a185000000000230 00'.replaceAll(' ', '')),
    'a length past the end': good.subarray(0, good.length - 1),
    'trailing bytes': Buffer.concat([good, hex('00')]),
    'trailing bytes behind the sequence': encodeElement(
      contextTag(1),
      encodeElement(TAG.SEQUENCE, state(1), token),
      hex('00'),
    ),
    'trailing bytes inside an element': resp(at(0, hex('0a0101'), hex('00')), token),
    'a NegTokenResp that is no sequence': encodeElement(contextTag(1), hex('0400')),
    'elements of other tags': resp(hex('0a0101')),
    'elements out of order': resp(token, state(1)),
    'an element twice': resp(state(1), state(1), token),
    'a negState of two bytes': resp(at(0, hex('0a020001')), token),
    'a negState without a byte': resp(at(0, hex('0a00')), token),
    'an unknown negState': resp(state(4), token),
    'a negState that is an integer': resp(at(0, hex('020101')), token),
    'a responseToken that is no octet string': resp(at(2, hex('300000')), token),
    'a mechListMIC that is no octet string': resp(state(1), token, at(3, hex('3000'))),
    'an empty object identifier': resp(at(1, hex('0600')), token),
    'an object identifier cut off': resp(at(1, hex('06022a86')), token),
    'an object identifier of another type': resp(at(1, hex('04012a')), token),
    'nesting of 10,000': resp(at(2, nested(10_000))),
    'nesting of 10,000 outside': nested(10_000),
    'an empty GSS-API header': hex('6000'),
    'a GSS-API header of Kerberos': encodeElement(
      TAG.APPLICATION_0,
      encodeOid(OID.KRB5),
      at(0, encodeElement(TAG.SEQUENCE, at(0, encodeMechTypes([OID.NTLM])))),
    ),
    'an element that is not of the context class': resp(
      state(1),
      token,
      encodeElement(0xe4, hex('0400')),
    ),
    'a GSS-API header around a NegTokenResp': encodeElement(
      TAG.APPLICATION_0,
      encodeOid(OID.SPNEGO),
      good,
    ),
  };
  for (const [name, bytes] of Object.entries(malformed)) {
    test(`${name} is refused`, () => {
      assert.throws(() => decodeNegToken(bytes), refused);
      refuses(bytes);
    });
  }

  const lists: Readonly<Record<string, Buffer>> = {
    'without a list': init(token),
    'with an empty list': init(at(0, hex('3000'))),
    'with a list of something else': init(at(0, hex('30020400'))),
    'with an empty object identifier': init(at(0, hex('30020600'))),
    'with a list of 65 mechanisms': init(at(0, encodeMechTypes(Array(65).fill(OID.NTLM)))),
    'with reqFlags that are no bit string': init(
      at(0, encodeMechTypes([OID.NTLM])),
      at(1, hex('020104')),
    ),
    'with hints that run over': init(at(0, encodeMechTypes([OID.NTLM])), at(3, hex('3002a005'))),
  };
  for (const [name, bytes] of Object.entries(lists)) {
    test(`a NegTokenInit ${name} is refused`, () => {
      assert.throws(() => decodeNegToken(bytes), refused);
    });
  }

  test('elements of later versions are passed over, without a look inside', () => {
    const more = resp(state(1), token, at(4, nested(3)), at(9, hex('ffff')));
    assert.equal(respOf(more).state, 'accept-incomplete');
  });

  test('a second NegTokenInit in mid-exchange is refused', () => {
    refuses(encodeNegTokenInit({ mechTypes: [OID.NTLM], mechToken: SIGNING_CHALLENGE }));
    refuses(encodeNegTokenInit({ mechTypes: [OID.KRB5, OID.NTLM] }));
  });

  test('a token of 1 MiB costs linear time, whatever is in it', () => {
    const many = Buffer.concat(Array.from({ length: 50_000 }, () => at(2, hex('0400'))));
    const started = process.cpuUsage().user;
    assert.throws(() => decodeNegToken(resp(many)), refused);
    assert.throws(() => decodeNegToken(resp(at(2, Buffer.alloc(1024 * 1024)))), refused);
    assert.throws(() => decodeNegToken(init(at(0, encodeElement(TAG.SEQUENCE, many)))), refused);
    assert.ok(process.cpuUsage().user - started < 1_000_000);
  });
});

describe('A13: answers to NEGOTIATE', () => {
  test('completed before the login is an error, with a token or without', () => {
    refuses(encodeNegTokenResp({ state: 'accept-completed' }));
    refuses(encodeNegTokenResp({ state: 'accept-completed', mech: OID.NTLM }));
    refuses(encodeNegTokenResp({ state: 'accept-completed', responseToken: SIGNING_CHALLENGE }));
  });

  test('a mechListMIC that repeats the token is ignored, any other is no signature yet', () => {
    const echo = { responseToken: SIGNING_CHALLENGE, mechListMic: SIGNING_CHALLENGE };
    const context = newSpnegoContext();
    context.step();
    const answer = respOf(context.step(encodeNegTokenResp(echo)));
    assert.deepEqual(Buffer.from(answer.mechListMic ?? []), CLIENT_MIC);
    refuses(encodeNegTokenResp({ ...echo, mechListMic: SERVER_MIC }));
    refuses(encodeNegTokenResp({ ...echo, mechListMic: Buffer.alloc(0) }));
  });

  test('a token that is no CHALLENGE is refused, in SPNEGO and bare', () => {
    for (const type of [1, 3]) {
      const message = Buffer.from(SIGNING_CHALLENGE);
      message.writeUInt32LE(type, 8);
      refuses(message);
      refuses(challengeToken(message));
    }
    refuses(challengeToken(Buffer.from('NTLMSSP\0')));
    refuses(Buffer.from('NTLMSSP\0'));
    refuses(challengeToken(encodeNegTokenResp({ responseToken: SIGNING_CHALLENGE })));
  });
});

describe('A14: what status and token say apart', () => {
  const asks = (bytes: Uint8Array) =>
    parseChallenges([`Negotiate ${Buffer.from(bytes).toString('base64')}`]);
  const reject = encodeNegTokenResp({ state: 'reject' });
  const done = encodeNegTokenResp({ state: 'accept-completed', mechListMic: SERVER_MIC });

  test('200 with a rejection: access was given, but the answer is not believed', () => {
    assert.equal(judgeFinalAnswer('negotiate', 200, asks(reject)), 'accepted');
    const context = completed({ mutual: 'required' });
    assert.throws(() => context.finish(reject), proxyError('mutual-failed'));
  });

  test('401 with completed: the credential is good, this request is denied', () => {
    assert.equal(judgeFinalAnswer('negotiate', 401, asks(done)), 'denied');
    completed({ mutual: 'required' }).finish(done);
  });
});

test('A15: a wrong mechListMIC of the final answer is not believed, whichever byte is wrong', () => {
  for (let index = 0; index < SERVER_MIC.length; index += 1) {
    const mechListMic = Buffer.from(SERVER_MIC);
    mechListMic[index] = (mechListMic[index] ?? 0) ^ 0x80;
    const final = encodeNegTokenResp({ state: 'accept-completed', mechListMic });
    const context = completed({ mutual: 'optional' });
    assert.throws(() => context.finish(final), proxyError('mutual-failed'));
  }
  for (const bytes of [0, 15, 17]) {
    const mechListMic = Buffer.concat([SERVER_MIC, hex('00')]).subarray(0, bytes);
    const final = encodeNegTokenResp({ state: 'accept-completed', mechListMic });
    const context = completed({ mutual: 'optional' });
    assert.throws(() => context.finish(final), proxyError('mutual-failed'));
  }
});

test('A16: NEGOEX, Kerberos and unknown mechanisms were not offered, so they are no choice', () => {
  for (const mech of [OID.NEGOEX, OID.KRB5, OID.MS_KRB5, OID.SPNEGO, '1.2.3.4']) {
    for (const negState of ['request-mic', 'accept-incomplete', undefined] as const) {
      refuses(encodeNegTokenResp({ state: negState, mech }));
      refuses(encodeNegTokenResp({ state: negState, mech, responseToken: SIGNING_CHALLENGE }));
    }
  }
});
