/** Runs the micro benchmarks, each in a process of its own, and prints them beside the sources' figures. */

import { join } from 'node:path';
import { Child } from '../child.ts';
import { identityDigestSource } from './identity-digest.ts';
import { JWT_DECODER_SOURCE } from './jwt-decoder.ts';
import type { MicroResult } from './micro.ts';
import type { MicroName } from './names.ts';

const PROGRAM = join(import.meta.dirname, 'run.ts');
const RUN_MS = 180_000;

/** Figures of all cases of `names`, in order. */
export async function runMicro(names: readonly MicroName[]): Promise<readonly MicroResult[]> {
  const results: MicroResult[] = [];
  for (const name of names) {
    const settings = { name, command: process.execPath, args: [PROGRAM, name] };
    // On any core: verifying hands work to threads of Node's pool, in the daemon as well as here.
    const child = await Child.start({ ...settings, core: undefined });
    try {
      const line = await child.until(
        () => Promise.resolve(/^\{.*\}$/m.exec(child.stdout)?.[0]),
        RUN_MS,
      );
      results.push(...(JSON.parse(line) as { results: MicroResult[] }).results);
    } finally {
      await child.stop();
    }
  }
  return results;
}

/** One line for each result, with what the source document has; empty for none. */
export function formatMicro(results: readonly MicroResult[]): string {
  if (results.length === 0) return '';
  const rows = results.map((one) => {
    const against = results.find(
      (other) => other.case === one.case && BASELINES.has(other.subject) && other !== one,
    );
    const ratio =
      against === undefined ? '' : `${(against.nsPerCall / one.nsPerCall).toFixed(0)} x`;
    return [
      one.case,
      one.subject,
      one.nsPerCall.toFixed(1),
      one.bytesPerCall.toFixed(1),
      BASELINES.has(one.subject) ? '' : ratio,
      sourceOf(one),
    ];
  });
  const all = [['case', 'subject', 'ns', 'bytes', 'faster', 'source document'], ...rows];
  const widths = [0, 1, 2, 3, 4].map((at) => Math.max(...all.map((row) => (row[at] ?? '').length)));
  const lines = all.map((row) =>
    row
      .map((cell, at) =>
        at < 2 || at === 5 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  );
  return `\nCosts of one call:\n${lines.join('\n')}\n`;
}

/** What others of their case are compared with. */
const BASELINES: ReadonlySet<string> = new Set(['computed', 'cache off']);

const sourceOf = (one: MicroResult): string =>
  one.case === 'jwt-decoder'
    ? (JWT_DECODER_SOURCE[one.subject] ?? '')
    : one.subject === 'computed'
      ? ''
      : identityDigestSource(one.case);
