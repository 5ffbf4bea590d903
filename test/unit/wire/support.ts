/**
 * Feeds whole messages to the parsers of src/wire, in any pieces, between guard bytes, and gives the
 * outcome as plain data to compare. Offsets in an outcome count from the message's first byte.
 */
import { BODY_FAULT, ChunkedScanner, NEED_MORE } from '../../../src/wire/chunked.ts';
import { RequestFields, RequestHead } from '../../../src/wire/request-head.ts';
import type { HeadLimits } from '../../../src/wire/request-head.ts';
import { ResponseHead } from '../../../src/wire/response-head.ts';

export const LIMITS: HeadLimits = { maxBytes: 65_536, maxFields: 200 };
export const fields = new RequestFields(['X-Remote-User']);

/** Bytes around the message; a parser that reads them comes to another result. */
const GUARD = 32;

export interface KnownLine {
  readonly id: number;
  readonly line: string;
  readonly value: string;
}

export interface Message {
  readonly kind: 'message';
  readonly head: Readonly<Record<string, string | number | boolean>>;
  readonly known: readonly KnownLine[];
  /** Data of the body, or what there is of it when it ends with the connection. */
  readonly body: string;
  /** The body as forwarded with its framing; the data when it is not chunked. */
  readonly forwarded: string;
  readonly untilClose: boolean;
  readonly end: number;
}
export type Outcome =
  Message | { readonly kind: 'more' } | { readonly kind: 'fault'; readonly fault: string };

export interface Feeding {
  readonly limits?: HeadLimits;
  /** Ends of the pieces, ascending; the message's length comes last by itself. */
  readonly cuts?: readonly number[];
  readonly poison?: number;
  /** A response to HEAD. */
  readonly toHead?: boolean;
}

type Head = RequestHead | ResponseHead;

export function readRequest(bytes: Buffer, feeding: Feeding = {}): Outcome {
  return new Reader(new RequestHead(fields), bytes, feeding).run();
}

export function readResponse(bytes: Buffer, feeding: Feeding = {}): Outcome {
  return new Reader(new ResponseHead(), bytes, feeding).run();
}

export function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** All ways to cut `length` bytes into two pieces, and the one into single bytes. */
export function everySplit(length: number): (readonly number[])[] {
  const single = Array.from({ length }, (_, index) => index + 1);
  return [...single.map((cut) => [cut]), [0], single];
}

class Collector {
  readonly #parts: string[] = [];
  put(buffer: Buffer, start: number, end: number): void {
    if (end <= start) throw new Error('an empty run was handed on');
    this.#parts.push(buffer.toString('latin1', start, end));
  }
  get text(): string {
    return this.#parts.join('');
  }
}

class Reader {
  readonly #head: Head;
  readonly #bytes: Buffer;
  readonly #feeding: Feeding;
  readonly #data = new Collector();
  readonly #framed = new Collector();
  readonly #dataScanner = new ChunkedScanner();
  readonly #framedScanner = new ChunkedScanner();
  #buffer: Buffer;
  #headEnd = 0;

  constructor(head: Head, bytes: Buffer, feeding: Feeding) {
    this.#head = head;
    this.#bytes = bytes;
    this.#feeding = feeding;
    this.#buffer = this.#emptyBuffer();
  }

