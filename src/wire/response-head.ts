/**
 * Parses the head of an HTTP/1.x response in one pass over its bytes, with the rules of the request
 * parser. Which responses have a body also depends on the request (RFC 9112 6.3): the relay decides
 * that from `status`, `contentLength` and `chunked`. No field is changed here.
 */
import { CR, LF, SP, VALUE } from './bytes.ts';
import {
  FieldLines,
  KNOWN_STRIDE,
  LINES_DONE,
  LINES_NEED_MORE,
  LINES_TOO_MANY,
} from './field-lines.ts';
import type { HeadLimits } from './field-lines.ts';
import { ConnectionOptions, parseContentLength, readTransferEncoding } from './framing-fields.ts';
import { NameTable } from './name-table.ts';
import type { Nomination } from './name-table.ts';
import type { HeadFault } from './request-head.ts';
import { readVersion } from './request-line.ts';

/** Ids of the known response fields. */
export const RESPONSE_FIELD = {
  contentLength: 0,
  transferEncoding: 1,
  connection: 2,
  keepAlive: 3,
  proxyConnection: 4,
  te: 5,
  trailer: 6,
  upgrade: 7,
  wwwAuthenticate: 8,
  proxyAuthenticate: 9,
  proxyAuthenticationInfo: 10,
  location: 11,
  contentLocation: 12,
  refresh: 13,
  setCookie: 14,
  persistentAuth: 15,
  proxySupport: 16,
  /** A line that a Connection field names, and that is not removed anyway. */
  nominated: 17,
  date: 18,
  via: 19,
} as const;

const IDS = 20;

const FIELDS: readonly (readonly [name: string, id: number, nomination: Nomination])[] = [
  ['content-length', RESPONSE_FIELD.contentLength, 'refused'],
  ['transfer-encoding', RESPONSE_FIELD.transferEncoding, 'refused'],
  ['connection', RESPONSE_FIELD.connection, 'always-removed'],
  ['keep-alive', RESPONSE_FIELD.keepAlive, 'always-removed'],
  ['proxy-connection', RESPONSE_FIELD.proxyConnection, 'always-removed'],
  ['te', RESPONSE_FIELD.te, 'always-removed'],
  ['trailer', RESPONSE_FIELD.trailer, 'always-removed'],
  ['upgrade', RESPONSE_FIELD.upgrade, 'always-removed'],
  ['www-authenticate', RESPONSE_FIELD.wwwAuthenticate, 'removed'],
  ['proxy-authenticate', RESPONSE_FIELD.proxyAuthenticate, 'always-removed'],
  ['proxy-authentication-info', RESPONSE_FIELD.proxyAuthenticationInfo, 'always-removed'],
  ['location', RESPONSE_FIELD.location, 'removed'],
  ['content-location', RESPONSE_FIELD.contentLocation, 'removed'],
  ['refresh', RESPONSE_FIELD.refresh, 'removed'],
  ['set-cookie', RESPONSE_FIELD.setCookie, 'removed'],
  ['persistent-auth', RESPONSE_FIELD.persistentAuth, 'always-removed'],
  ['proxy-support', RESPONSE_FIELD.proxySupport, 'always-removed'],
  ['date', RESPONSE_FIELD.date, 'removed'],
  ['via', RESPONSE_FIELD.via, 'removed'],
];
const names = new NameTable(
  FIELDS.map(([name, id, nomination]) => ({ name, id, nomination, variantId: -1 })),
);

/** Bytes of the name and the colon, to find the byte behind the colon of a known line. */
const TRANSFER_ENCODING_PREFIX = 'transfer-encoding:'.length;
/** Length of `HTTP/1.1 200` and the byte behind it. */
const STATUS_LENGTH = 13;

/** Phase of the parse. */
const STATUS = 0;
const REASON = 1;
const REASON_LF = 2;
const FIELD_LINES = 3;
const ENDED = 4;

/** A reusable parser with the result as plain fields, valid until the next `parse`. Allocates nothing. */
export class ResponseHead {
  fault: HeadFault = 'malformed';
  /** Says the fault for a log; a constant text without any input in it. */
  faultDetail = '';
  /** 100 to 999; what lies above 599 is forwarded as it is. */
  status = 0;
  /** Minor version of HTTP/1.x. */
  minor: 0 | 1 = 1;
  headStart = 0;
  /** The reason phrase; empty when there is none. */
  reasonStart = 0;
  reasonEnd = 0;
  /** First byte behind the status line. */
  fieldsStart = 0;
  /** Offset of the empty line. */
  fieldsEnd = 0;
  /** Offset behind the empty line. */
  headEnd = 0;
  /** -1 without Content-Length. */
  contentLength = -1;
  chunked = false;
  readonly #lines = new FieldLines(names, IDS);
  readonly #options = new ConnectionOptions();
  #phase = ENDED;
  #result = 0;
  #position = 0;
  #limitEnd = 0;
  #maxFields = 0;

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
   * Parses a head that begins at `start`. Returns the offset behind the head, 0 when bytes are missing
   * (then call `resume`), or -1 with `fault` set.
   */
  parse(buffer: Buffer, start: number, end: number, limits: HeadLimits): number {
    this.#phase = STATUS;
    this.headStart = start;
    this.#position = start;
    this.#limitEnd = start + limits.maxBytes;
    this.#maxFields = limits.maxFields;
    return this.resume(buffer, end);
  }

