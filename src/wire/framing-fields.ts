/**
 * Reads the values of the fields that frame a message or steer its connection: Content-Length,
 * Transfer-Encoding and Connection (RFC 9112 6 and 9.6, RFC 9110 7.6.1), strictly. Which fault a bad
 * value is, and which fields may stand together, is decided by the two head parsers.
 */
import { allIn, COMMA, equalsIgnoringCase, HTAB, SP, TOKEN } from './bytes.ts';
import type { NameTable } from './name-table.ts';

/** More digits could not be counted exactly, and no message is that long. */
const MAX_LENGTH_DIGITS = 15;

/** The value of a Content-Length that is digits only, 15 at most; -1 for anything else, lists included. */
export function parseContentLength(buffer: Buffer, start: number, end: number): number {
  if (end === start || end - start > MAX_LENGTH_DIGITS) return -1;
  let value = 0;
  for (let i = start; i < end; i += 1) {
    const digit = (buffer[i] as number) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/**
 * What a Transfer-Encoding line says: exactly `chunked`, other codings in a clean list, or neither.
 * `start` is the byte after the colon and `end` the CR: blanks are seen too, because parsers differ
 * on `chunked<TAB>`, and the line is also forwarded as it is.
 */
export function readTransferEncoding(
  buffer: Buffer,
  start: number,
  end: number,
): 'chunked' | 'other' | 'malformed' {
  let valueStart = start;
  while (valueStart < end && buffer[valueStart] === SP) valueStart += 1;
  if (equalsIgnoringCase(buffer, valueStart, end, 'chunked')) return 'chunked';
  if (valueStart === end) return 'malformed';
  for (let i = valueStart; i < end; i += 1) if (buffer[i] === HTAB) return 'malformed';
  return buffer[end - 1] === SP ? 'malformed' : 'other';
}

/** The options of all Connection lines of one head. */
export class ConnectionOptions {
  close = false;
  keepAlive = false;
  upgrade = false;
  /** Lower-case names of the fields to remove that are not removed anyway. */
  readonly nominated = new Set<string>();

  begin(): void {
    this.close = false;
    this.keepAlive = false;
    this.upgrade = false;
    if (this.nominated.size !== 0) this.nominated.clear();
  }

  /** Adds one line's value. False when it is not a list of tokens, or names a field that may not be removed. */
  add(buffer: Buffer, valueStart: number, valueEnd: number, names: NameTable): boolean {
    let start = valueStart;
    while (start < valueEnd) {
      let comma = start;
      while (comma < valueEnd && buffer[comma] !== COMMA) comma += 1;
      let end = comma;
      while (start < end && isBlank(buffer[start] as number)) start += 1;
      while (end > start && isBlank(buffer[end - 1] as number)) end -= 1;
      if (end > start && !this.#addOption(buffer, start, end, names)) return false;
      start = comma + 1;
    }
    return true;
  }

  #addOption(buffer: Buffer, start: number, end: number, names: NameTable): boolean {
    if (equalsIgnoringCase(buffer, start, end, 'keep-alive')) {
      this.keepAlive = true;
      return true;
    }
    if (equalsIgnoringCase(buffer, start, end, 'close')) {
      this.close = true;
      return true;
    }
    if (equalsIgnoringCase(buffer, start, end, 'upgrade')) {
      this.upgrade = true;
      return true;
    }
    if (!allIn(TOKEN, buffer, start, end)) return false;
    const id = names.find(buffer, start, end);
    const nomination = id < 0 ? 'removed' : names.nominationOf(id);
    if (nomination === 'refused') return false;
    if (nomination === 'removed')
      this.nominated.add(buffer.toString('latin1', start, end).toLowerCase());
    return true;
  }
}

function isBlank(byte: number): boolean {
  return byte === SP || byte === HTAB;
}
