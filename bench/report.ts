/** The results as a table for people. */

import type { BenchRatio, BenchResult, GeometricMean, Point } from './statistics.ts';

const COLUMNS = [
  'case',
  'conns',
  'subject',
  'req/s',
  'CPU s',
  'req/CPU s',
  'p50 ms',
  'p99 ms',
  'sidekerb is',
  'others',
] as const;

/** How many columns from the left hold words. */
const WORDS = [0, 2];

export interface Report {
  readonly results: readonly BenchResult[];
  readonly ratios: readonly BenchRatio[];
  readonly geometricMeans: readonly GeometricMean[];
}

/** One row per result, ordered by load; ends with a newline. */
export function formatReport(report: Report): string {
  const groups = Map.groupBy(report.results, (result) => `${result.case} ${result.connections}`);
  const rows = [...groups.values()].flat().map((result) => formatRow(result, report.ratios));
  const means = report.geometricMeans.map(
    ({ against, value }) => `  ${value.toFixed(2)} x ${against}\n`,
  );
  const summary =
    means.length === 0
      ? ''
      : `\nRequests per CPU second of sidekerb, geometric mean of the cases above:\n${means.join('')}`;
  return `${formatTable([COLUMNS, ...rows])}${summary}`;
}

/** What the source documents say of a case, in their own terms. */
const SOURCES: Readonly<Record<string, string>> = {
  'jwt-http-1': '342.7 us a request without a cache, 256.5 us with one (1.3 x)',
  'jwt-http-10': '22,120 requests/s without a cache, 28,953 with one (1.3 x)',
  'headers-read':
    '2,831 requests/s before, 937 after headers were adapted on each access (Tomcat, HTTP/1.1): 0.33 x',
  'jwt-h2-1': '200.2 us a call without a cache, 114.7 us with one (gRPC, 1.7 x)',
  'jwt-h2-10': '34,206 calls/s without a cache, 55,021 with one (gRPC, 1.6 x)',
  'tls-rsa-12':
    '594 full handshakes/s with a key that stays decrypted, 105 where it is decrypted for each (5.7 x)',
  'tls-rsa-13': '534 full handshakes/s, whatever keeps the key',
  'tls-resumed-12': '9,346 handshakes/s',
  'tls-resumed-13': '940 handshakes/s',
};

/** A line for each measured case that a source document has; empty for none. */
export function formatSources(points: readonly Point[]): string {
  const names = Object.keys(SOURCES).filter((name) => points.some((one) => one.case === name));
  if (names.length === 0) return '';
  return `\nIn the source documents:\n${names.map((name) => `  ${name}: ${SOURCES[name]}\n`).join('')}`;
}

/** Points that do not count, one line each; empty for none. */
export function formatFaultyPoints(points: readonly Point[]): string {
  return points
    .filter((point) => point.fault !== undefined)
    .map(
      (point) =>
        `invalid: ${point.subject}, ${point.case}, ${point.connections} connections, round ${point.round}: ${point.fault}\n`,
    )
    .join('');
}

function formatRow(result: BenchResult, ratios: readonly BenchRatio[]): string[] {
  const ratio = ratios.find(
    (one) =>
      one.against === result.subject &&
      one.case === result.case &&
      one.connections === result.connections,
  );
  return [
    result.case,
    String(result.connections),
    result.subject,
    formatRate(result.rps),
    result.cpuSeconds.toFixed(2),
    formatRate(result.rpcs),
    result.p50Ms.toFixed(2),
    result.p99Ms.toFixed(2),
    ratio === undefined ? '' : `${ratio.value.toFixed(2)} x`,
    `${Math.round(result.foreignShare * 100)} %`,
  ];
}

/** Whole numbers, but a few GiB per second need more than that. */
function formatRate(value: number): string {
  return value < 100 ? value.toPrecision(3) : String(Math.round(value));
}

function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = COLUMNS.map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return WORDS.includes(column) ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
