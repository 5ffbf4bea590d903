/**
 * Parses the head of an HTTP/1.x request in one pass over its bytes, and decides how the message is
 * framed. Every doubt is a fault, because the connection behind us carries somebody's identity: one
 * framing field in one spelling, one Host, no field removed that decides framing, routing or identity.
 * Statuses, routing and the meaning of other fields are decided elsewhere; no field is changed here.
 */
import { isAuthority } from '../http/authority.ts';
import { equalsIgnoringCase } from './bytes.ts';
import {
  FieldLines,
  KNOWN_STRIDE,
  LINES_DONE,
  LINES_NEED_MORE,
  LINES_TOO_MANY,
} from './field-lines.ts';
import type { HeadLimits } from './field-lines.ts';
import { ConnectionOptions, parseContentLength, readTransferEncoding } from './framing-fields.ts';
import type { NameTable } from './name-table.ts';
import { REQUEST_FIELD } from './request-fields.ts';
import type { RequestFields } from './request-fields.ts';
import { LINE_DONE, LINE_NEED_MORE, LINE_VERSION, RequestLine } from './request-line.ts';
import type { TargetForm } from './request-line.ts';

export { REQUEST_FIELD, RequestFields } from './request-fields.ts';
export type { HeadLimits } from './field-lines.ts';
export type { TargetForm } from './request-line.ts';

/** Why a head was refused. */
export type HeadFault =
  'malformed' | 'too-large' | 'too-many-fields' | 'version' | 'transfer-coding' | 'expectation';

/** Bytes of the name and the colon, to find the byte behind the colon of a known line. */
const TRANSFER_ENCODING_PREFIX = 'transfer-encoding:'.length;

/** Phase of the parse. */
const REQUEST_LINE = 0;
const FIELDS = 1;
const ENDED = 2;

/**
 * A reusable parser with the result as plain fields, valid until the next `parse`. All offsets are
 * offsets in the buffer given last. Allocates nothing for a head of common methods and known options.
 */
export class RequestHead {
  fault: HeadFault = 'malformed';
  /** Says the fault for a log; a constant text without any input in it. */
  faultDetail = '';
  /** GET, HEAD or OPTIONS. */
  safe = false;
  /** Safe, or PUT or DELETE. */
  idempotent = false;
  isHead = false;
  /** First byte behind the request line. */
  fieldsStart = 0;
  /** Offset of the empty line. */
  fieldsEnd = 0;
  /** Offset behind the empty line. */
  headEnd = 0;
  /** -1 without Content-Length. */
  contentLength = -1;
  chunked = false;
  /** `Expect: 100-continue` of an HTTP/1.1 request. */
  expectContinue = false;
  readonly #names: NameTable;
  readonly #single: Uint8Array;
  readonly #line = new RequestLine();
  readonly #lines: FieldLines;
  readonly #options = new ConnectionOptions();
  #phase = ENDED;
  #result = 0;
  /** No byte from here on belongs to an acceptable head. */
  #limitEnd = 0;
  #maxFields = 0;

  constructor(fields: RequestFields) {
    this.#names = fields.table;
    this.#single = fields.single;
    this.#lines = new FieldLines(fields.table, fields.size);
  }

