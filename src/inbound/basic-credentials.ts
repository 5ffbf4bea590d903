/**
 * Decodes the Basic credentials of a request (RFC 7617) strictly: who cannot be understood is nobody,
 * and a guess at another charset would cost a login at a directory that counts them.
 */
import { decodeToken68 } from '../http/challenge.ts';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import { Secret } from '../identity/secret.ts';
import { afterScheme, hasScheme } from './auth-scheme.ts';
import type { BasicCaller } from './caller.ts';

/** Windows and Kerberos names are shorter. In UTF-16 units, as all lengths here. */
const MAX_USER = 256;
/** As for passwords of the configuration. */
const MAX_PASSWORD = 1024;
/** User, colon and password in UTF-8 at their longest. */
const MAX_BYTES = 3 * (MAX_USER + MAX_PASSWORD) + 1;

// A byte order mark is no part of a name, but it is what was sent: nothing is skipped.
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const SCHEME = Buffer.from('basic');

/** Whether the credentials in `buffer[start, end)` are of the scheme Basic, well-formed or not. */
export const isBasic = (buffer: Buffer, start: number, end: number): boolean =>
  hasScheme(buffer, start, end, SCHEME);

/** The caller in credentials of which `isBasic` is true; undefined where they are malformed. */
export function decodeBasic(buffer: Buffer, start: number, end: number): BasicCaller | undefined {
  const at = afterScheme(buffer, start, end, SCHEME);
  const bytes = decodeToken68(buffer.toString('latin1', at, end), MAX_BYTES);
  const text = bytes && decodeText(bytes);
  const colon = text?.indexOf(':') ?? -1;
  // Without a user there is nobody; to NTLM an empty name even means anonymous.
  if (text === undefined || colon <= 0 || hasControls(text)) return undefined;
  const user = text.slice(0, colon);
  const password = text.slice(colon + 1);
  // The same for a domain without a user.
  if (user.endsWith('\\')) return undefined;
  if (user.length > MAX_USER || password.length > MAX_PASSWORD) return undefined;
  return createBasicCaller(user, password);
}

/** The caller of a decoded pair, whom nobody has verified; one digest is all the hashing that a new field value costs. */
export function createBasicCaller(user: string, password: string): BasicCaller {
  const digest = keyedDigest('basic caller', exactBytes(user), exactBytes(password));
  return Object.freeze({
    kind: 'basic',
    user,
    password: new Secret(password),
    digest: digest.toString('hex'),
    verified: false,
  });
}

function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    // The decoder's only error.
    return undefined;
  }
}

/** RFC 7617 2: neither part may have any (those of C1 are none in RFC 5234, and here). */
function hasControls(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return true;
  }
  return false;
}
