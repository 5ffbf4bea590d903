/**
 * The initiator's NTLM context: NEGOTIATE out, CHALLENGE in, AUTHENTICATE out, and nothing after.
 *
 * NTLMv2 or nothing: whatever the server's flags leave out, no LM and no NTLMv1 response is made. The
 * messages are kept as they crossed the wire, because the MIC runs over those bytes.
 */
import { ProxyError } from '../../errors.ts';
import type { NtlmIdentity } from '../../identity/identity.ts';
import type { MutualPolicy, SecurityContext } from '../security-context.ts';
import { FLAG, hasFlag, OFFERED_FLAGS, OFFERED_SIGNING_FLAGS } from './fields.ts';
import {
  decodeChallenge,
  encodeAuthenticate,
  encodeNegotiate,
  MIC_OFFSET,
  type ChallengeMessage,
} from './messages.ts';
import {
  encodeFileTime,
  messageIntegrityCode,
  ntlmv2Response,
  ntowfv2,
  type Response,
} from './ntlmv2.ts';
import { rc4 } from './rc4.ts';
import { NtlmSigner } from './signing.ts';
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
  /** Offers signatures and key exchange, for SPNEGO. Default: false. */
  readonly signing?: boolean;
  /** `required` cannot be met by NTLM alone, and then fails. Default: optional. */
  readonly mutual?: MutualPolicy;
}

/** An initiator that answers at once. */
export interface NtlmInitiator extends SecurityContext {
  step(token?: Uint8Array): Uint8Array;
  finish(token: Uint8Array | undefined): void;
  /** Once complete: the AUTHENTICATE message carries a MIC. */
  readonly hasMic: boolean;
  /** Once complete, if both sides want signatures. */
  readonly signer: NtlmSigner | undefined;
}

/** An NTLM initiator for one connection. `step` throws `challenge-malformed`. */
export function createNtlmContext(options: NtlmContextOptions): NtlmInitiator {
  return new NtlmContext(options);
}

class NtlmContext implements NtlmInitiator {
  readonly scheme = 'NTLM';
  readonly #options: NtlmContextOptions;
  #negotiate: Buffer | undefined;
  readonly #offered: number;
  #result: Authenticated | undefined;

  constructor(options: NtlmContextOptions) {
    this.#options = options;
    this.#offered = options.signing === true ? OFFERED_SIGNING_FLAGS : OFFERED_FLAGS;
  }

  get complete(): boolean {
    return this.#result !== undefined;
  }

  get hasMic(): boolean {
    return this.#result?.hasMic ?? false;
  }

  get signer(): NtlmSigner | undefined {
    return this.#result?.signer;
  }

  step(token?: Uint8Array): Uint8Array {
    if (this.#negotiate === undefined) {
      if (token !== undefined) throw refused('a token before NEGOTIATE was sent');
      this.#negotiate = encodeNegotiate(this.#offered);
      return this.#negotiate;
    }
    if (this.#result !== undefined) throw refused('a token after AUTHENTICATE was sent');
    if (token === undefined) throw refused('no CHALLENGE');
    const offer = { negotiate: this.#negotiate, flags: this.#offered };
    this.#result = authenticate(this.#options, offer, token);
    return this.#result.message;
  }

  /** NTLM has no word of the server after AUTHENTICATE, so nothing that proves who it is. */
  finish(token: Uint8Array | undefined): void {
    const { mutual } = this.#options;
    if (mutual === 'off' || (token === undefined && mutual !== 'required')) return;
    const reason = token === undefined ? 'the server proves nothing' : 'a token after the login';
    throw new ProxyError('mutual-failed', `NTLM: ${reason}`, {
      side: 'upstream',
      stage: 'handshake',
    });
  }
}

interface Authenticated {
  readonly message: Buffer;
  readonly hasMic: boolean;
  readonly signer: NtlmSigner | undefined;
}

function authenticate(
  options: NtlmContextOptions,
  offer: { readonly negotiate: Buffer; readonly flags: number },
  token: Uint8Array,
): Authenticated {
  const challenge = decodeChallenge(token);
  const names = namesFor(options.identity, challenge);
  // MS-NLMP asks for a MIC when there is a timestamp; like Windows clients it is written for any target
  // info. Without target info the server cannot know of it.
  const hasMic = challenge.targetInfo !== undefined;
  const response = respond(options, challenge, hasMic);
  const flags = answerFlags(challenge.flags, offer.flags);
  const keys = sessionKeys(flags, response.sessionKey, options.random);
  const message = encodeAuthenticate({
    ...names,
    flags,
    lmResponse: new Uint8Array(24),
    ntResponse: response.ntResponse,
    sessionKey: keys.encrypted,
  });
  if (hasMic) {
    const mic = messageIntegrityCode(keys.exported, offer.negotiate, token, message);
    message.set(mic, MIC_OFFSET);
  }
  const signer = hasFlag(flags, FLAG.SIGN) ? new NtlmSigner(keys.exported, flags) : undefined;
  return { message, hasMic, signer };
}

/** The strings of the message, which are also those of the proof. */
function namesFor(
  { domain, user, workstation }: NtlmIdentity,
  challenge: ChallengeMessage,
): { domain: string; user: string; workstation: string } {
  const names = { domain, user, workstation };
  if (!hasFlag(challenge.flags, FLAG.UNICODE) && !Object.values(names).every(isAscii)) {
    throw refused('the server takes OEM names only, and a name is not ASCII');
  }
  return names;
}

function respond(
  { identity, random, wall, bindings, spn }: NtlmContextOptions,
  challenge: ChallengeMessage,
  withMic: boolean,
): Response {
  const received = challenge.targetInfo ?? [];
  return ntlmv2Response({
    key: ntowfv2(identity.ntHash.reveal(), identity.user, identity.domain),
    serverChallenge: challenge.serverChallenge,
    clientChallenge: random(8),
    timestamp: timestampOf(challenge) ?? encodeFileTime(wall()),
    targetInfo: encodeTargetInfo(responseTargetInfo({ received, withMic, bindings, spn })),
  });
}

/** The exported session key, and as it crosses the wire: empty without key exchange. */
function sessionKeys(
  flags: number,
  keyExchangeKey: Uint8Array,
  random: (bytes: number) => Uint8Array,
): { readonly exported: Uint8Array; readonly encrypted: Uint8Array } {
  if (!hasFlag(flags, FLAG.KEY_EXCH)) {
    return { exported: keyExchangeKey, encrypted: new Uint8Array(0) };
  }
  const exported = random(16);
  return { exported, encrypted: rc4(keyExchangeKey, exported) };
}

/**
 * What both sides want; UNICODE when the server left the choice. Signatures are of the extended kind
 * or not at all, and a key is exchanged only for them.
 */
function answerFlags(server: number, offered: number): number {
  let flags = (server & offered) >>> 0;
  if (hasFlag(flags, FLAG.UNICODE)) flags = (flags & ~FLAG.OEM) >>> 0;
  if (!hasFlag(flags, FLAG.SIGN | FLAG.EXTENDED_SESSIONSECURITY)) {
    flags = (flags & ~(FLAG.SIGN | FLAG.KEY_EXCH)) >>> 0;
  }
  return flags;
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
