/** Values of the known lines of a parsed head, as text. Makes strings: not for the common path. */
import { KNOWN_STRIDE } from './field-lines.ts';

export interface ParsedLines {
  readonly known: Int32Array;
  readonly knownCount: number;
}

/** The value of one entry of `known`, blanks trimmed, as latin1 text. */
export function valueAt(head: ParsedLines, buffer: Buffer, entry: number): string {
  const at = entry * KNOWN_STRIDE;
  return buffer.toString('latin1', head.known[at + 3], head.known[at + 4]);
}

/** The values of all lines of `id`, in order. */
export function fieldValues(head: ParsedLines, buffer: Buffer, id: number): string[] {
  const values: string[] = [];
  for (let entry = 0; entry < head.knownCount; entry += 1) {
    if (head.known[entry * KNOWN_STRIDE] === id) values.push(valueAt(head, buffer, entry));
  }
  return values;
}
