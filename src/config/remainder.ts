/**
 * Decodes a file that may have faults: tells all of them, and decodes what is left without them.
 *
 * The rest of the checks need a decoded file, and all faults are to be told at once. So every value
 * with a fault is cut out of a copy, or replaced where it is required, until what remains can be
 * decoded. Faults that come only from that are not told.
 */

import { CONTRACT, REMAINDER } from './contract.ts';
import type { Contract } from './contract.ts';
import type { KeyPath } from './faults.ts';
import { nearest } from './faults.ts';
import { knownKeys } from './known-keys.ts';
import { decode } from './schema.ts';
import type { ShapeFinding } from './schema.ts';

export interface Remainder {
  readonly findings: readonly ShapeFinding[];
  /** undefined where nothing could be decoded. */
  readonly contract: Contract | undefined;
  /** A path in `contract` as a path in the file: cutting moves indexes, a list of one may have none. */
  toFile(path: KeyPath): KeyPath;
  /** Paths that faults stand at, and those that a misspelt key was meant to be. */
  readonly touched: readonly KeyPath[];
}

/** More than a file has levels: each round cuts at least one level. */
const MAX_ROUNDS = 64;

export function decodeRemainder(data: unknown): Remainder {
  const whole = decode(CONTRACT, data);
  const copy = new Cutting(data);
  const toFile = (path: KeyPath): KeyPath => copy.toFile(path);
  if (whole.value !== undefined)
    return { findings: [], contract: whole.value, toFile, touched: [] };
  const findings = withHints(whole.findings);
  let cuts: readonly ShapeFinding[] = whole.findings;
  let contract: Contract | undefined;
  for (let round = 0; round < MAX_ROUNDS && contract === undefined; round += 1) {
    if (!copy.cut(cuts)) break;
    const rest = decode(REMAINDER, copy.data);
    contract = rest.value;
    cuts = rest.findings;
  }
  return {
    findings: findings.kept,
    contract,
    toFile,
    touched: [...whole.findings.map(({ path }) => path), ...findings.meant],
  };
}

/** Values for required keys; what is said of them is not told, as their places have a fault. */
const STAND_INS: ReadonlyMap<unknown, string> = new Map([
  ['name', '-'],
  ['listen', 'unix:/-'],
  ['upstream', '-'],
  ['use', '-'],
]);

/** Adds the nearest known key; a missing key whose misspelling stands there is told once. */
function withHints(findings: readonly ShapeFinding[]): { kept: ShapeFinding[]; meant: KeyPath[] } {
  const meant: KeyPath[] = [];
  const keysAt = knownKeys();
  const hinted = findings.map((finding): ShapeFinding => {
    if (finding.message !== 'unknown key') return finding;
    const parent = finding.path.slice(0, -1);
    const hint = nearest(String(finding.path.at(-1)), keysAt(parent));
    if (hint !== undefined) meant.push([...parent, hint]);
    return { ...finding, hint };
  });
  const isMeant = (path: KeyPath): boolean =>
    meant.some((other) => JSON.stringify(other) === JSON.stringify(path));
  return {
    meant,
    kept: hinted.filter(({ problem, path }) => problem !== 'missing' || !isMeant(path)),
  };
}

class Cutting {
  data: unknown;
  /** For each list of the copy: where its entries stood in the file. */
  readonly #origins = new WeakMap<unknown[], number[]>();

  constructor(data: unknown) {
    this.data = this.#copy(data);
  }

  /** Cuts every value that a finding is about; false where there was nothing to do. */
  cut(findings: readonly ShapeFinding[]): boolean {
    // From the back, so that the indexes in front stay true.
    const ordered = [...findings].sort((a, b) => comparePaths(b.path, a.path));
    return ordered.map((finding) => this.#mend(finding)).some(Boolean);
  }

  toFile(path: KeyPath): KeyPath {
    let value = this.data;
    return path.flatMap((part) => {
      const parent = value;
      // A list of one without brackets has no index in the file.
      if (typeof part === 'number' && parent !== undefined && !Array.isArray(parent)) return [];
      value = isContainer(parent) && Object.hasOwn(parent, part) ? parent[part] : undefined;
      const origins = Array.isArray(parent) ? this.#origins.get(parent) : undefined;
      return [typeof part === 'number' ? (origins?.[part] ?? part) : part];
    });
  }

  /** A required key gets a stand-in, so that the faults beside it are told; others go. */
  #mend({ path, problem }: ShapeFinding): boolean {
    if (problem !== 'missing') return this.#remove(path);
    const [parent, last] = [this.#parentOf(path), path.at(-1)];
    const standIn = STAND_INS.get(last);
    if (standIn === undefined || last === undefined || !isContainer(parent)) {
      return this.#remove(path.slice(0, -1));
    }
    parent[last] = standIn;
    return true;
  }

  #parentOf(path: KeyPath): unknown {
    let parent: unknown = this.data;
    for (const part of path.slice(0, -1)) parent = isContainer(parent) ? parent[part] : undefined;
    return parent;
  }

  #remove(path: KeyPath): boolean {
    const last = path.at(-1);
    const parent = this.#parentOf(path);
    if (last === undefined || !isContainer(parent) || !Object.hasOwn(parent, last)) return false;
    if (Array.isArray(parent) && typeof last === 'number') {
      parent.splice(last, 1);
      this.#origins.get(parent)?.splice(last, 1);
      return true;
    }
    return Reflect.deleteProperty(parent, last);
  }

  #copy(value: unknown): unknown {
    if (Array.isArray(value)) {
      const list = value.map((item) => this.#copy(item));
      this.#origins.set(list, [...list.keys()]);
      return list;
    }
    if (!isContainer(value)) return value;
    const map: Record<string, unknown> = Object.create(null);
    for (const [key, item] of Object.entries(value)) map[key] = this.#copy(item);
    return map;
  }
}

function isContainer(value: unknown): value is Record<string | number, unknown> {
  return typeof value === 'object' && value !== null;
}

function comparePaths(a: KeyPath, b: KeyPath): number {
  for (const [index, part] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    if (part === other) continue;
    return typeof part === 'number' && typeof other === 'number'
      ? part - other
      : part < other
        ? -1
        : 1;
  }
  return a.length - b.length;
}
