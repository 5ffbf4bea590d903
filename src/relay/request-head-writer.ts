/**
 * The head of a request as it goes upstream: the caller's bytes, less the lines that end at this
 * hop, with Host, forwarding fields and Via.
 *
 * Lines that stay are copied as received. The final empty line and Authorization are not written
 * here: a login may add its token later, on the connection that the request gets.
 */
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { copyAll, copyBytes, latin1 } from './bytes.ts';
import type { ForwardingWriter, RoutePlan } from './plan.ts';

/** `Via: …\r\n`, by the version of the request (RFC 9110 7.6.3). */
export interface ViaLines {
  readonly line11: Buffer;
  readonly line10: Buffer;
}

export interface HeadParts {
  readonly plan: RoutePlan;
  readonly head: RequestHead;
  /** The bytes that `head` was parsed from. */
  readonly buffer: Buffer;
  readonly forwarding: ForwardingWriter;
  /** An upgrade is asked for and allowed: its fields go along. */
  readonly upgrade: boolean;
}

/** A request and what came with its head. */
export interface StartFacts extends HeadParts {
  readonly bodyStart: number;
  readonly end: number;
  /** The caller's connection ends after this answer, by its own wish or version. */
  readonly close: boolean;
}

const VERSION = latin1(' HTTP/1.1\r\n');
const HOST = latin1('Host: ');
const LINE_END = latin1('\r\n');
const UPGRADE = latin1('Connection: Upgrade\r\nUpgrade: ');
/** Constant texts above, and the empty line. */
const FIXED = 128;

/** Upper bound of what `writeRequestHead` writes, in bytes. */
export function requestHeadBound(parts: HeadParts, via: ViaLines): number {
  const { plan, head } = parts;
  const lines = (plan.hostLine?.length ?? 0) + (plan.identityLine?.length ?? 0);
  const own = plan.prefix.length + lines + via.line11.length;
  return head.headEnd - head.headStart + own + parts.forwarding.bound(parts) + FIXED;
}

/** Writes the head into `out`, which has room for the bound; answers the offset after it. */
export function writeRequestHead(parts: HeadParts, via: ViaLines, out: Buffer): number {
  let at = writeRequestLine(parts, out);
  at = writeHost(parts, out, at);
  at = writeKeptLines(parts, out, at);
  const { identityLine } = parts.plan;
  if (identityLine !== undefined) at = copyAll(identityLine, out, at);
  at = parts.forwarding.write(parts, out, at);
  at = copyAll(parts.head.minor === 1 ? via.line11 : via.line10, out, at);
  return parts.upgrade ? writeUpgrade(parts, out, at) : at;
}

function writeRequestLine({ plan, head, buffer }: HeadParts, out: Buffer): number {
  if (plan.stripBytes === 0 && plan.prefix.length === 0) {
    return copyAll(VERSION, out, copyBytes(buffer, head.methodStart, head.targetEnd, out, 0));
  }
  // Method and the space after it, then the target with its start replaced.
  let at = copyBytes(buffer, head.methodStart, head.targetStart, out, 0);
  at = copyAll(plan.prefix, out, at);
  at = copyBytes(buffer, head.targetStart + plan.stripBytes, head.targetEnd, out, at);
  return copyAll(VERSION, out, at);
}

function writeHost({ plan, head, buffer }: HeadParts, out: Buffer, at: number): number {
  if (plan.hostLine !== undefined) return copyAll(plan.hostLine, out, at);
  const first = head.first(REQUEST_FIELD.host);
  if (first < 0) return copyAll(LINE_END, out, copyAll(HOST, out, at));
  const end = copyValue(head, buffer, first, out, copyAll(HOST, out, at));
  return copyAll(LINE_END, out, end);
}

function copyValue(
  head: RequestHead,
  from: Buffer,
  index: number,
  out: Buffer,
  at: number,
): number {
  const entry = index * KNOWN_STRIDE;
  return copyBytes(from, head.known[entry + 3] ?? 0, head.known[entry + 4] ?? 0, out, at);
}

function writeKeptLines(parts: HeadParts, out: Buffer, start: number): number {
  const { plan, head, buffer } = parts;
  const drop = parts.forwarding.trusted ? plan.dropTrusted : plan.drop;
  const known = head.known;
  const count = head.knownCount * KNOWN_STRIDE;
  let at = start;
  let run = head.fieldsStart;
  for (let i = 0; i < count; i += KNOWN_STRIDE) {
    if (drop[known[i] ?? 0] !== 1) continue;
    const lineStart = known[i + 1] ?? 0;
    if (lineStart > run) at = copyBytes(buffer, run, lineStart, out, at);
    run = known[i + 2] ?? 0;
  }
  return run < head.fieldsEnd ? copyBytes(buffer, run, head.fieldsEnd, out, at) : at;
}

function writeUpgrade({ head, buffer }: HeadParts, out: Buffer, start: number): number {
  const first = head.first(REQUEST_FIELD.upgrade);
  const at = copyValue(head, buffer, first, out, copyAll(UPGRADE, out, start));
  return copyAll(LINE_END, out, at);
}
