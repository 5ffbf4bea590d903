/**
 * Faults of a configuration: their form, their order, how they are printed, and what the nearest
 * known word is. Where they come from is the business of the other files of this folder.
 */

/** Keys and indexes from the root to a value. */
export type KeyPath = readonly (string | number)[];

/** A fault before its place in the file is known. */
export interface Finding {
  readonly path: KeyPath;
  readonly message: string;
  /** `key`: the fault is about the key itself, not about its value. */
  readonly at?: 'key' | 'value';
  readonly hint?: string | undefined;
  /** Other places that the finding rests on: where one of them has a fault, this one is not told. */
  readonly basis?: readonly KeyPath[];
  /** A credential that cannot be read ends with another exit code than a fault of the file. */
  readonly kind?: FaultKind;
}

export type FaultKind = 'config' | 'credential';

/** One thing wrong, with its place. Lines and columns start at 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** As `formatPath` writes it; empty where the fault is about the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** The nearest known word, if one is near. */
  readonly hint: string | undefined;
  readonly kind: FaultKind;
}

/** `listeners[0].routes[1].upstream`. */
export function formatPath(path: KeyPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += text === '' ? part : `.${part}`;
  }
  return text;
}

/** True where `path` is `ancestor` or lies under it. */
export function isWithin(path: KeyPath, ancestor: KeyPath): boolean {
  return ancestor.length <= path.length && ancestor.every((part, index) => part === path[index]);
}

/** In the order of the file. */
export function sortFaults(faults: readonly Fault[]): Fault[] {
  return [...faults].sort((a, b) => a.line - b.line || a.column - b.column);
}

/** One line a fault, `FILE:LINE:COL: PATH: message`, and `N faults` as the last line. */
export function formatFaults(faults: readonly Fault[]): string {
  const lines = faults.map((fault) => {
    const hint = fault.hint === undefined ? '' : ` (did you mean ${fault.hint}?)`;
    const place = `${fault.file}:${fault.line}:${fault.column}`;
    return `${place}: ${fault.path === '' ? '(file)' : fault.path}: ${fault.message}${hint}`;
  });
  return `${[...lines, `${faults.length} faults`].join('\n')}\n`;
}

/** The same as JSON: `[{file,line,column,path,message,hint}]`, `hint` null where there is none. */
export function formatFaultsJson(faults: readonly Fault[]): string {
  const rows = faults.map(({ file, line, column, path, message, hint }) => {
    return { file, line, column, path, message, hint: hint ?? null };
  });
  return `${JSON.stringify(rows, undefined, 2)}\n`;
}

/** The known word that is at most a third of its length away, or undefined. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const limit = Math.max(1, Math.floor(candidate.length / 3));
    if (Math.abs(candidate.length - word.length) > limit) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance <= limit && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Insertions, deletions, replacements and swaps of neighbours, each at a cost of 1. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(replaced, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