  /** Goes on after bytes were added: the same bytes at the same offsets, in the same or a longer buffer. */
  resume(buffer: Buffer, end: number): number {
    if (this.#phase === ENDED) return this.#result;
    const limited = Math.min(end, this.#limitEnd);
    if (this.#phase !== FIELD_LINES) {
      const state = this.#scanStatusLine(buffer, limited);
      if (state === 0) return this.#needMore(end);
      if (state < 0) return -1;
      this.#lines.begin(this.fieldsStart, this.#maxFields);
      this.#phase = FIELD_LINES;
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

  /** 1 at the end of the line, 0 when bytes are missing, -1 on a fault. */
  #scanStatusLine(buffer: Buffer, end: number): number {
    let p = this.#position;
    if (this.#phase === STATUS) {
      if (end - p < STATUS_LENGTH) return this.#checkBeginning(buffer, p, end);
      if (!this.#readStatus(buffer, p)) return -1;
      p += STATUS_LENGTH - 1;
      if (buffer[p] === SP) p += 1;
      this.reasonStart = p;
      this.#phase = REASON;
    }
    if (this.#phase === REASON) {
      while (p < end && VALUE[buffer[p] as number] === 1) p += 1;
      this.#position = p;
      if (p >= end) return 0;
      if (buffer[p] !== CR) return this.#refuse('malformed', 'malformed reason phrase');
      this.reasonEnd = p;
      p += 1;
      this.#phase = REASON_LF;
    }
    this.#position = p;
    if (p >= end) return 0;
    if (buffer[p] !== LF) return this.#refuse('malformed', 'malformed reason phrase');
    this.fieldsStart = p + 1;
    return 1;
  }

  /** Refuses what is no HTTP at its first byte, so that a wrong server is not waited for. */
  #checkBeginning(buffer: Buffer, start: number, end: number): number {
    const last = Math.min(end, start + PROTOCOL.length);
    for (let p = start; p < last; p += 1) {
      if (buffer[p] !== PROTOCOL.charCodeAt(p - start)) {
        return this.#refuse('malformed', 'malformed status line');
      }
    }
    return 0;
  }

  #readStatus(buffer: Buffer, p: number): boolean {
    const version = readVersion(buffer, p);
    const hundreds = (buffer[p + 9] as number) - 48;
    const tens = (buffer[p + 10] as number) - 48;
    const ones = (buffer[p + 11] as number) - 48;
    const hasDigits =
      hundreds >= 1 && hundreds <= 9 && tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9;
    const hasEnd = buffer[p + 12] === SP || buffer[p + 12] === CR;
    if (version < 0 || buffer[p + 8] !== SP || !hasDigits || !hasEnd) {
      this.#refuse('malformed', 'malformed status line');
      return false;
    }
    if (version > 1) {
      this.#refuse('version', 'HTTP version is not 1.0 or 1.1');
      return false;
    }
    this.minor = version === 1 ? 1 : 0;
    this.status = hundreds * 100 + tens * 10 + ones;
    return true;
  }

  #needMore(end: number): number {
    return end >= this.#limitEnd ? this.#refuse('too-large', 'head over its size limit') : 0;
  }

  #refuse(fault: HeadFault, detail: string): -1 {
    this.fault = fault;
    this.faultDetail = detail;
    this.#phase = ENDED;
    this.#result = -1;
    return -1;
  }

  #malformed(detail: string): false {
    this.#refuse('malformed', detail);
    return false;
  }

  /** The checks that need the whole head, in a fixed order. */
  #conclude(buffer: Buffer): number {
    this.contentLength = -1;
    this.chunked = false;
    this.#options.begin();
    const known = this.#lines.known;
    const knownEnd = this.#lines.knownCount * KNOWN_STRIDE;
    for (let at = 0; at < knownEnd; at += KNOWN_STRIDE) {
      if (!this.#readField(buffer, known, at)) return -1;
    }
    if (!this.#isConsistent()) return -1;
    if (this.#options.nominated.size !== 0) this.#nominate(buffer);
    this.#phase = ENDED;
    this.#result = this.headEnd;
    return this.headEnd;
  }

  #readField(buffer: Buffer, known: Int32Array, at: number): boolean {
    const start = known[at + 3] as number;
    const end = known[at + 4] as number;
    switch (known[at]) {
      case RESPONSE_FIELD.contentLength:
        this.contentLength = parseContentLength(buffer, start, end);
        return this.contentLength >= 0 || this.#malformed('invalid Content-Length');
      case RESPONSE_FIELD.transferEncoding:
        this.chunked = true;
        return (
          readTransferEncoding(
            buffer,
            (known[at + 1] as number) + TRANSFER_ENCODING_PREFIX,
            (known[at + 2] as number) - 2,
          ) === 'chunked' || this.#malformed('Transfer-Encoding other than chunked')
        );
      case RESPONSE_FIELD.connection:
        return (
          this.#options.add(buffer, start, end, names) ||
          this.#malformed('Connection is no list of fields that may be removed')
        );
      default:
        return true;
    }
  }

  #isConsistent(): boolean {
    const lengths = this.#lines.count(RESPONSE_FIELD.contentLength);
    if (lengths > 1) return this.#malformed('more than one Content-Length');
    if (this.chunked) {
      if (this.minor === 0) return this.#malformed('Transfer-Encoding in HTTP/1.0');
      if (lengths > 0) return this.#malformed('both framing fields');
      if (this.#lines.count(RESPONSE_FIELD.transferEncoding) > 1) {
        return this.#malformed('more than one Transfer-Encoding');
      }
    }
    // An interim answer ends with its head (RFC 9112 6.3); a peer that thinks otherwise is out of step.
    if (this.status < 200 && (this.chunked || this.contentLength > 0)) {
      return this.#malformed('interim answer with content');
    }
    return true;
  }

  #nominate(buffer: Buffer): void {
    this.#lines.nominate(
      buffer,
      this.fieldsStart,
      this.#options.nominated,
      RESPONSE_FIELD.nominated,
      (id) => names.nominationOf(id) !== 'removed',
    );
  }
}

const PROTOCOL = 'HTTP/';
