/**
 * The byte classes of HTTP/1.1 (RFC 9110 5.6.2 and 5.5, RFC 9112 3.2) as tables indexed by byte, and
 * two comparisons on them. Decides nothing about messages.
 */

export const HTAB = 9;
export const LF = 10;
export const CR = 13;
export const SP = 32;
export const COMMA = 44;
export const COLON = 58;
export const SEMICOLON = 59;
export const QUESTION_MARK = 63;

/** 1 for the bytes of a token (RFC 9110 5.6.2). */
export const TOKEN = new Uint8Array(256);
/** 1 for the bytes inside a field value: HTAB, SP, visible ASCII, obs-text (RFC 9110 5.5). */
export const VALUE = new Uint8Array(256);
/** 1 for the bytes of a request target before its query: visible ASCII without `#` and `?`. */
export const PATH = new Uint8Array(256);
/** 1 for the bytes of a query: visible ASCII without `#`. */
export const QUERY = new Uint8Array(256);
/** Value of a hexadecimal digit, -1 for any other byte. */
export const HEX = new Int8Array(256).fill(-1);
/** ASCII lower case. */
export const LOWER = new Uint8Array(256);
/** ASCII lower case, with `_` and `.` taken as `-`: how CGI-like servers confuse field names. */
export const FOLD = new Uint8Array(256);

for (let byte = 0; byte < 256; byte += 1) {
  const lower = byte >= 65 && byte <= 90 ? byte + 32 : byte;
  LOWER[byte] = lower;
  FOLD[byte] = byte === 95 || byte === 46 ? 45 : lower;
  if (byte === HTAB || (byte >= SP && byte !== 127)) VALUE[byte] = 1;
  if (byte > SP && byte < 127 && byte !== 35) {
    QUERY[byte] = 1;
    PATH[byte] = byte === QUESTION_MARK ? 0 : 1;
  }
}
for (const char of "!#$%&'*+-.^_`|~0123456789") TOKEN[char.charCodeAt(0)] = 1;
for (let byte = 97; byte <= 122; byte += 1) {
  TOKEN[byte] = 1;
  TOKEN[byte - 32] = 1;
}
for (let digit = 0; digit < 16; digit += 1) {
  const char = digit.toString(16);
  HEX[char.charCodeAt(0)] = digit;
  HEX[char.toUpperCase().charCodeAt(0)] = digit;
}

/** Whether the bytes from `start` up to `end` are `lowerCase`, any ASCII case (`lowerCase` is it already). */
export function equalsIgnoringCase(
  buffer: Buffer,
  start: number,
  end: number,
  lowerCase: string,
): boolean {
  const length = lowerCase.length;
  if (end - start !== length) return false;
  for (let i = 0; i < length; i += 1) {
    if (LOWER[buffer[start + i] as number] !== lowerCase.charCodeAt(i)) return false;
  }
  return true;
}

/** Whether every byte from `start` up to `end` has a 1 in `table`. */
export function allIn(table: Uint8Array, buffer: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i += 1) {
    if (table[buffer[i] as number] !== 1) return false;
  }
  return true;
}
