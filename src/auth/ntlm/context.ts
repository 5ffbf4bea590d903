/**
 * The initiator's NTLM context: NEGOTIATE out, CHALLENGE in, AUTHENTICATE out, and nothing after.
 *
 * NTLMv2 or nothing: whatever the server's flags leave out, no LM and no NTLMv1 response is made. The
 * messages are kept as they crossed the wire, because the MIC runs over those bytes.
 */
import { ProxyError } from '../../errors.ts';
import type { NtlmIdentity } from '../../identity/identity.ts';
import type { SecurityContext } from '../security-context.ts';
import { FLAG, hasFlag, OFFERED_FLAGS } from './fields.ts';
import {
  decodeChallenge,
  encodeAuthenticate,
  encodeNegotiate,
  MIC_OFFSET,
  type ChallengeMessage,
} from './messages.ts';
import { encodeFileTime, messageIntegrityCode, ntlmv2Response, ntowfv2 } from './ntlmv2.ts';
import { AV, encodeTargetInfo, findAv, responseTargetInfo } from './target-info.ts';

export interface NtlmContextOptions {
  readonly identity: NtlmIdentity;
  /** `HTTP/host`; from configuration, never from a caller's Host (R27). */
  readonly spn: string | undefined;
  /** Application data of RFC 5929 for this connection's TLS; undefined sends 16 zero bytes. */
  readonly bindings: Uint8Array | undefined;
  /** Milliseconds since 1970, used when the server sends no timestamp. */
  readonly wall: () => number;
  readonly random: (bytes: number) => Uint8Array;
}

/** An initiator that answers at once. */
export interface NtlmInitiator extends SecurityContext {
  step(token?: Uint8Array): Uint8Array;
  finish(token: Uint8Array | undefined): void;
}

/** An NTLM initiator for one connection. `step` throws `challenge-malformed`. */
export function createNtlmContext(options: NtlmContextOptions): NtlmInitiator {
  return new NtlmContext(options);
}

class NtlmContext implements NtlmInitiator {
  readonly scheme = 'NTLM';
  readonly #options: NtlmContextOptions;
  #negotiate: Buffer | undefined;
  #complete = false;

  constructor(options: NtlmContextOptions) {
    this.#options = options;
  }

  get complete(): boolean {
    return this.#complete;
  }

  step(token?: Uint8Array): Uint8Array {
    if (this.#negotiate === undefined) {
      if (token !== undefined) throw refused('a token before NEGOTIATE was sent');
      this.#negotiate = encodeNegotiate();
      return this.#negotiate;
    }
    if (this.#complete) throw refused('a token after AUTHENTICATE was sent');
    if (token === undefined) throw refused('no CHALLENGE');
    const answer = authenticate(this.#options, this.#negotiate, token);
    this.#complete = true;
    return answer;
  }

  /** NTLM has no word of the server after AUTHENTICATE. */
  finish(token: Uint8Array | undefined): void {
    if (token === undefined) return;
    throw new ProxyError('mutual-failed', 'NTLM: a token after the login had ended', {
      side: 'upstream',
      stage: 'handshake',
    });
  }
}

function authenticate(options: NtlmContextOptions, negotiate: Buffer, token: Uint8Array): Buffer {
  const challenge = decodeChallenge(token);
  const { identity } = options;
  const unicode = hasFlag(challenge.flags, FLAG.UNICODE);
  const names = { domain: identity.domain, user: identity.user, workstation: identity.workstation };
  if (!unicode && !Object.values(names).every(isAscii)) {
    throw refused('the server takes OEM names only, and a name is not ASCII');
  }
  // MS-NLMP asks for a MIC when there is a timestamp; like Windows clients it is written for any target
  // info. Without target info the server cannot know of it.
  const withMic = challenge.targetInfo !== undefined;
  const response = ntlmv2Response({
    key: ntowfv2(identity.ntHash.reveal(), identity.user, identity.domain),
    serverChallenge: challenge.serverChallenge,
    clientChallenge: options.random(8),
    timestamp: timestampOf(challenge) ?? encodeFileTime(options.wall()),
    targetInfo: encodeTargetInfo(
      responseTargetInfo({
        received: challenge.targetInfo ?? [],
        withMic,
        bindings: options.bindings,
        spn: options.spn,
      }),
    ),
  });
  const message = encodeAuthenticate({
    ...names,
    flags: answerFlags(challenge.flags),
    lmResponse: new Uint8Array(24),
    ntResponse: response.ntResponse,
    sessionKey: new Uint8Array(0),
  });
  if (withMic) {
    const mic = messageIntegrityCode(response.sessionKey, negotiate, token, message);
    message.set(mic, MIC_OFFSET);
  }
  return message;
}

/** What both sides want; UNICODE when the server left the choice. */
function answerFlags(server: number): number {
  const common = (server & OFFERED_FLAGS) >>> 0;
  return hasFlag(common, FLAG.UNICODE) ? (common & ~FLAG.OEM) >>> 0 : common;
}

function timestampOf(challenge: ChallengeMessage): Uint8Array | undefined {
  return challenge.targetInfo && findAv(challenge.targetInfo, AV.TIMESTAMP);
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    if (text.charCodeAt(index) > 0x7f) return false;
  }
  return true;
}

function refused(reason: string): ProxyError {
  return new ProxyError('challenge-malformed', `NTLM: ${reason}`, {
    side: 'upstream',
    stage: 'handshake',
  });
}
