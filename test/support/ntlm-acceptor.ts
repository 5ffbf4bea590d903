/**
 * The accepting side of NTLMv2 as the judge of the tests: makes CHALLENGE messages and verifies
 * AUTHENTICATE messages from the specification (MS-NLMP) with node:crypto and its own MD4.
 *
 * It shares nothing with src/auth: a fault there must not be mirrored here.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { md4 } from './md4.ts';

/** Passwords by down-level name, e.g. `{ 'LAB\\alice': 'secret' }`. Names compare without case. */
export type Accounts = Readonly<Record<string, string>>;

/** What the CHALLENGE message holds; every default is what a Windows domain member sends. */
export interface ChallengeSettings {
  /** NetBIOS domain, also TargetName. */
  readonly domain?: string;
  /** MsvAvTimestamp in the target info; without it clients use their own clock. */
  readonly timestamp?: boolean;
  /** No TARGET_INFO flag and no list when false (old servers). */
  readonly targetInfo?: boolean;
  /** Flags bits to clear and to set in the usual 0xa2898205. */
  readonly clearFlags?: number;
  readonly setFlags?: number;
}

/** What the AUTHENTICATE message said, whether or not it was believed. */
export interface Claim {
  readonly domain: string;
  readonly user: string;
  readonly workstation: string;
  /** MsvAvTargetName, or undefined when absent. */
  readonly spn: string | undefined;
  /** MsvAvChannelBindings, 16 bytes as hex, or undefined when absent. */
  readonly bindings: string | undefined;
  readonly mic: 'absent' | 'good' | 'bad' | 'unchecked';
  /** True when the LM response is empty or all zero, as it must be. */
  readonly lmEmpty: boolean;
  /** True when `temp` carries the timestamp of the challenge. */
  readonly timeEchoed: boolean;
  readonly flags: number;
}

export type Verdict =
  | { readonly ok: true; readonly claim: Claim }
  | { readonly ok: false; readonly reason: string; readonly claim: Claim | undefined };

export interface AcceptorSettings {
  readonly accounts: Accounts;
  readonly challenge?: ChallengeSettings;
  /** `tls-server-end-point:` + certificate hash of this connection; undefined on plain TCP. */
  readonly bindings?: Uint8Array | undefined;
  /** off: not looked at; accept: refused when present and wrong; required: must be right. */
  readonly channelBinding?: 'off' | 'accept' | 'required';
  readonly requireMic?: boolean;
}

const SIGNATURE = Buffer.from('NTLMSSP\0', 'latin1');
const UNICODE = 0x1;
const TARGET_INFO = 0x00800000;

/** NTOWFv1: MD4 over the password in UTF-16LE. */
export function ntHash(password: string): Buffer {
  return md4(Buffer.from(password, 'utf16le'));
}

/** 1, 2 or 3 for an NTLM message; undefined for anything else. */
export function messageType(token: Buffer): number | undefined {
  if (token.length < 12 || !token.subarray(0, 8).equals(SIGNATURE)) return undefined;
  return token.readUInt32LE(8);
}

/** MD5 of the gss_channel_bindings_struct whose application data is `data` (MS-NLMP 2.2.2.1). */
export function bindingsHash(data: Uint8Array): Buffer {
  const head = Buffer.alloc(20);
  head.writeUInt32LE(data.length, 16);
  return createHash('md5').update(head).update(data).digest();
}

/** One login on one connection: give it type 1, send what it returns, then give it type 3. */
export class NtlmAcceptor {
  readonly #settings: AcceptorSettings;
  readonly #type1: Buffer;
  readonly #serverChallenge = randomBytes(8);
  readonly #time: Buffer | undefined;
  /** The CHALLENGE message as it should be sent; a test may send other bytes and say so. */
  sent: Buffer;

