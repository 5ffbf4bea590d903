/** Reads what wrk said of one point, and tells whether the point may count. */

import { RESULT_MARK } from './cases.ts';

const COUNTS = [
  'requests',
  'bytes',
  'microseconds',
  'p50',
  'p99',
  'connect',
  'read',
  'write',
  'timeout',
  'status',
] as const;

/** Numbers of one run of wrk: latencies in microseconds, errors by kind, `status` those of 400 and up. */
export type WrkResult = Readonly<Record<(typeof COUNTS)[number], number>>;

/** Throws an Error that shows the output when the line of the script is not in it, whole. */
export function parseWrkOutput(output: string): WrkResult {
  const line = output.split('\n').find((text) => text.startsWith(`${RESULT_MARK} `));
  if (line === undefined) throw new Error(`wrk gave no result: ${output.trim()}`);
  const parsed: unknown = JSON.parse(line.slice(RESULT_MARK.length));
  const found = typeof parsed === 'object' && parsed !== null ? Object.entries(parsed) : [];
  const numbers = new Map<string, unknown>(found);
  const count = (name: string): number => {
    const value = numbers.get(name);
    if (typeof value !== 'number' || value < 0) throw new Error(`wrk gave no ${name}: ${line}`);
    return value;
  };
  return {
    requests: count('requests'),
    bytes: count('bytes'),
    microseconds: count('microseconds'),
    p50: count('p50'),
    p99: count('p99'),
    connect: count('connect'),
    read: count('read'),
    write: count('write'),
    timeout: count('timeout'),
    status: count('status'),
  };
}

/** A head longer than this beyond the origin's own is no plausible answer. */
const ADDED_HEAD_BYTES = 1024;

/**
 * Why a point does not count, or undefined. `answerBytes` is the size of the origin's whole answer:
 * proxies change some fields of its head, and at the end one answer per connection may be cut.
 */
export function findWrkFault(
  result: WrkResult,
  facts: { readonly bodyBytes: number; readonly answerBytes: number },
): string | undefined {
  for (const kind of ['status', 'connect', 'read', 'write', 'timeout'] as const) {
    if (result[kind] > 0) {
      return `${result[kind]} ${kind === 'status' ? 'answers that were errors' : `${kind} errors`}`;
    }
  }
  if (result.requests === 0) return 'no answer at all';
  const each = result.bytes / result.requests;
  // wrk counts bytes as they come and requests when they are whole, so an excess is normal.
  if (each < facts.bodyBytes) return `${Math.round(each)} bytes per answer: bodies are cut`;
  if (each > 2 * facts.answerBytes + ADDED_HEAD_BYTES) {
    return `${Math.round(each)} bytes per answer: not the origin's`;
  }
  return undefined;
}
