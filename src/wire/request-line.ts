/**
 * Parses the request line (RFC 9112 3): exactly one SP between its parts, CRLF at its end, HTTP/1.0 or
 * HTTP/1.1. Decides the form of the target and which methods it may stand with; fields come after.
 */
import { isAuthority, isAuthorityWithPort } from '../http/authority.ts';
import { CR, equalsIgnoringCase, LF, PATH, QUERY, QUESTION_MARK, SP, TOKEN } from './bytes.ts';

/** The four forms of RFC 9112 3.2. */
export type TargetForm = 'origin' | 'absolute' | 'authority' | 'asterisk';

export const LINE_DONE = 1;
export const LINE_NEED_MORE = 0;
export const LINE_MALFORMED = -1;
export const LINE_VERSION = -2;

const MAX_EMPTY_LINES = 4;
const MAX_METHOD = 64;
/** Length of `HTTP/1.1` and CRLF. */
const VERSION_LENGTH = 10;

const BEFORE = 0;
const BEFORE_LF = 1;
const METHOD = 2;
const TARGET_PATH = 3;
const TARGET_QUERY = 4;
const VERSION = 5;

/** Resumable, like `FieldLines`: the result depends on the bytes only, never on how they were split. */
export class RequestLine {
  method = '';
  start = 0;
  methodEnd = 0;
  targetStart = 0;
  targetEnd = 0;
  pathEnd = 0;
  targetForm: TargetForm = 'origin';
  minor: 0 | 1 = 1;
  /** Offset of the next byte to look at; after LINE_DONE the first byte behind the line. */
  position = 0;
  #state = BEFORE;
  #emptyLines = 0;

  begin(position: number): void {
    this.position = position;
    this.#state = BEFORE;
    this.#emptyLines = 0;
  }

  // oxlint-disable-next-line complexity, max-lines-per-function -- One state machine over bytes; cut in parts it is slower and harder to check.
  scan(buffer: Buffer, end: number): number {
    let p = this.position;
    let state = this.#state;
    while (state < METHOD) {
      if (p >= end) return this.#pause(state, p);
      const byte = buffer[p];
      if (state === BEFORE_LF) {
        if (byte !== LF) return LINE_MALFORMED;
        p += 1;
        state = BEFORE;
      } else if (byte === CR) {
        this.#emptyLines += 1;
        if (this.#emptyLines > MAX_EMPTY_LINES) return LINE_MALFORMED;
        p += 1;
        state = BEFORE_LF;
      } else {
        this.start = p;
        state = METHOD;
      }
    }
    if (state === METHOD) {
      const last = Math.min(end, this.start + MAX_METHOD + 1);
      while (p < last && TOKEN[buffer[p] as number] === 1) p += 1;
      if (p - this.start > MAX_METHOD) return LINE_MALFORMED;
      if (p >= end) return this.#pause(state, p);
      if (buffer[p] !== SP || p === this.start) return LINE_MALFORMED;
      this.methodEnd = p;
      p += 1;
      this.targetStart = p;
      state = TARGET_PATH;
    }
    if (state === TARGET_PATH) {
      while (p < end && PATH[buffer[p] as number] === 1) p += 1;
      if (p >= end) return this.#pause(state, p);
      this.pathEnd = p;
      if (buffer[p] === QUESTION_MARK) state = TARGET_QUERY;
    }
    if (state === TARGET_QUERY) {
      while (p < end && QUERY[buffer[p] as number] === 1) p += 1;
      if (p >= end) return this.#pause(state, p);
    }
    if (state !== VERSION) {
      if (buffer[p] !== SP || p === this.targetStart) return LINE_MALFORMED;
      this.targetEnd = p;
      p += 1;
      state = VERSION;
    }
    if (end - p < VERSION_LENGTH) return this.#pause(state, p);
    this.position = p + VERSION_LENGTH;
    return this.#finish(buffer, p);
  }

  #pause(state: number, position: number): number {
    this.#state = state;
    this.position = position;
    return LINE_NEED_MORE;
  }

