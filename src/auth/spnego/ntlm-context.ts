/**
 * The initiator of NTLM inside SPNEGO (RFC 4178, MS-SPNG), in the framing of Windows clients.
 *
 *     NegTokenInit [NTLM] NEGOTIATE  ->
 *                                    <-  NegTokenResp CHALLENGE          or CHALLENGE alone
 *     NegTokenResp AUTHENTICATE, MIC ->                                  or AUTHENTICATE alone
 *                                    <-  NegTokenResp completed, MIC     on the final answer
 *
 * NTLM is the only mechanism offered, so a choice is no choice: whatever else a server names is refused.
 * The list of mechanisms is signed (mechListMIC) whenever the AUTHENTICATE message carries a MIC and
 * signatures were agreed on: Samba and Windows then insist on it although RFC 4178 does not.
 */
import { ProxyError, type ErrorCode } from '../../errors.ts';
import { createNtlmContext, type NtlmContextOptions, type NtlmInitiator } from '../ntlm/context.ts';
import { isMessage } from '../ntlm/fields.ts';
import type { MutualPolicy, SecurityContext } from '../security-context.ts';
import {
  decodeNegToken,
  encodeMechTypes,
  encodeNegTokenInit,
  encodeNegTokenResp,
  OID,
  type NegTokenResp,
} from './tokens.ts';

export interface SpnegoNtlmOptions extends NtlmContextOptions {
  readonly mutual: MutualPolicy;
}

/** An initiator that answers at once. */
export interface SpnegoNtlmInitiator extends SecurityContext {
  step(token?: Uint8Array): Uint8Array;
  finish(token: Uint8Array | undefined): void;
}

/**
 * NTLM under the scheme Negotiate, for one connection. With `signing: false` nothing is signed, and
 * no final answer proves anything.
 *
 * `step` throws `challenge-malformed`, and `handshake-failed` when the server rejects the mechanism or
 * wants a signature that was not agreed on; `finish` throws `mutual-failed` (R36).
 */
export function createSpnegoNtlmContext(options: SpnegoNtlmOptions): SpnegoNtlmInitiator {
  return new SpnegoNtlmContext(options);
}

const MECHANISMS = [OID.NTLM];
const MECHANISM_LIST = encodeMechTypes(MECHANISMS);

class SpnegoNtlmContext implements SpnegoNtlmInitiator {
  readonly scheme = 'Negotiate';
  readonly #ntlm: NtlmInitiator;
  readonly #mutual: MutualPolicy;
  #negotiate: Uint8Array | undefined;
  /** The server takes and sends NTLM messages without SPNEGO around them. */
  #bare = false;
  #micWanted = false;
  #sentAgain = false;

  constructor({ mutual, ...ntlm }: SpnegoNtlmOptions) {
    this.#ntlm = createNtlmContext({ signing: true, ...ntlm });
    this.#mutual = mutual;
  }

  get complete(): boolean {
    return this.#ntlm.complete;
  }

  step(token?: Uint8Array): Uint8Array {
    if (this.#negotiate === undefined) {
      this.#negotiate = this.#ntlm.step(token);
      return encodeNegTokenInit({ mechTypes: MECHANISMS, mechToken: this.#negotiate });
    }
    if (token === undefined || this.complete) throw malformed('a token was not expected');
    if (!isNtlm(token)) return this.#answer(replyIn(token), this.#negotiate);
    if (this.#sentAgain) throw malformed('the framing changes within the login');
    this.#bare = true;
    return this.#ntlm.step(token);
  }

  finish(token: Uint8Array | undefined): void {
    if (this.#mutual === 'off') return;
    const proven = token !== undefined && this.#isProof(token);
    if (!proven && this.#mutual === 'required') throw untrusted('no signature of the server came');
  }

  #answer(reply: NegTokenResp, negotiate: Uint8Array): Uint8Array {
    const { state, responseToken, mechListMic } = reply;
    if (state === 'reject') throw failure('handshake-failed', 'the server rejects NTLM');
    if (state === 'accept-completed') throw malformed('completed before the login');
    if (state === 'request-mic') this.#micWanted = true;
    if (responseToken === undefined || responseToken.length === 0) {
      // The optimistic token was not looked at: it goes out again, once, as the mechanism's first.
      if (this.#sentAgain) throw malformed('no CHALLENGE came');
      this.#sentAgain = true;
      return encodeNegTokenResp({ responseToken: negotiate });
    }
    // There is no key yet that could have signed; old servers put the token itself here.
    if (mechListMic !== undefined && !isSame(mechListMic, responseToken)) {
      throw malformed('a signature before the login');
    }
    const authenticate = this.#ntlm.step(responseToken);
    return encodeNegTokenResp({ responseToken: authenticate, mechListMic: this.#ownMic() });
  }

  #ownMic(): Buffer | undefined {
    const { signer, hasMic } = this.#ntlm;
    if (signer !== undefined && (hasMic || this.#micWanted)) {
      return signer.sign('client-to-server', MECHANISM_LIST);
    }
    if (!this.#micWanted) return undefined;
    throw failure('handshake-failed', 'the server wants a signature and agreed on none');
  }

  /** False when the token says nothing of who sent it; throws when it speaks against the server. */
  #isProof(token: Uint8Array): boolean {
    if (this.#bare) throw untrusted('a token after the login had ended');
    const { state, responseToken = NOTHING, mechListMic } = finalReplyIn(token);
    if (state === 'reject') throw untrusted('the server rejects the login');
    if (responseToken.length > 0) {
      if (mechListMic !== undefined && isSame(mechListMic, responseToken)) return false;
      throw untrusted('a token after the login had ended');
    }
    if (mechListMic === undefined) return false;
    if (this.#ntlm.signer?.verify('server-to-client', MECHANISM_LIST, mechListMic) === true) {
      return true;
    }
    throw untrusted('the signature of the server is wrong');
  }
}

const NOTHING = new Uint8Array(0);

const isNtlm = (token: Uint8Array): boolean =>
  isMessage(token, 1) || isMessage(token, 2) || isMessage(token, 3);

const isSame = (left: Uint8Array, right: Uint8Array): boolean => Buffer.compare(left, right) === 0;

function replyIn(token: Uint8Array): NegTokenResp {
  const reply = decodeNegToken(token);
  if (reply.kind === 'init') throw malformed('the server starts to negotiate');
  // Only the first reply has to name the mechanism, and some servers never do.
  if (reply.mech !== undefined && reply.mech !== OID.NTLM) {
    throw malformed('the server chose a mechanism that was not offered');
  }
  return reply;
}

function finalReplyIn(token: Uint8Array): NegTokenResp {
  try {
    return replyIn(token);
  } catch (cause) {
    throw untrusted('the final token is malformed', cause);
  }
}

const malformed = (reason: string): ProxyError => failure('challenge-malformed', reason);

const untrusted = (reason: string, cause?: unknown): ProxyError =>
  failure('mutual-failed', reason, cause);

function failure(code: ErrorCode, reason: string, cause?: unknown): ProxyError {
  return new ProxyError(code, `NTLM in Negotiate: ${reason}`, {
    side: 'upstream',
    stage: 'handshake',
    cause,
  });
}
