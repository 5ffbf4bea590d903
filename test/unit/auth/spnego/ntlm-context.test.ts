import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FLAG, hasFlag } from '../../../../src/auth/ntlm/fields.ts';
import {
  decodeAuthenticate,
  decodeNegotiate,
  MIC_OFFSET,
} from '../../../../src/auth/ntlm/messages.ts';
import {
  hmacMd5,
  messageIntegrityCode,
  ntowfv1,
  ntowfv2,
} from '../../../../src/auth/ntlm/ntlmv2.ts';
import { rc4 } from '../../../../src/auth/ntlm/rc4.ts';
import { NtlmSigner } from '../../../../src/auth/ntlm/signing.ts';
import {
  encodeMechTypes,
  encodeNegTokenInit,
  encodeNegTokenResp,
  OID,
} from '../../../../src/auth/spnego/tokens.ts';
import { CHALLENGE, CHALLENGE_FLAGS, newContext, PASSWORD } from '../ntlm/fixture.ts';
import {
  challengeOf,
  challengeToken,
  CLIENT_MIC,
  completed,
  initOf,
  newSpnegoContext,
  proxyError,
  respOf,
  SERVER_MIC,
  SESSION_KEY,
  SIGNING_CHALLENGE,
  SIGNING_FLAGS,
} from './fixture.ts';

const hexOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes && Buffer.from(bytes).toString('hex');

/** Runs a login and takes its last token apart. */
function answer(token: Uint8Array, options: Parameters<typeof newSpnegoContext>[0] = {}) {
  const context = newSpnegoContext(options);
  const negotiate = initOf(context.step()).mechToken ?? assert.fail('no NEGOTIATE');
  const resp = respOf(context.step(token));
  const bytes = Buffer.from(resp.responseToken ?? assert.fail('no AUTHENTICATE'));
  const message = decodeAuthenticate(bytes) ?? assert.fail('AUTHENTICATE not decoded');
  const mic = bytes.subarray(MIC_OFFSET, MIC_OFFSET + 16);
  return { context, negotiate, resp, bytes, message, mic };
}

describe('the first token', () => {
  test('offers NTLM alone, without reqFlags, and is not the last', () => {
    const context = newSpnegoContext();
    const token = context.step();
    const init = initOf(token);
    assert.deepEqual(init.mechTypes, [OID.NTLM]);
    assert.equal(init.mechListMic, undefined);
    assert.equal(hexOf(encodeNegTokenInit(init)), hexOf(token));
    assert.equal(context.complete, false);
    assert.equal(context.scheme, 'Negotiate');
  });

  test('carries a NEGOTIATE message that offers signatures and key exchange', () => {
    const message = initOf(newSpnegoContext().step()).mechToken;
    assert.equal(message?.length, 40);
    assert.equal(message && decodeNegotiate(message)?.flags, 0xe2088217);
  });

  test('without signing it offers what the scheme NTLM offers', () => {
    const message = initOf(newSpnegoContext({ signing: false }).step()).mechToken;
    assert.equal(hexOf(message), hexOf(newContext().step()));
  });
});