  run(): Outcome {
    let outcome: Outcome = { kind: 'more' };
    let previous = -1;
    for (const cut of [...(this.#feeding.cuts ?? []), this.#bytes.length]) {
      // Each piece comes in a new buffer with fresh guard bytes, as when a reader's buffer grows.
      this.#buffer = this.#emptyBuffer();
      this.#bytes.copy(this.#buffer, GUARD, 0, cut);
      outcome = this.#feed(previous, cut);
      if (outcome.kind !== 'more') return outcome;
      previous = cut;
    }
    return outcome;
  }

  #emptyBuffer(): Buffer {
    return Buffer.alloc(this.#bytes.length + 2 * GUARD, this.#feeding.poison ?? 0x41);
  }

  #feed(previous: number, cut: number): Outcome {
    const end = GUARD + cut;
    let from = GUARD + Math.max(previous, 0);
    if (this.#headEnd === 0) {
      const limits = this.#feeding.limits ?? LIMITS;
      const head = this.#head;
      const result =
        previous < 0
          ? head.parse(this.#buffer, GUARD, end, limits)
          : head.resume(this.#buffer, end);
      if (result === 0) return { kind: 'more' };
      if (result < 0) return { kind: 'fault', fault: head.fault };
      this.#headEnd = result;
      from = result;
    }
    return this.#feedBody(from, end);
  }

  #feedBody(from: number, end: number): Outcome {
    const head = this.#head;
    if (this.#hasNoBody()) return this.#message(this.#headEnd);
    if (head.chunked) {
      const framed = this.#framedScanner.scan(this.#buffer, from, end, this.#framed, true);
      const data = this.#dataScanner.scan(this.#buffer, from, end, this.#data, false);
      if (framed !== data || this.#dataScanner.done !== data >= 0) throw new Error('modes differ');
      if (data === BODY_FAULT) return { kind: 'fault', fault: 'body' };
      return data === NEED_MORE ? { kind: 'more' } : this.#message(data);
    }
    const length = head.contentLength;
    if (length < 0 && head instanceof ResponseHead) {
      if (end < GUARD + this.#bytes.length) return { kind: 'more' };
      this.#takeBody(end);
      return this.#message(end, true);
    }
    const bodyEnd = this.#headEnd + Math.max(length, 0);
    if (bodyEnd > end) return { kind: 'more' };
    this.#takeBody(bodyEnd);
    return this.#message(bodyEnd);
  }

  #takeBody(end: number): void {
    if (end === this.#headEnd) return;
    this.#data.put(this.#buffer, this.#headEnd, end);
    this.#framed.put(this.#buffer, this.#headEnd, end);
  }

  #hasNoBody(): boolean {
    const head = this.#head;
    if (head instanceof RequestHead) return false;
    const { status } = head;
    return this.#feeding.toHead === true || status < 200 || status === 204 || status === 304;
  }

  #message(end: number, untilClose = false): Message {
    const buffer = this.#buffer;
    return {
      kind: 'message',
      head: snapshot(this.#head, buffer),
      known: knownLines(this.#head, buffer),
      body: this.#data.text,
      forwarded: this.#framed.text,
      untilClose,
      end: end - GUARD,
    };
  }
}

function knownLines(head: Head, buffer: Buffer): KnownLine[] {
  const lines: KnownLine[] = [];
  for (let at = 0; at < head.knownCount * 5; at += 5) {
    const [id = -1, lineStart, lineEnd, valueStart, valueEnd] = head.known.subarray(at, at + 5);
    lines.push({
      id,
      line: buffer.toString('latin1', lineStart, lineEnd),
      value: buffer.toString('latin1', valueStart, valueEnd),
    });
  }
  return lines;
}

function snapshot(head: Head, buffer: Buffer): Message['head'] {
  const text = (start: number, end: number): string => buffer.toString('latin1', start, end);
  const { minor, contentLength, chunked, close, keepAlive, upgrade } = head;
  const shared = {
    minor,
    contentLength,
    chunked,
    close,
    keepAlive,
    upgrade,
    headStart: head.headStart - GUARD,
    fields: text(head.fieldsStart, head.fieldsEnd),
    headEnd: head.headEnd - GUARD,
  };
  if (head instanceof ResponseHead) {
    return { ...shared, status: head.status, reason: text(head.reasonStart, head.reasonEnd) };
  }
  return {
    ...shared,
    method: head.method,
    methodText: text(head.methodStart, head.methodEnd),
    target: text(head.targetStart, head.targetEnd),
    path: text(head.targetStart, head.pathEnd),
    targetForm: head.targetForm,
    safe: head.safe,
    idempotent: head.idempotent,
    isHead: head.isHead,
    expectContinue: head.expectContinue,
  };
}
