/**
 * The accepting side of NTLM for the demo's origin: one `ConnectionLogin` per connection decides from
 * an Authorization field as whom a request is answered, as IIS does.
 *
 * It shares the codecs with the initiator, not the computation: proof and MIC are verified by what
 * stands here (MS-NLMP 3.2.5.1.2, 3.3.2), and other people's clients check it in the tests.
 */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { FLAG } from '../auth/ntlm/fields.ts';
import { md4 } from '../auth/ntlm/md4.ts';
import {
  decodeAuthenticate,
  decodeNegotiate,
  encodeChallenge,
  MIC_BYTES,
  MIC_OFFSET,
  type AuthenticateMessage,
} from '../auth/ntlm/messages.ts';
import { AV, AV_FLAG_MIC, decodeTargetInfo, findAv } from '../auth/ntlm/target-info.ts';
import { decodeToken68 } from '../http/challenge.ts';

/** NT hashes by `DOMAIN\user`, upper case. Made by `createAccounts`. */
export type Accounts = ReadonlyMap<string, Buffer>;

/** How a request is to be answered. */
export type LoginAnswer =
  | { readonly kind: 'user'; readonly user: string }
  /** 401 with `WWW-Authenticate: NTLM`, and the token when there is one. */
  | { readonly kind: 'challenge'; readonly token: string | undefined };

const CHALLENGE_FLAGS =
  (FLAG.UNICODE |
    FLAG.REQUEST_TARGET |
    FLAG.NTLM |
    FLAG.ALWAYS_SIGN |
    FLAG.TARGET_TYPE_DOMAIN |
    FLAG.EXTENDED_SESSIONSECURITY |
    FLAG.TARGET_INFO |
    FLAG.VERSION |
    FLAG.KEY_128 |
    FLAG.KEY_56) >>>
  0;

const MAX_TOKEN_BYTES = 12 * 1024;
/** NTProofStr, the fixed part of `temp`, and the end of an empty list of pairs. */
const MIN_NT_RESPONSE_BYTES = 16 + 28 + 4;
const REFUSED: LoginAnswer = { kind: 'challenge', token: undefined };

/** Accounts from passwords by down-level name (`DOMAIN\user`). */
export function createAccounts(passwords: Readonly<Record<string, string>>): Accounts {
  const entries = Object.entries(passwords).map(
    ([name, password]) => [name.toUpperCase(), md4(Buffer.from(password, 'utf16le'))] as const,
  );
  return new Map(entries);
}

/** The login of one connection. Requests must be put to it in the order they arrive. */
export class ConnectionLogin {
  readonly #accounts: Accounts;
  readonly #domain: string;
  #pending: { negotiate: Buffer; challenge: Buffer; serverChallenge: Buffer } | undefined;
  #user: string | undefined;

  constructor(accounts: Accounts, domain: string) {
    this.#accounts = accounts;
    this.#domain = domain;
  }

  /** As whom the connection is logged in. */
  get user(): string | undefined {
    return this.#user;
  }

  /**
   * Judges one request by its Authorization value. Without one, the connection's user is answered;
   * a new NEGOTIATE message ends the login, and an AUTHENTICATE message counts only right after the
   * challenge of this very connection.
   */
  judge(authorization: string | undefined): LoginAnswer {
    const pending = this.#pending;
    this.#pending = undefined;
    if (authorization === undefined) {
      return this.#user === undefined ? REFUSED : { kind: 'user', user: this.#user };
    }
    this.#user = undefined;
    const token = ntlmToken(authorization);
    if (token === undefined) return REFUSED;
    if (decodeNegotiate(token) !== undefined) return this.#challenge(token);
    if (pending === undefined) return REFUSED;
    const message = decodeAuthenticate(token);
    if (message === undefined || !this.#isGenuine(message, token, pending)) return REFUSED;
    this.#user = message.domain === '' ? message.user : `${message.domain}\\${message.user}`;
    return { kind: 'user', user: this.#user };
  }

  #challenge(negotiate: Buffer): LoginAnswer {
    const serverChallenge = randomBytes(8);
    const name = (text: string): Buffer => Buffer.from(text, 'utf16le');
    const challenge = encodeChallenge({
      flags: CHALLENGE_FLAGS,
      serverChallenge,
      targetName: this.#domain,
      targetInfo: [
        { id: AV.NB_DOMAIN_NAME, value: name(this.#domain) },
        { id: AV.NB_COMPUTER_NAME, value: name('ORIGIN') },
        { id: AV.TIMESTAMP, value: fileTime(Date.now()) },
      ],
    });
    this.#pending = { negotiate, challenge, serverChallenge };
    return { kind: 'challenge', token: challenge.toString('base64') };
  }

  #isGenuine(
    message: AuthenticateMessage,
    token: Buffer,
    pending: { negotiate: Buffer; challenge: Buffer; serverChallenge: Buffer },
  ): boolean {
    const name = message.domain === '' ? message.user : `${message.domain}\\${message.user}`;
    const ntHash = this.#accounts.get(name.toUpperCase());
    const response = message.ntResponse;
    if (ntHash === undefined || response.length < MIN_NT_RESPONSE_BYTES) return false;
    const temp = response.subarray(16);
    const owner = Buffer.from(message.user.toUpperCase() + message.domain, 'utf16le');
    const key = hmac(ntHash, owner);
    const proof = hmac(key, pending.serverChallenge, temp);
    if (!timingSafeEqual(proof, response.subarray(0, 16))) return false;
    const pairs = decodeTargetInfo(temp.subarray(28));
    if (pairs === undefined) return false;
    const flags = findAv(pairs, AV.FLAGS);
    const promised = flags !== undefined && ((flags[0] ?? 0) & AV_FLAG_MIC) !== 0;
    return !promised || hasGoodMic({ sessionKey: hmac(key, proof), token, pending });
  }
}

/** A message that promises a MIC must have a right one, or the promise protects nothing. */
function hasGoodMic(facts: {
  sessionKey: Buffer;
  token: Buffer;
  pending: { negotiate: Buffer; challenge: Buffer };
}): boolean {
  const { token, pending } = facts;
  const end = MIC_OFFSET + MIC_BYTES;
  if (token.length < end) return false;
  const cleared = Buffer.from(token).fill(0, MIC_OFFSET, end);
  const mic = hmac(facts.sessionKey, pending.negotiate, pending.challenge, cleared);
  return timingSafeEqual(mic, token.subarray(MIC_OFFSET, end));
}

function ntlmToken(authorization: string): Buffer | undefined {
  const [scheme = '', token = '', ...rest] = authorization.split(' ');
  if (scheme.toLowerCase() !== 'ntlm' || rest.length > 0) return undefined;
  return decodeToken68(token, MAX_TOKEN_BYTES);
}

/** Milliseconds since 1970 as 100 ns since 1601. */
function fileTime(wallMs: number): Buffer {
  const time = Buffer.alloc(8);
  time.writeBigUInt64LE((BigInt(Math.floor(wallMs)) + 11_644_473_600_000n) * 10_000n);
  return time;
}

function hmac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const mac = createHmac('md5', key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}
