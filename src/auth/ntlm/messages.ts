/**
 * Codecs of the three NTLM messages (MS-NLMP 2.2.1), for initiator and acceptor.
 *
 * Only bytes: the response inside is `ntlmv2.ts`, who may send what is `context.ts`. A challenge comes
 * from the upstream and its faults are thrown with a reason; what an acceptor decodes is undefined when
 * malformed. Every decoder is linear, and reads nothing outside its message.
 */
import { ProxyError } from '../../errors.ts';
import {
  FLAG,
  hasFlag,
  isMessage,
  layOut,
  OFFERED_FLAGS,
  readField,
  VERSION,
  view,
} from './fields.ts';
import { decodeTargetInfo, encodeTargetInfo, type AvPair } from './target-info.ts';

const NEGOTIATE_BYTES = 40;
const CHALLENGE_MIN_BYTES = 32;
const CHALLENGE_TARGET_INFO_BYTES = 48;
const CHALLENGE_BYTES = 56;
const AUTHENTICATE_MIN_BYTES = 64;
const AUTHENTICATE_BYTES = 88;

/** LM and NT response, domain, user, workstation, session key. */
const AUTHENTICATE_FIELDS = [12, 20, 28, 36, 44, 52] as const;

/** Where the MIC stands in an AUTHENTICATE message that carries Version. */
export const MIC_OFFSET = 72;
export const MIC_BYTES = 16;

/**
 * Largest token taken in: 16 KiB of base64, the whole request head that http.sys and Node allow.
 */
export const MAX_TOKEN_BYTES = 12 * 1024;

/** Largest target info: its copy goes out again, in a head of which others need a part. */
export const MAX_TARGET_INFO_BYTES = 8 * 1024;

/** Largest AUTHENTICATE message: 12 KiB of base64. */
export const MAX_AUTHENTICATE_BYTES = 9 * 1024;

export interface NegotiateMessage {
  readonly flags: number;
}

export interface ChallengeMessage {
  readonly flags: number;
  /** 8 bytes. */
  readonly serverChallenge: Uint8Array;
  /** Undefined when the server sent none: no TARGET_INFO flag, or an empty field. */
  readonly targetInfo: readonly AvPair[] | undefined;
}

export interface AuthenticateMessage {
  readonly flags: number;
  readonly lmResponse: Uint8Array;
  readonly ntResponse: Uint8Array;
  readonly domain: string;
  readonly user: string;
  readonly workstation: string;
  readonly sessionKey: Uint8Array;
}

/**
 * 40 bytes, always with Version: gss-ntlmssp refuses the shorter forms. No domain and no workstation:
 * nothing is told before the challenge.
 */
export function encodeNegotiate(flags: number = OFFERED_FLAGS): Buffer {
  const message = layOut(1, NEGOTIATE_BYTES, []);
  message.writeUInt32LE(flags, 12);
  message.set(VERSION, 32);
  return message;
}

/** Undefined when the bytes are no NEGOTIATE message. Names in it are not read. */
export function decodeNegotiate(bytes: Uint8Array): NegotiateMessage | undefined {
  if (bytes.length < 16 || !isMessage(bytes, 1)) return undefined;
  return { flags: view(bytes).readUInt32LE(12) };
}

export interface ChallengeFields {
  readonly flags: number;
  readonly serverChallenge: Uint8Array;
  readonly targetName: string;
  /** Sent when the flags say TARGET_INFO. */
  readonly targetInfo: readonly AvPair[];
}

/** The acceptor's challenge; strings are UTF-16LE. */
export function encodeChallenge(fields: ChallengeFields): Buffer {
  const withInfo = hasFlag(fields.flags, FLAG.TARGET_INFO);
  const message = layOut(2, CHALLENGE_BYTES, [
    { at: 12, value: Buffer.from(fields.targetName, 'utf16le') },
    { at: 40, value: withInfo ? encodeTargetInfo(fields.targetInfo) : Buffer.alloc(0) },
  ]);
  message.writeUInt32LE(fields.flags, 20);
  message.set(fields.serverChallenge, 24);
  if (hasFlag(fields.flags, FLAG.VERSION)) message.set(VERSION, 48);
  return message;
}

/**
 * Decodes an upstream's challenge. The target name is not read, as nothing depends on it and real
 * servers send it out of range. Throws `challenge-malformed`.
 */