  constructor(settings: AcceptorSettings, type1: Buffer) {
    this.#settings = settings;
    this.#type1 = type1;
    const challenge = settings.challenge ?? {};
    this.#time = challenge.timestamp === false ? undefined : fileTime();
    this.sent = encodeChallenge(challenge, this.#serverChallenge, this.#time);
  }

  /** Judges an AUTHENTICATE message. Never throws. */
  verify(type3: Buffer): Verdict {
    let message: Authenticate;
    try {
      message = decodeAuthenticate(type3);
    } catch (error) {
      return { ok: false, reason: String(error), claim: undefined };
    }
    return this.#judge(type3, message);
  }

  #judge(type3: Buffer, message: Authenticate): Verdict {
    const password = findPassword(this.#settings.accounts, message.domain, message.user);
    const proofKey = hmac(ntHash(password ?? ''), upperUtf16(message.user), utf16(message.domain));
    const temp = message.ntResponse.subarray(16);
    const proof = hmac(proofKey, this.#serverChallenge, temp);
    const known = password !== undefined && safeEqual(proof, message.ntResponse.subarray(0, 16));
    let pairs: Map<number, Buffer>;
    try {
      pairs = decodePairs(temp.subarray(28));
    } catch (error) {
      return { ok: false, reason: String(error), claim: undefined };
    }
    const sessionKey = known ? hmac(proofKey, proof) : undefined;
    const claim = this.#claim({ type3, message, pairs, temp, sessionKey });
    const reason = known ? this.#policy(claim, pairs) : 'unknown user or wrong password';
    return reason === undefined ? { ok: true, claim } : { ok: false, reason, claim };
  }

  #claim(facts: {
    type3: Buffer;
    message: Authenticate;
    pairs: Map<number, Buffer>;
    temp: Buffer;
    sessionKey: Buffer | undefined;
  }): Claim {
    const { message, pairs } = facts;
    return {
      domain: message.domain,
      user: message.user,
      workstation: message.workstation,
      spn: pairs.get(9)?.toString('utf16le'),
      bindings: pairs.get(10)?.toString('hex'),
      mic: this.#checkMic(facts.type3, pairs, facts.sessionKey),
      lmEmpty: message.lmResponse.every((byte) => byte === 0),
      timeEchoed: this.#time !== undefined && facts.temp.subarray(8, 16).equals(this.#time),
      flags: message.flags,
    };
  }

  #checkMic(type3: Buffer, pairs: Map<number, Buffer>, key: Buffer | undefined): Claim['mic'] {
    const flags = pairs.get(6);
    if (flags === undefined || (flags.readUInt32LE(0) & 2) === 0) return 'absent';
    if (key === undefined) return 'unchecked';
    const cleared = Buffer.from(type3);
    cleared.fill(0, 72, 88);
    const mic = hmac(key, this.#type1, this.sent, cleared);
    return safeEqual(mic, type3.subarray(72, 88)) ? 'good' : 'bad';
  }

  #policy(claim: Claim, pairs: Map<number, Buffer>): string | undefined {
    if (claim.mic === 'bad') return 'wrong MIC';
    if (claim.mic === 'absent' && this.#settings.requireMic === true) return 'no MIC';
    const policy = this.#settings.channelBinding ?? 'off';
    if (policy === 'off') return undefined;
    const given = pairs.get(10);
    const present = given?.some((byte) => byte !== 0) === true;
    if (!present) return policy === 'required' ? 'no channel bindings' : undefined;
    const data = this.#settings.bindings;
    if (data === undefined || given === undefined) return 'channel bindings without TLS';
    return safeEqual(bindingsHash(data), given) ? undefined : 'wrong channel bindings';
  }
}

interface Authenticate {
  readonly lmResponse: Buffer;
  readonly ntResponse: Buffer;
  readonly domain: string;
  readonly user: string;
  readonly workstation: string;
  readonly flags: number;
}

function decodeAuthenticate(message: Buffer): Authenticate {
  if (messageType(message) !== 3 || message.length < 88) throw new Error('not an AUTHENTICATE');
  const field = (at: number): Buffer => {
    const length = message.readUInt16LE(at);
    const offset = message.readUInt32LE(at + 4);
    if (length > 0 && (offset < 64 || offset + length > message.length)) {
      throw new Error(`field at ${at} points outside the message`);
    }
    return message.subarray(offset, offset + length);
  };
  const flags = message.readUInt32LE(60);
  const encoding = (flags & UNICODE) === 0 ? 'latin1' : 'utf16le';
  const ntResponse = field(20);
  // 16 bytes proof, 28 of the fixed part of temp, 4 of the end pair: less is LM, NTLMv1 or nothing.
  if (ntResponse.length < 48) throw new Error('not an NTLMv2 response');
  if (ntResponse.readUInt16LE(16) !== 0x0101) throw new Error('unknown response version');
  return {
    lmResponse: field(12),
    ntResponse,
    domain: field(28).toString(encoding),
    user: field(36).toString(encoding),
    workstation: field(44).toString(encoding),
    flags,
  };
}

