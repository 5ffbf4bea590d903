/**
 * The computation of NTLMv2 (MS-NLMP 3.3.2): from password to NT hash, key, proof and MIC.
 *
 * NTLMv1 and LM responses do not exist here, so nothing can fall back to them.
 */
import { createHmac } from 'node:crypto';

import { ProxyError } from '../../errors.ts';
import { md4 } from './md4.ts';

/** Milliseconds between 1601-01-01, where FILETIME starts, and 1970-01-01. */
const FILETIME_EPOCH_MS = 11_644_473_600_000;

const RESPONSE_HEADER = Buffer.from('0101000000000000', 'hex');
const FOUR_ZEROS = Buffer.alloc(4);

/** The NT hash, 16 bytes: MD4 of the password in UTF-16LE. */
export function ntowfv1(password: string): Buffer {
  return md4(Buffer.from(password, 'utf16le'));
}

/**
 * The response key of an account. The user is upper-cased, the domain is not; both must be the very
 * strings that the AUTHENTICATE message carries.
 */
export function ntowfv2(ntHash: Uint8Array, user: string, domain: string): Buffer {
  return hmacMd5(ntHash, Buffer.from(upperCase(user) + domain, 'utf16le'));
}

/**
 * Upper case as Windows does it: one UTF-16 unit to one unit. JavaScript's full mapping would turn
 * `ß` into `SS` (as gss-ntlmssp does, which therefore refuses such names; Windows and Samba do not).
 * A unit changes only where lower and upper case are a pair of single units, which also keeps dotless
 * `ı`, long `ſ` and the micro sign as they are. Two departures of the Windows table from that: the
 * final sigma has a capital, the Georgian letters have none. Still different from the table of
 * Windows Vista: polytonic Greek with iota, and letters that became pairs in Unicode 5.1 or later.
 */
export function upperCase(text: string): string {
  let result = '';
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charAt(index);
    const upper = unit.toUpperCase();
    const paired = upper.length === 1 && upper.toLowerCase() === unit;
    result += (paired && !isGeorgian(unit)) || unit === 'ς' ? upper : unit;
  }
  return result;
}

function isGeorgian(unit: string): boolean {
  return unit >= '\u10d0' && unit <= '\u10ff';
}

export interface ResponseInput {
  /** `ntowfv2` of the account. */
  readonly key: Uint8Array;
  readonly serverChallenge: Uint8Array;
  readonly clientChallenge: Uint8Array;
  /** FILETIME, 8 bytes little-endian: the server's if it sent one. */
  readonly timestamp: Uint8Array;
  /** Encoded pairs with their EOL. */
  readonly targetInfo: Uint8Array;
}

export interface Response {
  /** NTProofStr and the blob it proves. */
  readonly ntResponse: Buffer;
  /** SessionBaseKey, which NTLMv2 also uses as the KeyExchangeKey (MS-NLMP 3.4.5.1). */
  readonly sessionKey: Buffer;
}

/** The NTLMv2 response (MS-NLMP 3.3.2): `temp`, NTProofStr over it, SessionBaseKey over that. */
export function ntlmv2Response(input: ResponseInput): Response {
  const temp = Buffer.concat([
    RESPONSE_HEADER,
    input.timestamp,
    input.clientChallenge,
    FOUR_ZEROS,
    input.targetInfo,
    FOUR_ZEROS,
  ]);
  const proof = ntProof(input.key, input.serverChallenge, temp);
  return { ntResponse: Buffer.concat([proof, temp]), sessionKey: hmacMd5(input.key, proof) };
}

/** NTProofStr over a blob as sent: 16 bytes. */
export function ntProof(key: Uint8Array, serverChallenge: Uint8Array, temp: Uint8Array): Buffer {
  return hmacMd5(key, serverChallenge, temp);
}

/**
 * The message integrity code (MS-NLMP 3.1.5.1.2) over the three messages as they crossed the wire,
 * the last with zeros in the MIC's place.
 */
export function messageIntegrityCode(
  sessionKey: Uint8Array,
  negotiate: Uint8Array,
  challenge: Uint8Array,
  authenticate: Uint8Array,
): Buffer {
  return hmacMd5(sessionKey, negotiate, challenge, authenticate);
}

/** Milliseconds since 1970 as FILETIME: 100 ns since 1601, 8 bytes little-endian. */
export function encodeFileTime(wallMs: number): Buffer {
  const time = Buffer.alloc(8);
  time.writeBigUInt64LE(BigInt(Math.floor(wallMs) + FILETIME_EPOCH_MS) * 10_000n);
  return time;
}

/** HMAC-MD5 over all parts: 16 bytes. Throws `internal` where OpenSSL has no MD5. */
export function hmacMd5(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  try {
    const hmac = createHmac('md5', key);
    for (const part of parts) hmac.update(part);
    return hmac.digest();
  } catch (cause) {
    throw new ProxyError('internal', 'NTLM needs HMAC-MD5, which OpenSSL refuses (FIPS mode?)', {
      side: 'internal',
      stage: 'handshake',
      cause,
    });
  }
}
