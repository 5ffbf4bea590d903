/**
 * The head of a response as it goes to the caller: the upstream's bytes, less the lines that end at
 * this hop.
 *
 * The common case changes nothing else, and happens inside the read buffer: what stays moves up
 * against the body, so that head and body leave in one write. Anything that adds a line is written
 * elsewhere first.
 */
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { ResponseHead } from '../wire/response-head.ts';
import { copyBytes, CRLF, copyAll } from './bytes.ts';

/** Offset of the minor version in `HTTP/1.1`; the version sent is this hop's own (RFC 9110 6.2). */
const MINOR_OFFSET = 7;
const ONE = 0x31;

/** A change of some lines: which entries of `known` to leave out, and what to add at the end. */
export interface LineChanges {
  /** Indices of entries in `known`, beside those that `drop` names. */
  readonly leaveOut: ReadonlySet<number>;
  /** Whole lines, each with its CRLF. */
  readonly added: Buffer;
}

/**
 * Closes the gaps of dropped lines towards the end of the head.
 *
 * Answers the offset where the head starts now; it ends where it ended. `drop` is by field id.
 */
export function closeGaps(head: ResponseHead, buffer: Buffer, drop: Uint8Array): number {
  buffer[head.headStart + MINOR_OFFSET] = ONE;
  const known = head.known;
  // What lies behind the last gap stays where it is.
  let to = head.headEnd;
  let runEnd = head.headEnd;
  for (let i = (head.knownCount - 1) * KNOWN_STRIDE; i >= 0; i -= KNOWN_STRIDE) {
    if (drop[known[i] ?? 0] !== 1) continue;
    const runStart = known[i + 2] ?? 0;
    to -= runEnd - runStart;
    if (to !== runStart) buffer.copyWithin(to, runStart, runEnd);
    runEnd = known[i + 1] ?? 0;
  }
  to -= runEnd - head.headStart;
  if (to !== head.headStart) buffer.copyWithin(to, head.headStart, runEnd);
  return to;
}

/** Upper bound of what `writeResponseHead` writes, in bytes. */
export const responseHeadBound = (head: ResponseHead, changes: LineChanges): number =>
  head.headEnd - head.headStart + changes.added.length;

/** Writes the changed head into `out`, which has room for the bound; answers its length. */
export function writeResponseHead(
  head: ResponseHead,
  buffer: Buffer,
  drop: Uint8Array,
  changes: LineChanges,
  out: Buffer,
): number {
  const known = head.known;
  let at = 0;
  let run = head.headStart;
  for (let entry = 0; entry < head.knownCount; entry += 1) {
    const i = entry * KNOWN_STRIDE;
    if (drop[known[i] ?? 0] !== 1 && !changes.leaveOut.has(entry)) continue;
    at = copyBytes(buffer, run, known[i + 1] ?? 0, out, at);
    run = known[i + 2] ?? 0;
  }
  at = copyBytes(buffer, run, head.fieldsEnd, out, at);
  out[MINOR_OFFSET] = ONE;
  return copyAll(CRLF, out, copyAll(changes.added, out, at));
}
