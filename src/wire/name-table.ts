/**
 * Finds the id of a field name in the bytes of a head, without a string and without a copy.
 * What an id means, and which ids exist, is said by the table's owner.
 */
import { FOLD, LOWER } from './bytes.ts';

/** What a `Connection` field may do with a name (RFC 9110 7.6.1). */
export type Nomination = 'removed' | 'always-removed' | 'refused';

export interface NameEntry {
  /** Lower case, with `-` between words. */
  readonly name: string;
  readonly id: number;
  readonly nomination: Nomination;
  /** Id of the name when written with `_` or `.` in place of `-`; -1 makes that an unknown name. */
  readonly variantId: number;
}

const BUCKETS = 256;
const LONGEST_NAME = 255;

/** A fixed set of names. Lookups cost a few table reads and, on a likely match, one comparison. */
export class NameTable {
  readonly #entries: readonly NameEntry[];
  readonly #bytes: readonly Uint8Array[];
  readonly #bucket = new Int16Array(BUCKETS).fill(-1);
  readonly #next: Int16Array;
  readonly #prefix: Uint8Array;
  readonly #prefixId: number;
  readonly #nominations: Nomination[] = [];

  /** `prefix` is a family such as `x-forwarded-`: other names that begin so, in any spelling, get its id. */
  constructor(
    entries: readonly NameEntry[],
    prefix?: { readonly name: string; readonly id: number },
  ) {
    this.#entries = entries;
    this.#bytes = entries.map((entry) => Buffer.from(entry.name, 'latin1'));
    this.#next = new Int16Array(entries.length).fill(-1);
    this.#prefix = Buffer.from(prefix?.name ?? '', 'latin1');
    this.#prefixId = prefix?.id ?? -1;
    for (const [index, entry] of entries.entries()) {
      const bytes = this.#bytes[index];
      if (bytes === undefined || bytes.length === 0 || bytes.length > LONGEST_NAME) {
        throw new RangeError('a field name has 1 to 255 bytes');
      }
      const bucket = bucketOf(bytes, 0, bytes.length);
      this.#next[index] = this.#bucket[bucket] as number;
      this.#bucket[bucket] = index;
      this.#nominations[entry.id] = entry.nomination;
    }
  }

  /** The id of the name from `start` up to `end` (not empty), or -1. */
  find(buffer: Uint8Array, start: number, end: number): number {
    let index = this.#bucket[bucketOf(buffer, start, end)] as number;
    while (index >= 0) {
      const match = compare(buffer, start, end, this.#bytes[index] as Uint8Array);
      if (match !== DIFFERENT) {
        const entry = this.#entries[index] as NameEntry;
        return match === SAME ? entry.id : entry.variantId;
      }
      index = this.#next[index] as number;
    }
    return this.#prefixId >= 0 && this.#hasPrefix(buffer, start, end) ? this.#prefixId : -1;
  }

  /** What a nomination of the field `id` does; ids of a prefix family are removed. */
  nominationOf(id: number): Nomination {
    return this.#nominations[id] ?? 'removed';
  }

  #hasPrefix(buffer: Uint8Array, start: number, end: number): boolean {
    const prefix = this.#prefix;
    if (end - start <= prefix.length) return false;
    for (let i = 0; i < prefix.length; i += 1) {
      if (FOLD[buffer[start + i] as number] !== prefix[i]) return false;
    }
    return true;
  }
}

function bucketOf(bytes: Uint8Array, start: number, end: number): number {
  const first = FOLD[bytes[start] as number] as number;
  const last = FOLD[bytes[end - 1] as number] as number;
  const before = end - start > 1 ? (FOLD[bytes[end - 2] as number] as number) : 0;
  return (end - start + first * 5 + last * 11 + before * 3) & (BUCKETS - 1);
}

const DIFFERENT = 0;
const SAME = 1;
const VARIANT = 2;

function compare(buffer: Uint8Array, start: number, end: number, name: Uint8Array): number {
  const length = name.length;
  if (end - start !== length) return DIFFERENT;
  // From the end: names of one family differ there.
  for (let i = length - 1; i >= 0; i -= 1) {
    if (LOWER[buffer[start + i] as number] !== name[i]) return compareFolded(buffer, start, name);
  }
  return SAME;
}

/** For names that are not the same: another spelling, or another name. */
function compareFolded(buffer: Uint8Array, start: number, name: Uint8Array): number {
  for (let i = name.length - 1; i >= 0; i -= 1) {
    if (FOLD[buffer[start + i] as number] !== name[i]) return DIFFERENT;
  }
  return VARIANT;
}