describe('the answer to a challenge', () => {
  test('is a NegTokenResp with AUTHENTICATE and the checksum of the list, and nothing else', () => {
    const { context, resp } = answer(challengeToken());
    assert.equal(hexOf(resp.mechListMic), hexOf(CLIENT_MIC));
    assert.deepEqual([resp.state, resp.mech], [undefined, undefined]);
    assert.equal(context.complete, true);
  });

  test('exchanges a random key: the field is it under the session base key, the MIC runs under it', () => {
    const { message, bytes, negotiate, mic } = answer(challengeToken());
    const key = ntowfv2(ntowfv1(PASSWORD), 'User', 'Domain');
    const base = hmacMd5(key, message.ntResponse.subarray(0, 16));
    assert.equal(hexOf(rc4(base, message.sessionKey)), hexOf(SESSION_KEY));
    const cleared = Buffer.from(bytes);
    cleared.fill(0, MIC_OFFSET, MIC_OFFSET + 16);
    const made = messageIntegrityCode(SESSION_KEY, negotiate, SIGNING_CHALLENGE, cleared);
    assert.equal(hexOf(mic), hexOf(made));
  });

  test('agrees to what both sides want', () => {
    const flags = answer(challengeToken()).message.flags;
    assert.equal(flags, (SIGNING_FLAGS & 0xe2088217) >>> 0);
  });

  test('a server that signs without key exchange gets the plain checksum and no key', () => {
    const challenge = challengeOf((SIGNING_FLAGS & ~FLAG.KEY_EXCH) >>> 0);
    const { resp, message, bytes, mic, negotiate } = answer(challengeToken(challenge));
    assert.equal(message.sessionKey.length, 0);
    assert.equal(resp.mechListMic?.length, 16);
    const key = ntowfv2(ntowfv1(PASSWORD), 'User', 'Domain');
    const base = hmacMd5(key, message.ntResponse.subarray(0, 16));
    const cleared = Buffer.from(bytes);
    cleared.fill(0, MIC_OFFSET, MIC_OFFSET + 16);
    assert.equal(hexOf(messageIntegrityCode(base, negotiate, challenge, cleared)), hexOf(mic));
    const signer = new NtlmSigner(base, message.flags);
    const list = encodeMechTypes([OID.NTLM]);
    assert.equal(hexOf(resp.mechListMic), hexOf(signer.sign('client-to-server', list)));
  });

  test('a server that does not sign, or signs the old way, gets no checksum and no key', () => {
    const unsigned = [
      CHALLENGE_FLAGS,
      (CHALLENGE_FLAGS | FLAG.KEY_EXCH) >>> 0,
      (SIGNING_FLAGS & ~FLAG.EXTENDED_SESSIONSECURITY) >>> 0,
    ];
    for (const flags of unsigned) {
      const { resp, message } = answer(challengeToken(challengeOf(flags)));
      assert.equal(resp.mechListMic, undefined, flags.toString(16));
      assert.equal(message.sessionKey.length, 0);
      assert.equal(hasFlag(message.flags, FLAG.SIGN), false);
      assert.equal(hasFlag(message.flags, FLAG.KEY_EXCH), false);
    }
  });

  test('without a MIC in AUTHENTICATE the list is signed only when asked for', () => {
    const challenge = challengeOf((SIGNING_FLAGS & ~FLAG.TARGET_INFO) >>> 0);
    assert.equal(answer(challengeToken(challenge)).resp.mechListMic, undefined);
    const asked = encodeNegTokenResp({ state: 'request-mic', responseToken: challenge });
    assert.equal(hexOf(answer(asked).resp.mechListMic), hexOf(CLIENT_MIC));
  });

  test('a signature that is asked for and was not agreed on ends the login', () => {
    const context = newSpnegoContext();
    context.step();
    const asked = encodeNegTokenResp({ state: 'request-mic', responseToken: CHALLENGE });
    assert.throws(() => context.step(asked), proxyError('handshake-failed'));
  });

  test('a reply may name NTLM, or nothing at all but the token', () => {
    const named = encodeNegTokenResp({ mech: OID.NTLM, responseToken: SIGNING_CHALLENGE });
    const bare = encodeNegTokenResp({ responseToken: SIGNING_CHALLENGE });
    for (const token of [named, bare]) {
      assert.equal(hexOf(answer(token).resp.mechListMic), hexOf(CLIENT_MIC));
    }
  });

  test('NTLMSSP without SPNEGO around it is answered in kind', () => {
    const context = newSpnegoContext();
    context.step();
    const message = decodeAuthenticate(context.step(SIGNING_CHALLENGE));
    assert.equal(message?.user, 'User');
    assert.equal(context.complete, true);
  });

  test('three client tokens: NEGOTIATE goes out again, once, when the first was not looked at', () => {
    for (const state of ['request-mic', 'accept-incomplete'] as const) {
      const context = newSpnegoContext();
      const first = initOf(context.step()).mechToken;
      const again = respOf(context.step(encodeNegTokenResp({ state, mech: OID.NTLM })));
      assert.equal(hexOf(again.responseToken), hexOf(first));
      assert.equal(context.complete, false);
      const last = respOf(context.step(challengeToken()));
      assert.equal(hexOf(last.mechListMic), hexOf(CLIENT_MIC));
      assert.equal(context.complete, true);
    }
  });

  test('not a second time, and then not in other framing either', () => {
    for (const token of [encodeNegTokenResp({ state: 'accept-incomplete' }), SIGNING_CHALLENGE]) {
      const context = newSpnegoContext();
      context.step();
      context.step(encodeNegTokenResp({ state: 'accept-incomplete' }));
      assert.throws(() => context.step(token), proxyError('challenge-malformed'));
    }
  });

  test('R32 nothing is answered once the last token is out', () => {
    const context = completed();
    const empty = encodeNegTokenResp({ state: 'accept-incomplete' });
    for (const token of [challengeToken(), SIGNING_CHALLENGE, empty]) {
      assert.throws(() => context.step(token), proxyError('challenge-malformed'));
    }
  });

  test('the first step takes no token, and later ones need one', () => {
    const early = newSpnegoContext();
    assert.throws(() => early.step(challengeToken()), proxyError('challenge-malformed'));
    const late = newSpnegoContext();
    late.step();
    assert.throws(() => late.step(), proxyError('challenge-malformed'));
  });

  test('a server that rejects NTLM has judged no credential', () => {
    const context = newSpnegoContext();
    context.step();
    const reject = encodeNegTokenResp({ state: 'reject' });
    assert.throws(() => context.step(reject), proxyError('handshake-failed'));
    assert.equal(context.complete, false);
  });
});

