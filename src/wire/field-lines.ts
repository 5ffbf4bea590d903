/**
 * Scans the field lines of a head, byte by byte, from the first line to the empty line, and notes
 * where the known ones are. Decides the syntax of a line (RFC 9112 5, strict: CRLF only, no folding,
 * no blank before the colon, no control byte) and the two limits; what a field means is not known here.
 */
import { COLON, CR, HTAB, LF, SP, TOKEN, VALUE } from './bytes.ts';
import type { NameTable } from './name-table.ts';

/** Numbers per entry of `known`: id, lineStart, lineEnd, valueStart, valueEnd. */
export const KNOWN_STRIDE = 5;

/** `fields` is the number of lines; both bounds are inclusive. */
export interface HeadLimits {
  readonly maxBytes: number;
  readonly maxFields: number;
}

export const LINES_DONE = 1;
export const LINES_NEED_MORE = 0;
export const LINES_MALFORMED = -1;
export const LINES_TOO_MANY = -2;

const LINE_START = 0;
const NAME = 1;
const VALUE_BYTES = 2;
const LINE_LF = 3;
const END_LF = 4;

/** Resumable: the state between two calls is a few numbers, so each byte is looked at a fixed number of times. */
export class FieldLines {
  known: Int32Array = new Int32Array(KNOWN_STRIDE * 32);
  knownCount = 0;
  /** Offset of the next byte to look at; after LINES_DONE the first byte behind the empty line. */
  position = 0;
  readonly #names: NameTable;
  readonly #first: Int32Array;
  readonly #count: Int32Array;
  #state = LINE_START;
  #lineStart = 0;
  #nameEnd = 0;
  #lines = 0;
  #maxFields = 0;

  /** Ids of `names` and the ids given to `nominate` are below `ids`. */
  constructor(names: NameTable, ids: number) {
    this.#names = names;
    this.#first = new Int32Array(ids).fill(-1);
    this.#count = new Int32Array(ids);
  }

  /** Forgets the last head; its fields start at `position`. */
  begin(position: number, maxFields: number): void {
    this.#forgetKnown();
    this.position = position;
    this.#state = LINE_START;
    this.#lines = 0;
    this.#maxFields = maxFields;
  }

  /** Index of the first known line of `id`, or -1. */
  first(id: number): number {
    return this.#first[id] ?? -1;
  }

  /** Number of lines of `id`. */
  count(id: number): number {
    return this.#count[id] ?? 0;
  }

  /** The first value of `id` as latin1 text, or undefined. */
  valueText(buffer: Buffer, id: number): string | undefined {
    const index = this.first(id);
    if (index < 0) return undefined;
    const at = index * KNOWN_STRIDE;
    return buffer.toString('latin1', this.known[at + 3], this.known[at + 4]);
  }

  /** Goes on up to `end`. The result depends on the bytes only, never on how they were split. */
  // oxlint-disable-next-line complexity -- One state machine over bytes; cut in parts it is slower and harder to check.
  scan(buffer: Buffer, end: number): number {
    let p = this.position;
    let state = this.#state;
    for (;;) {
      if (state === LINE_START) {
        if (p >= end) break;
        if (buffer[p] === CR) {
          p += 1;
          state = END_LF;
        } else {
          this.#lines += 1;
          if (this.#lines > this.#maxFields) return LINES_TOO_MANY;
          this.#lineStart = p;
          state = NAME;
        }
      }
      if (state === NAME) {
        while (p < end && TOKEN[buffer[p] as number] === 1) p += 1;
        if (p >= end) break;
        if (buffer[p] !== COLON || p === this.#lineStart) return LINES_MALFORMED;
        this.#nameEnd = p;
        p += 1;
        state = VALUE_BYTES;
      }
      if (state === VALUE_BYTES) {
        while (p < end && VALUE[buffer[p] as number] === 1) p += 1;
        if (p >= end) break;
        if (buffer[p] !== CR) return LINES_MALFORMED;
        p += 1;
        state = LINE_LF;
      }
      if (p >= end) break;
      if (buffer[p] !== LF) return LINES_MALFORMED;
      p += 1;
      if (state === END_LF) {
        this.position = p;
        return LINES_DONE;
      }
      const id = this.#names.find(buffer, this.#lineStart, this.#nameEnd);
      if (id >= 0) this.#noteLine(buffer, id, p);
      state = LINE_START;
    }
    this.position = p;
    this.#state = state;
    return LINES_NEED_MORE;
  }

  /**
   * Gives the lines named in `options` (lower case) the id `nominated`, wherever they stand, and keeps
   * the order. Lines whose id is `keeps` keep it. Only for a scanned head that began at `start`.
   */
  nominate(
    buffer: Buffer,
    start: number,
    options: ReadonlySet<string>,
    nominated: number,
    keeps: (id: number) => boolean,
  ): void {
    const before = this.known.slice(0, this.knownCount * KNOWN_STRIDE);
    this.#forgetKnown();
    let entry = 0;
    let p = start;
    while (buffer[p] !== CR) {
      const nameEnd = buffer.indexOf(COLON, p);
      const lineEnd = buffer.indexOf(LF, nameEnd) + 1;
      const isKnown = before[entry + 1] === p && entry < before.length;
      const id = isKnown ? (before[entry] as number) : -1;
      if (isKnown) entry += KNOWN_STRIDE;
      this.#lineStart = p;
      this.#nameEnd = nameEnd;
      if (
        (id < 0 || !keeps(id)) &&
        options.has(buffer.toString('latin1', p, nameEnd).toLowerCase())
      ) {
        this.#noteLine(buffer, nominated, lineEnd);
      } else if (id >= 0) {
        this.#noteLine(buffer, id, lineEnd);
      }
      p = lineEnd;
    }
  }

  #forgetKnown(): void {
    for (let i = 0; i < this.knownCount; i += 1) {
      const id = this.known[i * KNOWN_STRIDE] as number;
      this.#first[id] = -1;
      this.#count[id] = 0;
    }
    this.knownCount = 0;
  }

  #noteLine(buffer: Buffer, id: number, lineEnd: number): void {
    let valueStart = this.#nameEnd + 1;
    let valueEnd = lineEnd - 2;
    while (valueStart < valueEnd && isBlank(buffer[valueStart] as number)) valueStart += 1;
    while (valueEnd > valueStart && isBlank(buffer[valueEnd - 1] as number)) valueEnd -= 1;
    const at = this.knownCount * KNOWN_STRIDE;
    if (at === this.known.length) {
      const grown = new Int32Array(this.known.length * 2);
      grown.set(this.known);
      this.known = grown;
    }
    const known = this.known;
    known[at] = id;
    known[at + 1] = this.#lineStart;
    known[at + 2] = lineEnd;
    known[at + 3] = valueStart;
    known[at + 4] = valueEnd;
    if (this.#count[id] === 0) this.#first[id] = this.knownCount;
    this.#count[id] = (this.#count[id] as number) + 1;
    this.knownCount += 1;
  }
}

function isBlank(byte: number): boolean {
  return byte === SP || byte === HTAB;
}
