/**
 * Follows a chunked body (RFC 9112 7.1) and hands on what may be forwarded. Strict: 1 to 12 hex
 * digits, no blanks, CRLF only; extensions and trailers are checked, bounded and cut out, trailers
 * unless they are asked for. Nothing is buffered or copied. When to close, and what to answer on a fault, is the relay's decision.
 */
import { CR, COLON, HEX, LF, LOWER, SEMICOLON, TOKEN, VALUE } from './bytes.ts';
import { NameTable } from './name-table.ts';

/** Takes the bytes of `buffer` from `start` up to `end`; never called with an empty run. */
export interface ByteSink {
  put(buffer: Buffer, start: number, end: number): void;
}

/** All input was taken and the body goes on. */
export const NEED_MORE = -1;
/** The body is malformed or over a bound; the connection it came on can carry nothing more. */
export const BODY_FAULT = -2;

const MAX_SIZE_DIGITS = 12;
const MAX_LINE_EXTENSION = 1024;
const MAX_EXTENSIONS = 16_384;
const MAX_TRAILERS = 8192;

/** Fields that would change framing, routing, the connection or who is asking (RFC 9110 6.5.1). */
const FORBIDDEN_TRAILERS = [
  'content-length',
  'transfer-encoding',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'authorization',
  'proxy-authorization',
  'www-authenticate',
  'proxy-authenticate',
  'authentication-info',
  'proxy-authentication-info',
  'set-cookie',
  'cookie',
];
const forbiddenTrailers = new NameTable(
  FORBIDDEN_TRAILERS.map((name) => ({ name, id: 0, nomination: 'removed', variantId: 0 })),
);
const LONGEST_FORBIDDEN = Math.max(...FORBIDDEN_TRAILERS.map((name) => name.length));

const SIZE = 0;
const EXTENSION = 1;
const SIZE_LF = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const TRAILER_START = 6;
const TRAILER_NAME = 7;
const TRAILER_VALUE = 8;
const TRAILER_LF = 9;
const END_LF = 10;
const DONE = 11;

/** One body at a time; `reset` before the next. */
export class ChunkedScanner {
  /** Trailers go along with a body that is handed on verbatim. Set before the first `scan` of a body. */
  keepsTrailers = false;
  #state = SIZE;
  /** Bytes of the chunk still to come. */
  #left = 0;
  #digits = 0;
  #lineExtension = 0;
  #extensions = 0;
  #trailers = 0;
  #nameLength = 0;
  #name: Uint8Array | undefined;

  /** Whether the last byte of the message was seen. */
  get done(): boolean {
    return this.#state === DONE;
  }

  reset(): void {
    this.#state = SIZE;
    this.#left = 0;
    this.#digits = 0;
    this.#lineExtension = 0;
    this.#extensions = 0;
    this.#trailers = 0;
    this.#nameLength = 0;
  }