  #finish(buffer: Buffer, p: number): number {
    const version = readVersion(buffer, p);
    if (version === NOT_A_VERSION) return LINE_MALFORMED;
    if (buffer[p + 8] !== CR || buffer[p + 9] !== LF) return LINE_MALFORMED;
    this.method = readMethod(buffer, this.start, this.methodEnd);
    // The HTTP/2 preface is not a request of another version (RFC 9113 3.4).
    if (this.method === 'PRI') return LINE_MALFORMED;
    if (version === OTHER_VERSION) return LINE_VERSION;
    this.minor = version === 1 ? 1 : 0;
    return this.#readTargetForm(buffer) ? LINE_DONE : LINE_MALFORMED;
  }

  #readTargetForm(buffer: Buffer): boolean {
    const { targetStart, targetEnd } = this;
    if (this.method === 'CONNECT') {
      this.targetForm = 'authority';
      return isAuthorityWithPort(buffer, targetStart, targetEnd);
    }
    const first = buffer[targetStart];
    if (first === 47) {
      this.targetForm = 'origin';
      return true;
    }
    if (first === 42) {
      this.targetForm = 'asterisk';
      return targetEnd - targetStart === 1 && this.method === 'OPTIONS';
    }
    this.targetForm = 'absolute';
    return isHttpUri(buffer, targetStart, targetEnd);
  }
}

const NOT_A_VERSION = -1;
const OTHER_VERSION = 2;

/** 0 or 1 for HTTP/1.0 and HTTP/1.1; OTHER_VERSION or NOT_A_VERSION. Reads 8 bytes at `p`. */
export function readVersion(buffer: Buffer, p: number): number {
  const isName =
    buffer[p] === 72 &&
    buffer[p + 1] === 84 &&
    buffer[p + 2] === 84 &&
    buffer[p + 3] === 80 &&
    buffer[p + 4] === 47;
  const major = (buffer[p + 5] as number) - 48;
  const minor = (buffer[p + 7] as number) - 48;
  const hasDigits = major >= 0 && major <= 9 && minor >= 0 && minor <= 9;
  if (!isName || !hasDigits || buffer[p + 6] !== 46) return NOT_A_VERSION;
  return major === 1 && minor <= 1 ? minor : OTHER_VERSION;
}

/** `http` or `https` with an authority that has no userinfo (RFC 9110 4.2.4); any path behind it. */
function isHttpUri(buffer: Buffer, start: number, end: number): boolean {
  let p = start;
  if (equalsIgnoringCase(buffer, start, Math.min(end, start + 7), 'http://')) p += 7;
  else if (equalsIgnoringCase(buffer, start, Math.min(end, start + 8), 'https://')) p += 8;
  else return false;
  let authorityEnd = p;
  while (authorityEnd < end) {
    const byte = buffer[authorityEnd];
    if (byte === 47 || byte === QUESTION_MARK) break;
    authorityEnd += 1;
  }
  return isAuthority(buffer, p, authorityEnd);
}

const COMMON_METHODS = [
  'GET',
  'POST',
  'PUT',
  'HEAD',
  'DELETE',
  'OPTIONS',
  'PATCH',
  'CONNECT',
  'TRACE',
  'PROPFIND',
  'REPORT',
] as const;

/** The method's text; one shared string for each common method. */
function readMethod(buffer: Buffer, start: number, end: number): string {
  for (const name of COMMON_METHODS) {
    if (buffer[start] === name.charCodeAt(0) && equals(buffer, start, end, name)) return name;
  }
  return buffer.toString('latin1', start, end);
}

function equals(buffer: Buffer, start: number, end: number, text: string): boolean {
  if (end - start !== text.length) return false;
  for (let i = 0; i < text.length; i += 1) {
    if (buffer[start + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}