describe('the final token (R36)', () => {
  const signed = encodeNegTokenResp({ state: 'accept-completed', mechListMic: SERVER_MIC });
  const unsigned = encodeNegTokenResp({ state: 'accept-completed' });

  test('a right checksum of the server satisfies every policy', () => {
    for (const mutual of ['off', 'optional', 'required'] as const) {
      completed({ mutual }).finish(signed);
    }
  });

  test('no token, or one without a checksum, is enough unless required', () => {
    for (const token of [undefined, unsigned]) {
      completed({ mutual: 'off' }).finish(token);
      completed({ mutual: 'optional' }).finish(token);
      const context = completed({ mutual: 'required' });
      assert.throws(() => context.finish(token), proxyError('mutual-failed'));
    }
  });

  const bad: Readonly<Record<string, Uint8Array>> = {
    'a wrong checksum': encodeNegTokenResp({
      state: 'accept-completed',
      mechListMic: CLIENT_MIC,
    }),
    'a rejection': encodeNegTokenResp({ state: 'reject' }),
    'a rejection with a right checksum': encodeNegTokenResp({
      state: 'reject',
      mechListMic: SERVER_MIC,
    }),
    'a further mechanism token': encodeNegTokenResp({
      state: 'accept-completed',
      responseToken: SIGNING_CHALLENGE,
      mechListMic: SERVER_MIC,
    }),
    'another mechanism': encodeNegTokenResp({
      state: 'accept-completed',
      mech: OID.KRB5,
      mechListMic: SERVER_MIC,
    }),
    'a NegTokenInit': encodeNegTokenInit({ mechTypes: [OID.NTLM] }),
    'a malformed token': Buffer.from('a1'),
    'an empty token': Buffer.alloc(0),
    'a bare NTLM message': SIGNING_CHALLENGE,
  };
  for (const [name, token] of Object.entries(bad)) {
    test(`${name} is not believed, but nobody looks when mutual is off`, () => {
      for (const mutual of ['optional', 'required'] as const) {
        const context = completed({ mutual });
        assert.throws(() => context.finish(token), proxyError('mutual-failed'));
      }
      completed({ mutual: 'off' }).finish(token);
    });
  }

  test('a checksum without an agreement to sign is not believed', () => {
    const context = newSpnegoContext({ mutual: 'optional' });
    context.step();
    context.step(challengeToken(CHALLENGE));
    assert.throws(() => context.finish(signed), proxyError('mutual-failed'));
  });

  test('A13: an old server repeats the token as checksum, which proves nothing', () => {
    const echo = encodeNegTokenResp({
      state: 'accept-completed',
      responseToken: SERVER_MIC,
      mechListMic: SERVER_MIC,
    });
    completed({ mutual: 'optional' }).finish(echo);
    const context = completed({ mutual: 'required' });
    assert.throws(() => context.finish(echo), proxyError('mutual-failed'));
  });

  test('after bare NTLMSSP there is no last word of the server', () => {
    const bare = (mutual: 'optional' | 'required') => {
      const context = newSpnegoContext({ mutual });
      context.step();
      context.step(SIGNING_CHALLENGE);
      return context;
    };
    bare('optional').finish(undefined);
    assert.throws(() => bare('required').finish(undefined), proxyError('mutual-failed'));
    assert.throws(() => bare('optional').finish(signed), proxyError('mutual-failed'));
  });

  test('NTLM itself takes no final token, and cannot meet `required`', () => {
    const bare = (mutual?: 'off' | 'optional' | 'required') => {
      const context = newContext(mutual && { mutual });
      context.step();
      context.step(CHALLENGE);
      return context;
    };
    for (const mutual of [undefined, 'optional'] as const) {
      bare(mutual).finish(undefined);
      assert.throws(() => bare(mutual).finish(signed), proxyError('mutual-failed'));
    }
    for (const token of [undefined, signed]) {
      bare('off').finish(token);
      assert.throws(() => bare('required').finish(token), proxyError('mutual-failed'));
    }
  });
});