export function decodeChallenge(bytes: Uint8Array): ChallengeMessage {
  const message = view(bytes);
  if (!isMessage(message, 2)) throw malformed('not a CHALLENGE message');
  if (message.length < CHALLENGE_MIN_BYTES) throw malformed('CHALLENGE shorter than 32 bytes');
  if (message.length > MAX_TOKEN_BYTES) throw malformed('CHALLENGE larger than 12 KiB');
  const flags = message.readUInt32LE(20);
  if ((flags & (FLAG.UNICODE | FLAG.OEM)) === 0) throw malformed('no character set in CHALLENGE');
  return {
    flags,
    serverChallenge: message.subarray(24, 32),
    targetInfo: targetInfoOf(message, flags),
  };
}

function targetInfoOf(message: Buffer, flags: number): AvPair[] | undefined {
  if (!hasFlag(flags, FLAG.TARGET_INFO)) return undefined;
  if (message.length < CHALLENGE_TARGET_INFO_BYTES) throw malformed('target info field cut off');
  const field = readField(message, 40, CHALLENGE_TARGET_INFO_BYTES);
  if (field === undefined) throw malformed('target info out of range');
  if (field.length === 0) return undefined;
  if (field.length > MAX_TARGET_INFO_BYTES) throw malformed('target info larger than 8 KiB');
  const pairs = decodeTargetInfo(field);
  if (pairs === undefined) throw malformed('target info is not a list of AV pairs');
  return pairs;
}

export interface AuthenticateFields extends AuthenticateMessage {
  /** 8 bytes; zeros are as good. */
  readonly version?: Uint8Array;
}

/**
 * An AUTHENTICATE message with 16 zero bytes where the MIC goes (`MIC_OFFSET`). Names are UTF-16LE when
 * the flags say UNICODE, else one byte per character, which the caller makes sure is ASCII. Throws
 * `challenge-malformed` above `MAX_AUTHENTICATE_BYTES`: it is the echo of the challenge that is large.
 */
export function encodeAuthenticate(fields: AuthenticateFields): Buffer {
  const charset = hasFlag(fields.flags, FLAG.UNICODE) ? 'utf16le' : 'latin1';
  const payload = [
    { at: 12, value: fields.lmResponse },
    { at: 20, value: fields.ntResponse },
    { at: 28, value: Buffer.from(fields.domain, charset) },
    { at: 36, value: Buffer.from(fields.user, charset) },
    { at: 44, value: Buffer.from(fields.workstation, charset) },
    { at: 52, value: fields.sessionKey },
  ];
  const total = payload.reduce((sum, field) => sum + field.value.length, AUTHENTICATE_BYTES);
  if (total > MAX_AUTHENTICATE_BYTES) throw malformed('AUTHENTICATE would be larger than 9 KiB');
  const message = layOut(3, AUTHENTICATE_BYTES, payload);
  message.writeUInt32LE(fields.flags, 60);
  message.set(fields.version ?? VERSION, 64);
  return message;
}

/** Undefined when malformed: a field out of range, or names that are no whole UTF-16 units. */
export function decodeAuthenticate(bytes: Uint8Array): AuthenticateMessage | undefined {
  const message = view(bytes);
  if (message.length < AUTHENTICATE_MIN_BYTES || !isMessage(message, 3)) return undefined;
  const flags = message.readUInt32LE(60);
  const unicode = hasFlag(flags, FLAG.UNICODE);
  const [lmResponse, ntResponse, domain, user, workstation, sessionKey] = AUTHENTICATE_FIELDS.map(
    (at) => readField(message, at, AUTHENTICATE_MIN_BYTES),
  );
  if (!lmResponse || !ntResponse || !domain || !user || !workstation || !sessionKey)
    return undefined;
  const names = [domain, user, workstation];
  if (unicode && names.some((name) => name.length % 2 !== 0)) return undefined;
  const charset = unicode ? 'utf16le' : 'latin1';
  return {
    flags,
    lmResponse,
    ntResponse,
    domain: domain.toString(charset),
    user: user.toString(charset),
    workstation: workstation.toString(charset),
    sessionKey,
  };
}

function malformed(reason: string): ProxyError {
  return new ProxyError('challenge-malformed', `NTLM: ${reason}`, {
    side: 'upstream',
    stage: 'handshake',
  });
}