  /** The method as sent; methods are case-sensitive. */
  get method(): string {
    return this.#line.method;
  }
  /** First byte of the request line, behind empty lines. */
  get headStart(): number {
    return this.#line.start;
  }
  get methodStart(): number {
    return this.#line.start;
  }
  get methodEnd(): number {
    return this.#line.methodEnd;
  }
  get targetStart(): number {
    return this.#line.targetStart;
  }
  get targetEnd(): number {
    return this.#line.targetEnd;
  }
  /** Offset of the target's first `?`, or `targetEnd`. */
  get pathEnd(): number {
    return this.#line.pathEnd;
  }
  get targetForm(): TargetForm {
    return this.#line.targetForm;
  }
  /** Minor version of HTTP/1.x. */
  get minor(): 0 | 1 {
    return this.#line.minor;
  }
  /** The `close` option of Connection; the default of a version is not applied here. */
  get close(): boolean {
    return this.#options.close;
  }
  /** The `keep-alive` option of Connection. */
  get keepAlive(): boolean {
    return this.#options.keepAlive;
  }
  /** The `upgrade` option of Connection. */
  get upgrade(): boolean {
    return this.#options.upgrade;
  }
  /** Known lines in order: id, lineStart, lineEnd (behind CRLF), valueStart, valueEnd (blanks trimmed). */
  get known(): Int32Array {
    return this.#lines.known;
  }
  /** Number of entries in `known`, of five numbers each. */
  get knownCount(): number {
    return this.#lines.knownCount;
  }

  /**
   * Parses a head that begins at `start`, behind at most four empty lines. Returns the offset behind
   * the head, 0 when bytes are missing (then call `resume`), or -1 with `fault` set.
   */
  parse(buffer: Buffer, start: number, end: number, limits: HeadLimits): number {
    this.#phase = REQUEST_LINE;
    this.#limitEnd = start + limits.maxBytes;
    this.#maxFields = limits.maxFields;
    this.#line.begin(start);
    return this.resume(buffer, end);
  }

  /** Goes on after bytes were added: the same bytes at the same offsets, in the same or a longer buffer. */
  resume(buffer: Buffer, end: number): number {
    if (this.#phase === ENDED) return this.#result;
    const limited = Math.min(end, this.#limitEnd);
    if (this.#phase === REQUEST_LINE) {
      const state = this.#line.scan(buffer, limited);
      if (state === LINE_NEED_MORE) return this.#needMore(end);
      if (state !== LINE_DONE) return this.#refuseLine(state);
      this.fieldsStart = this.#line.position;
      this.#lines.begin(this.fieldsStart, this.#maxFields);
      this.#phase = FIELDS;
    }
    const state = this.#lines.scan(buffer, limited);
    if (state === LINES_NEED_MORE) return this.#needMore(end);
    if (state === LINES_TOO_MANY) return this.#refuse('too-many-fields', 'too many field lines');
    if (state !== LINES_DONE) return this.#refuse('malformed', 'malformed field line');
    this.headEnd = this.#lines.position;
    this.fieldsEnd = this.headEnd - 2;
    return this.#conclude(buffer);
  }

  /** Index into `known`'s entries of the first line of `id`, or -1. */
  first(id: number): number {
    return this.#lines.first(id);
  }

  /** Number of lines of `id`. */
  count(id: number): number {
    return this.#lines.count(id);
  }

  /** The first value of `id` as latin1 text. Makes a string: not for the common path. */
  valueText(buffer: Buffer, id: number): string | undefined {
    return this.#lines.valueText(buffer, id);
  }

  #needMore(end: number): number {
    return end >= this.#limitEnd ? this.#refuse('too-large', 'head over its size limit') : 0;
  }

  #refuseLine(state: number): number {
    if (state === LINE_VERSION) return this.#refuse('version', 'HTTP version is not 1.0 or 1.1');
    return this.#refuse('malformed', 'malformed request line');
  }

