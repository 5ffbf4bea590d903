/** NTLM inside Negotiate on the account of MS-NLMP 4.2, with a server that agrees to sign. */
import assert from 'node:assert/strict';

import { FLAG } from '../../../../src/auth/ntlm/fields.ts';
import { encodeChallenge } from '../../../../src/auth/ntlm/messages.ts';
import { AV } from '../../../../src/auth/ntlm/target-info.ts';
import {
  createSpnegoNtlmContext,
  type SpnegoNtlmInitiator,
  type SpnegoNtlmOptions,
} from '../../../../src/auth/spnego/ntlm-context.ts';
import {
  decodeNegToken,
  encodeNegTokenResp,
  type NegTokenInit,
  type NegTokenResp,
} from '../../../../src/auth/spnego/tokens.ts';
import { ProxyError, type ErrorCode } from '../../../../src/errors.ts';
import { hex } from '../../../spec/vectors.ts';
import { CHALLENGE_FLAGS, newIdentity, SERVER_CHALLENGE, TIMESTAMP } from '../ntlm/fixture.ts';

/** Every random byte is 0x55, so the exported session key is the one of the specification. */
export const SESSION_KEY = Buffer.alloc(16, 0x55);

/** Checksums of the list [NTLM] under `SESSION_KEY`, from the vectors. */
export const CLIENT_MIC = hex('0100000022a3984fefbb9c3200000000');
export const SERVER_MIC = hex('010000007dd6da05648a73ae00000000');

/** What a server answers when it signs. */
export const SIGNING_FLAGS = (CHALLENGE_FLAGS | FLAG.SIGN | FLAG.KEY_EXCH | FLAG.KEY_128) >>> 0;

/** A challenge with these flags; without TARGET_INFO among them it has no pairs. */
export function challengeOf(flags: number): Buffer {
  const value = Buffer.from('LAB', 'utf16le');
  return encodeChallenge({
    flags,
    serverChallenge: SERVER_CHALLENGE,
    targetName: 'LAB',
    targetInfo: [
      { id: AV.NB_DOMAIN_NAME, value },
      { id: AV.TIMESTAMP, value: TIMESTAMP },
    ],
  });
}

export const SIGNING_CHALLENGE = challengeOf(SIGNING_FLAGS);

/** The token with which a server passes a challenge on. */
export function challengeToken(challenge: Uint8Array = SIGNING_CHALLENGE): Buffer {
  return encodeNegTokenResp({ state: 'accept-incomplete', responseToken: challenge });
}

export function newSpnegoContext(options: Partial<SpnegoNtlmOptions> = {}): SpnegoNtlmInitiator {
  return createSpnegoNtlmContext({
    identity: newIdentity(),
    spn: 'HTTP/server',
    bindings: undefined,
    wall: () => Date.UTC(2026, 0, 1),
    random: (bytes) => Buffer.alloc(bytes, 0x55),
    mutual: 'optional',
    ...options,
  });
}

/** A context whose last token is out. */
export function completed(options: Partial<SpnegoNtlmOptions> = {}): SpnegoNtlmInitiator {
  const context = newSpnegoContext(options);
  context.step();
  context.step(challengeToken());
  assert.ok(context.complete);
  return context;
}

/** The NegTokenInit in `token`. */
export function initOf(token: Uint8Array): NegTokenInit {
  const decoded = decodeNegToken(token);
  return decoded.kind === 'init' ? decoded : assert.fail('not a NegTokenInit');
}

/** The NegTokenResp in `token`. */
export function respOf(token: Uint8Array): NegTokenResp {
  const decoded = decodeNegToken(token);
  return decoded.kind === 'resp' ? decoded : assert.fail('not a NegTokenResp');
}

/** For `assert.throws` and `assert.rejects`: this code, a short message, no token in it, no retry. */
export function proxyError(code: ErrorCode): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof ProxyError, String(error));
    assert.equal(error.code, code);
    assert.equal(error.retry, 'never');
    assert.ok(error.message.length < 100);
    assert.ok(!/NTLMSSP|TlRM|4e544c4d/i.test(error.message));
    return true;
  };
}