function decodePairs(list: Buffer): Map<number, Buffer> {
  const pairs = new Map<number, Buffer>();
  let at = 0;
  for (;;) {
    if (at + 4 > list.length) throw new Error('target info has no end');
    const id = list.readUInt16LE(at);
    const length = list.readUInt16LE(at + 2);
    if (id === 0) return pairs;
    if (at + 4 + length > list.length) throw new Error('target info pair is too long');
    if (pairs.has(id)) throw new Error(`target info pair ${id} twice`);
    pairs.set(id, list.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
}

function encodeChallenge(
  settings: ChallengeSettings,
  serverChallenge: Buffer,
  time: Buffer | undefined,
): Buffer {
  const domain = settings.domain ?? 'LAB';
  const withInfo = settings.targetInfo !== false;
  const usual = withInfo ? 0xa2898205 : 0xa2898205 & ~TARGET_INFO;
  const flags = ((usual & ~(settings.clearFlags ?? 0)) | (settings.setFlags ?? 0)) >>> 0;
  const name = (flags & UNICODE) === 0 ? Buffer.from(domain, 'latin1') : utf16(domain);
  const info = withInfo ? encodeTargetInfo(domain, time) : Buffer.alloc(0);
  const head = Buffer.alloc(56);
  SIGNATURE.copy(head);
  head.writeUInt32LE(2, 8);
  writeField(head, 12, name.length, 56);
  head.writeUInt32LE(flags, 20);
  serverChallenge.copy(head, 24);
  writeField(head, 40, info.length, 56 + name.length);
  Buffer.from('0a00614a0000000f', 'hex').copy(head, 48);
  return Buffer.concat([head, name, info]);
}

function encodeTargetInfo(domain: string, time: Buffer | undefined): Buffer {
  const pair = (id: number, value: Buffer): Buffer => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(id, 0);
    head.writeUInt16LE(value.length, 2);
    return Buffer.concat([head, value]);
  };
  return Buffer.concat([
    pair(2, utf16(domain)),
    pair(1, utf16('ORIGIN')),
    pair(4, utf16(`${domain.toLowerCase()}.test`)),
    pair(3, utf16(`origin.${domain.toLowerCase()}.test`)),
    ...(time === undefined ? [] : [pair(7, time)]),
    pair(0, Buffer.alloc(0)),
  ]);
}

function writeField(message: Buffer, at: number, length: number, offset: number): void {
  message.writeUInt16LE(length, at);
  message.writeUInt16LE(length, at + 2);
  message.writeUInt32LE(offset, at + 4);
}

function findPassword(accounts: Accounts, domain: string, user: string): string | undefined {
  const wanted = (domain === '' ? user : `${domain}\\${user}`).toUpperCase();
  return Object.entries(accounts).find(([name]) => name.toUpperCase() === wanted)?.[1];
}

/** Windows maps one UTF-16 unit to one: a unit whose upper case is longer stays (MS-NLMP 3.3.2). */
function upperUtf16(text: string): Buffer {
  const units = Array.from({ length: text.length }, (_, index) => text.charAt(index));
  return utf16(
    units.map((unit) => (unit.toUpperCase().length === 1 ? unit.toUpperCase() : unit)).join(''),
  );
}

/** Now as 100 ns steps since 1601. */
function fileTime(): Buffer {
  const time = Buffer.alloc(8);
  time.writeBigUInt64LE((BigInt(Date.now()) + 11644473600000n) * 10000n);
  return time;
}

function utf16(text: string): Buffer {
  return Buffer.from(text, 'utf16le');
}

function hmac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const mac = createHmac('md5', key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

function safeEqual(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}