  #refuse(fault: HeadFault, detail: string): number {
    this.fault = fault;
    this.faultDetail = detail;
    this.#phase = ENDED;
    this.#result = -1;
    return -1;
  }

  /** The checks that need the whole head, in a fixed order. */
  #conclude(buffer: Buffer): number {
    this.contentLength = -1;
    this.chunked = false;
    this.expectContinue = false;
    this.#options.begin();
    this.#noteMethod();
    const known = this.#lines.known;
    const knownEnd = this.#lines.knownCount * KNOWN_STRIDE;
    for (let at = 0; at < knownEnd; at += KNOWN_STRIDE) {
      if (!this.#readField(buffer, known, at)) return -1;
      const id = known[at] as number;
      if (this.#single[id] === 1 && this.#lines.count(id) > 1) {
        return this.#refuse('malformed', 'two fields name the caller');
      }
    }
    if (!this.#isConsistent()) return -1;
    if (this.#options.nominated.size !== 0) this.#nominate(buffer);
    this.#phase = ENDED;
    this.#result = this.headEnd;
    return this.headEnd;
  }

  #noteMethod(): void {
    const method = this.#line.method;
    this.isHead = method === 'HEAD';
    this.safe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
    this.idempotent = this.safe || method === 'PUT' || method === 'DELETE';
  }

  #readField(buffer: Buffer, known: Int32Array, at: number): boolean {
    const start = known[at + 3] as number;
    const end = known[at + 4] as number;
    switch (known[at]) {
      case REQUEST_FIELD.host:
        return isAuthority(buffer, start, end) || this.#malformed('invalid Host');
      case REQUEST_FIELD.contentLength:
        this.contentLength = parseContentLength(buffer, start, end);
        return this.contentLength >= 0 || this.#malformed('invalid Content-Length');
      case REQUEST_FIELD.transferEncoding:
        return this.#readCoding(buffer, known[at + 1] as number, known[at + 2] as number);
      case REQUEST_FIELD.connection:
        return (
          this.#options.add(buffer, start, end, this.#names) ||
          this.#malformed('Connection is no list of fields that may be removed')
        );
      case REQUEST_FIELD.expect:
        // An HTTP/1.0 client does not wait for an interim answer (RFC 9110 10.1.1).
        this.expectContinue = this.#line.minor === 1;
        if (equalsIgnoringCase(buffer, start, end, '100-continue')) return true;
        this.#refuse('expectation', 'unknown expectation');
        return false;
      default:
        return true;
    }
  }

  #readCoding(buffer: Buffer, lineStart: number, lineEnd: number): boolean {
    const coding = readTransferEncoding(buffer, lineStart + TRANSFER_ENCODING_PREFIX, lineEnd - 2);
    if (coding === 'chunked') {
      this.chunked = true;
      return true;
    }
    if (coding === 'malformed') return this.#malformed('malformed Transfer-Encoding');
    this.#refuse('transfer-coding', 'transfer coding other than chunked');
    return false;
  }

  #isConsistent(): boolean {
    const lines = this.#lines;
    const hosts = lines.count(REQUEST_FIELD.host);
    if (hosts > 1) return this.#malformed('more than one Host');
    if (hosts === 0 && this.#line.minor === 1) return this.#malformed('no Host');
    if (this.chunked || this.contentLength > 0) {
      if (this.isHead) return this.#malformed('HEAD with content');
      if (this.#line.targetForm === 'authority') return this.#malformed('CONNECT with content');
    }
    if (this.chunked) {
      if (this.#line.minor === 0) return this.#malformed('Transfer-Encoding in HTTP/1.0');
      if (this.contentLength >= 0) return this.#malformed('both framing fields');
      if (lines.count(REQUEST_FIELD.transferEncoding) > 1) {
        return this.#malformed('more than one Transfer-Encoding');
      }
    }
    if (lines.count(REQUEST_FIELD.contentLength) > 1) {
      return this.#malformed('more than one Content-Length');
    }
    if (lines.count(REQUEST_FIELD.authorization) > 1) {
      return this.#malformed('more than one Authorization');
    }
    if (lines.count(REQUEST_FIELD.proxyAuthorization) > 1) {
      return this.#malformed('more than one Proxy-Authorization');
    }
    return true;
  }

  #malformed(detail: string): false {
    this.#refuse('malformed', detail);
    return false;
  }

  #nominate(buffer: Buffer): void {
    this.#lines.nominate(
      buffer,
      this.fieldsStart,
      this.#options.nominated,
      REQUEST_FIELD.nominated,
      (id) => this.#names.nominationOf(id) !== 'removed',
    );
  }
}
