/**
 * Two questions about a request target: can its path leave the place where a route found it
 * (config: Routes), and what are the parts of an absolute-form target (RFC 9112 3.2.2). Never builds
 * a URL object: `//host/x` would become another host. The choice of a route is made elsewhere.
 */
import { parseAuthority } from './authority.ts';
import type { Authority } from './authority.ts';

/** The parts of an absolute-form target. */
export interface AbsoluteTarget {
  readonly scheme: 'http' | 'https';
  readonly authority: Authority;
  /** The authority as written: the new Host value. */
  readonly authorityText: string;
  /** Origin-form; `/` when the path is empty (for OPTIONS without a path the caller sends `*`). */
  readonly target: string;
}

const SLASH = 47;
const BACKSLASH = 92;
const DOT = 46;
const PERCENT = 37;
const SEMICOLON = 59;
const LETTER_U = 117;

/** In the count of dots: the segment has something else. */
const OTHER = 3;

/**
 * Whether the path from `start` up to `end` (without the query) has, after one decoding, a segment
 * `.` or `..` (parameters behind `;` not counted), an encoded `/`, `\` or NUL, or a raw `\`.
 * Besides `%xx` the form `%uxxxx` is decoded, because HTTP.sys does so by default.
 */
export function hasDotSegments(buffer: Buffer, start: number, end: number): boolean {
  let dots = 0;
  let isParameter = false;
  let p = start;
  while (p < end) {
    const length = buffer[p] === PERCENT ? escapeLength(buffer, p, end) : 1;
    const code = length === 1 ? (buffer[p] as number) : readHex(buffer, p + length, length);
    if (code === BACKSLASH || code === 0 || (code === SLASH && length > 1)) return true;
    if (code === SLASH) {
      if (isDots(dots)) return true;
      dots = 0;
      isParameter = false;
    } else if (code === SEMICOLON) {
      isParameter = true;
    } else if (!isParameter) {
      dots = code === DOT && dots < 2 ? dots + 1 : OTHER;
    }
    p += length;
  }
  return isDots(dots);
}

/** Splits `http://` and `https://` targets; undefined for other schemes, userinfo, or a bad authority. */
export function splitAbsolute(text: string): AbsoluteTarget | undefined {
  const match = /^(https?):\/\/([^/?#]*)([^#]*)$/i.exec(text);
  if (match === null) return undefined;
  const [, schemeText = '', authorityText = '', rest = ''] = match;
  const authority = parseAuthority(authorityText);
  if (authority === undefined) return undefined;
  const scheme = schemeText.toLowerCase() === 'https' ? 'https' : 'http';
  return { scheme, authority, authorityText, target: rest.startsWith('/') ? rest : `/${rest}` };
}

function isDots(dots: number): boolean {
  return dots === 1 || dots === 2;
}

/** Length of the escape that begins with the `%` at `p`: 3 for `%xx`, 6 for `%uxxxx`, 1 when it is none. */
function escapeLength(buffer: Buffer, p: number, end: number): number {
  const isLong = ((buffer[p + 1] ?? 0) | 32) === LETTER_U;
  const length = isLong ? 6 : 3;
  if (p + length > end) return 1;
  for (let i = isLong ? p + 2 : p + 1; i < p + length; i += 1) {
    if (hexDigit(buffer[i] as number) < 0) return 1;
  }
  return length;
}

/** The number of the digits before `end` in an escape of `length` bytes. */
function readHex(buffer: Buffer, end: number, length: number): number {
  let value = 0;
  for (let i = end - (length === 6 ? 4 : 2); i < end; i += 1) {
    value = value * 16 + hexDigit(buffer[i] as number);
  }
  return value;
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
