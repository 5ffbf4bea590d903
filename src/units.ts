/**
 * Durations and sizes as people write them: `250ms 30s 5m 1h`, `512B 64KiB 1MiB 1GiB`.
 *
 * One whole number and one unit; no fractions, no sums, no blanks. Bounds are the schema's matter.
 */

const DURATION_UNITS = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
] as const;

const SIZE_UNITS = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
  ['B', 1],
] as const;

/** What `parseDuration` accepts, as a regular expression that JSON Schema can carry. */
export const DURATION_PATTERN = /^\d{1,12}(?:ms|s|m|h)$/;

/** What `parseSize` accepts, as a regular expression that JSON Schema can carry. */
export const SIZE_PATTERN = /^\d{1,12}(?:B|KiB|MiB|GiB)$/;

/** Milliseconds, or undefined where the text is no duration. */
export function parseDuration(text: string): number | undefined {
  return DURATION_PATTERN.test(text) ? parseWith(DURATION_UNITS, text) : undefined;
}

/** Bytes, or undefined where the text is no size. */
export function parseSize(text: string): number | undefined {
  return SIZE_PATTERN.test(text) ? parseWith(SIZE_UNITS, text) : undefined;
}

/** The shortest text that `parseDuration` turns back into these (whole) milliseconds. */
export function formatDuration(ms: number): string {
  return ms === 0 ? '0s' : formatWith(DURATION_UNITS, ms);
}

/** The shortest text that `parseSize` turns back into these (whole) bytes. */
export function formatSize(bytes: number): string {
  return bytes === 0 ? '0B' : formatWith(SIZE_UNITS, bytes);
}

type Units = readonly (readonly [unit: string, factor: number])[];

function parseWith(units: Units, text: string): number | undefined {
  const digits = /^\d+/.exec(text)?.[0] ?? '';
  const factor = units.find(([unit]) => unit === text.slice(digits.length))?.[1];
  return factor === undefined ? undefined : Number(digits) * factor;
}

function formatWith(units: Units, value: number): string {
  const [unit, factor] = units.find(([, size]) => value % size === 0) ?? ['', 1];
  return `${value / factor}${unit}`;
}
