/**
 * The syntax of an authority without userinfo, `host[:port]`, as Host, CONNECT and absolute-form
 * targets carry it (RFC 9110 7.2, RFC 3986 3.2.2). Stricter than the grammar: a name has letters,
 * digits, `-`, `_` and `.` only, and every number-like name must be a plain dotted IPv4 address, so
 * that no later parser can read another host. Whether a host may be reached is decided elsewhere.
 */
import { isIPv6 } from 'node:net';

/** A parsed authority. `host` is lower case, without brackets and without a trailing dot. */
export interface Authority {
  readonly host: string;
  readonly port: number | undefined;
  readonly ipv6: boolean;
}

const COLON = 58;
const DOT = 46;
const MAX_NAME = 253;
const MAX_LABEL = 63;
const LONGEST_IPV6 = 45;

/** 1 for letters, digits, `-` and `_`. */
const NAME_BYTE = new Uint8Array(256);
for (const char of 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_') {
  NAME_BYTE[char.charCodeAt(0)] = 1;
}

/** Whether the bytes from `start` up to `end` are an authority. Allocates nothing unless it is an IPv6 address. */
export function isAuthority(buffer: Buffer, start: number, end: number): boolean {
  const hostEnd = findHostEnd(buffer, start, end);
  return hostEnd >= 0 && (hostEnd === end || readPort(buffer, hostEnd, end) > 0);
}

/** As `isAuthority`, and the port must be there: the target of a CONNECT (RFC 9110 9.3.6). */
export function isAuthorityWithPort(buffer: Buffer, start: number, end: number): boolean {
  const hostEnd = findHostEnd(buffer, start, end);
  return hostEnd >= 0 && readPort(buffer, hostEnd, end) > 0;
}

/**
 * Parses an authority; undefined when it is none. Names of other scripts are taken in their ASCII form
 * only (`xn--`), which is compared and looked up as it is and never shown as Unicode.
 */
export function parseAuthority(text: string): Authority | undefined {
  // A character above U+007F must not become another one by the encoding below.
  for (let i = 0; i < text.length; i += 1) if (text.charCodeAt(i) > 0x7f) return undefined;
  const bytes = Buffer.from(text, 'latin1');
  const hostEnd = findHostEnd(bytes, 0, bytes.length);
  if (hostEnd < 0) return undefined;
  const port = hostEnd === bytes.length ? undefined : readPort(bytes, hostEnd, bytes.length);
  if (port === 0) return undefined;
  const lower = text.slice(0, hostEnd).toLowerCase();
  if (lower.startsWith('[')) return { host: lower.slice(1, -1), port, ipv6: true };
  const host = lower.endsWith('.') ? lower.slice(0, -1) : lower;
  return { host, port, ipv6: false };
}

/** The end of the host that begins at `start`, or -1 when there is no valid host. */
function findHostEnd(buffer: Buffer, start: number, end: number): number {
  if (start >= end) return -1;
  if (buffer[start] === 91) return findBracketEnd(buffer, start, end);
  let labelStart = start;
  let lastLabel = start;
  let p = start;
  for (; p < end; p += 1) {
    const byte = buffer[p] as number;
    if (NAME_BYTE[byte] === 1) continue;
    if (byte === COLON) break;
    if (byte !== DOT || p === labelStart || p - labelStart > MAX_LABEL) return -1;
    lastLabel = labelStart;
    labelStart = p + 1;
  }
  if (p - labelStart > MAX_LABEL) return -1;
  // A trailing dot is the root: legal once, and not counted.
  if (labelStart === p) return isName(buffer, start, lastLabel, p - 1) ? p : -1;
  return isName(buffer, start, labelStart, p) ? p : -1;
}

/** The checks of a name whose labels are sound: its length, and no number but a dotted IPv4 address. */
function isName(buffer: Buffer, start: number, lastLabel: number, end: number): boolean {
  if (end <= start || end - start > MAX_NAME) return false;
  const isNumber = (buffer[lastLabel] as number) <= 57 && looksNumeric(buffer, lastLabel, end);
  return !isNumber || isDottedIPv4(buffer, start, end);
}

function findBracketEnd(buffer: Buffer, start: number, end: number): number {
  const last = Math.min(end, start + LONGEST_IPV6 + 2);
  for (let p = start + 1; p < last; p += 1) {
    const byte = buffer[p] as number;
    if (byte === 93) return isIPv6(buffer.toString('latin1', start + 1, p)) ? p + 1 : -1;
    // Zone ids (`%`) have no meaning beyond one machine (RFC 6874).
    if (byte === 37) return -1;
  }
  return -1;
}

/** Whether the WHATWG URL parser would take the label for a number: digits, or `0x` and hex digits. */
function looksNumeric(buffer: Buffer, start: number, end: number): boolean {
  const isHex = buffer[start] === 48 && ((buffer[start + 1] ?? 0) | 32) === 120 && end > start + 1;
  for (let p = isHex ? start + 2 : start; p < end; p += 1) {
    const byte = buffer[p] as number;
    const isDigit = byte >= 48 && byte <= 57;
    const isHexLetter = isHex && (byte | 32) >= 97 && (byte | 32) <= 102;
    if (!isDigit && !isHexLetter) return false;
  }
  return true;
}

function isDottedIPv4(buffer: Buffer, start: number, end: number): boolean {
  let parts = 1;
  let value = 0;
  let digits = 0;
  for (let p = start; p < end; p += 1) {
    const byte = buffer[p] as number;
    if (byte === DOT) {
      parts += 1;
      value = 0;
      digits = 0;
      continue;
    }
    // `0177` is octal for some parsers.
    if (byte < 48 || byte > 57 || (digits > 0 && value === 0)) return false;
    value = value * 10 + byte - 48;
    digits += 1;
    if (value > 255) return false;
  }
  return parts === 4;
}

/** The port of `:port`, 1 to 65535; 0 when it is none. */
function readPort(buffer: Buffer, start: number, end: number): number {
  if (buffer[start] !== COLON || end - start < 2 || end - start > 6) return 0;
  let port = 0;
  for (let p = start + 1; p < end; p += 1) {
    const digit = (buffer[p] as number) - 48;
    if (digit < 0 || digit > 9) return 0;
    port = port * 10 + digit;
  }
  return port > 65_535 ? 0 : port;
}