  /**
   * Goes on from `start` up to `end` and hands the bytes to forward to `sink`, in as few runs as
   * possible. `verbatim` keeps the framing, else only the data is handed on; the same for a whole body.
   * Returns the offset after the message's last byte, NEED_MORE or BODY_FAULT.
   */
  // oxlint-disable-next-line complexity, max-lines-per-function -- One state machine over bytes; every state is a few lines and they share the run.
  scan(buffer: Buffer, start: number, end: number, sink: ByteSink, verbatim: boolean): number {
    if (this.#state === DONE) return start;
    let p = start;
    // Start of the run not yet handed on; -1 while nothing is to be forwarded.
    let run = verbatim ? (this.#isKept() ? p : -1) : this.#state === DATA ? p : -1;
    while (p < end) {
      const byte = buffer[p] as number;
      switch (this.#state) {
        case SIZE: {
          const digit = HEX[byte] as number;
          if (digit >= 0) {
            this.#digits += 1;
            if (this.#digits > MAX_SIZE_DIGITS) return BODY_FAULT;
            this.#left = this.#left * 16 + digit;
          } else if (this.#digits === 0) {
            return BODY_FAULT;
          } else if (byte === CR) {
            this.#state = SIZE_LF;
          } else if (byte === SEMICOLON) {
            if (run >= 0 && run < p) sink.put(buffer, run, p);
            run = -1;
            this.#lineExtension = 0;
            this.#state = EXTENSION;
          } else {
            return BODY_FAULT;
          }
          p += 1;
          break;
        }
        case EXTENSION:
          if (byte === CR) {
            if (verbatim) run = p;
            this.#state = SIZE_LF;
          } else if (VALUE[byte] === 1) {
            this.#lineExtension += 1;
            this.#extensions += 1;
            if (this.#lineExtension > MAX_LINE_EXTENSION) return BODY_FAULT;
            if (this.#extensions > MAX_EXTENSIONS) return BODY_FAULT;
          } else {
            return BODY_FAULT;
          }
          p += 1;
          break;
        case SIZE_LF:
          if (byte !== LF) return BODY_FAULT;
          p += 1;
          this.#digits = 0;
          this.#state = this.#left === 0 ? TRAILER_START : DATA;
          if (!verbatim && this.#left > 0) run = p;
          break;
        case DATA: {
          const available = end - p;
          if (available < this.#left) {
            this.#left -= available;
            p = end;
            break;
          }
          p += this.#left;
          this.#left = 0;
          this.#state = DATA_CR;
          if (!verbatim) {
            sink.put(buffer, run, p);
            run = -1;
          }
          break;
        }
        case DATA_CR:
          if (byte !== CR) return BODY_FAULT;
          p += 1;
          this.#state = DATA_LF;
          break;
        case DATA_LF:
          if (byte !== LF) return BODY_FAULT;
          p += 1;
          this.#state = SIZE;
          break;
        case TRAILER_START:
          if (byte === CR) {
            if (verbatim && run < 0) run = p;
            p += 1;
            this.#state = END_LF;
            break;
          }
          if (!verbatim || !this.keepsTrailers) {
            if (run >= 0 && run < p) sink.put(buffer, run, p);
            run = -1;
          }
          this.#nameLength = 0;
          this.#state = TRAILER_NAME;
          break;
        case END_LF:
          if (byte !== LF) return BODY_FAULT;
          p += 1;
          this.#state = DONE;
          if (run >= 0 && run < p) sink.put(buffer, run, p);
          return p;
        default:
          if (!this.#trailerByte(byte)) return BODY_FAULT;
          p += 1;
      }
    }
    if (run >= 0 && run < p) sink.put(buffer, run, p);
    return NEED_MORE;
  }

  #trailerByte(byte: number): boolean {
    this.#trailers += 1;
    if (this.#trailers > MAX_TRAILERS) return false;
    switch (this.#state) {
      case TRAILER_NAME:
        if (byte === COLON) {
          this.#state = TRAILER_VALUE;
          return this.#nameLength > 0 && !this.#isForbiddenName();
        }
        this.#noteNameByte(byte);
        return TOKEN[byte] === 1;
      case TRAILER_VALUE:
        if (byte === CR) this.#state = TRAILER_LF;
        return byte === CR || VALUE[byte] === 1;
      default:
        this.#state = TRAILER_START;
        return byte === LF;
    }
  }

  #noteNameByte(byte: number): void {
    this.#name ??= new Uint8Array(LONGEST_FORBIDDEN);
    if (this.#nameLength < LONGEST_FORBIDDEN) this.#name[this.#nameLength] = LOWER[byte] as number;
    this.#nameLength += 1;
  }

  #isForbiddenName(): boolean {
    if (this.#name === undefined || this.#nameLength > LONGEST_FORBIDDEN) return false;
    return forbiddenTrailers.find(this.#name, 0, this.#nameLength) >= 0;
  }

  /** Bytes of the present state belong to the framing or the data that is forwarded as it is. */
  #isKept(): boolean {
    const state = this.#state;
    if (state === EXTENSION) return false;
    return this.keepsTrailers || state < TRAILER_START || state === END_LF;
  }
}
