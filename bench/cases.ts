/**
 * The shapes of traffic that are measured, and the script that makes wrk send them. Paths are those of
 * the demo origin's fast mode, which chooses the answer by them.
 */

export interface BenchCase {
  /** As it stands in the output. */
  readonly name: string;
  readonly path: string;
  readonly connections: readonly number[];
  readonly method: 'GET' | 'POST';
  /** Request fields besides Host. */
  readonly fields: number;
  readonly requestBytes: number;
  /** Whether `--quick` has it. */
  readonly quick: boolean;
}

const GET = { method: 'GET', fields: 0, requestBytes: 0, quick: false } as const;
const POST = { ...GET, method: 'POST', path: '/' } as const;
const ALL_CONNECTIONS = [1, 16, 64, 256] as const;

export const CASES: readonly BenchCase[] = [
  { ...GET, name: 'tiny', path: '/', connections: ALL_CONNECTIONS, quick: true },
  { ...GET, name: '16k', path: '/16k', connections: ALL_CONNECTIONS, quick: true },
  // With Host a request then has 50 fields, as the answer has.
  { ...GET, name: 'headers', path: '/headers', connections: [64], fields: 49 },
  { ...GET, name: 'chunked', path: '/chunked', connections: [64] },
  { ...POST, name: 'post-1k', connections: [64], requestBytes: 1024 },
  { ...POST, name: 'post-64k', connections: [16], requestBytes: 64 * 1024 },
];

/** The fields of a case's request, in the order they are sent by who keeps an order. */
export function requestFields(one: BenchCase): Readonly<Record<string, string>> {
  const numbers = Array.from({ length: one.fields }, (_, index) => index + 1);
  return Object.fromEntries(
    numbers.map((number) => [`X-Request-Field-${number}`, `value-${number}`]),
  );
}

/** The body of a case's request. */
export function requestBody(one: BenchCase): string | undefined {
  return one.requestBytes === 0 ? undefined : 'x'.repeat(one.requestBytes);
}

/** Marks the line of wrk's output that is read. */
export const RESULT_MARK = 'bench-result';

/**
 * The case as a script for wrk. Without a function `request` wrk sends the same bytes each time and
 * calls no Lua while it measures. `done` prints exact numbers where wrk's own text rounds.
 */
export function wrkScript(one: BenchCase): string {
  const fields = Object.entries(requestFields(one)).map(
    ([name, value]) => `wrk.headers["${name}"] = "${value}"\n`,
  );
  const body = one.requestBytes === 0 ? '' : `wrk.body = string.rep("x", ${one.requestBytes})\n`;
  return `wrk.method = "${one.method}"
${fields.join('')}${body}
function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    "${RESULT_MARK} {\\"requests\\":%d,\\"bytes\\":%d,\\"microseconds\\":%d,\\"p50\\":%d,\\"p99\\":%d,"
      .. "\\"connect\\":%d,\\"read\\":%d,\\"write\\":%d,\\"timeout\\":%d,\\"status\\":%d}\\n",
    summary.requests, summary.bytes, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.timeout, e.status))
end
`;
}
