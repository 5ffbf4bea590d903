/**
 * YAML text to plain data with the place of every value, and plain data back to YAML.
 *
 * The one importer of `yaml`. Aliases are followed within a budget; merge keys, own tags, keys that
 * are not plain text and keys that stand twice are faults. Texts of the YAML library are not passed
 * on, as they may quote the file (I5).
 */

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, stringify } from 'yaml';
import type { Document, Pair, Scalar } from 'yaml';
import type { Finding, KeyPath } from './faults.ts';

/** Values in a document, those behind aliases counted each time. */
const MAX_VALUES = 20_000;

const MAX_DEPTH = 32;

const MAX_SYNTAX_FAULTS = 20;

export interface Place {
  readonly line: number;
  readonly column: number;
}

export interface ParsedDocument {
  /** Maps without a prototype, arrays and scalars; undefined where the text is no YAML. */
  readonly data: unknown;
  /** Faults that have a place of their own. */
  readonly faults: readonly { readonly finding: Finding; readonly place: Place }[];
  /** Place of the value, or of the key, at `path`; of the nearest ancestor where there is none. */
  placeOf(path: KeyPath, at: 'key' | 'value'): Place;
}

const SYNTAX_MESSAGES: Readonly<Record<string, string>> = {
  BAD_ALIAS: 'an alias is malformed',
  BAD_DQ_ESCAPE: 'an escape in double quotes is malformed; single quotes take a backslash as it is',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'a value that starts with this character needs quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a value that holds a colon and a blank needs quotes',
  BLOCK_IN_FLOW: 'a block cannot stand inside brackets',
  IMPOSSIBLE: 'not YAML',
  MISSING_CHAR: 'a character is missing: a colon, comma, quote or bracket',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line; a value may be missing its quotes',
  MULTIPLE_DOCS: 'the file must hold one document',
  TAB_AS_INDENT: 'tabs cannot indent',
  TAG_RESOLVE_FAILED: 'tags are not used here',
};

/** Parses without throwing; what is wrong is in `faults`. */
export function parseYaml(text: string): ParsedDocument {
  const lines = new LineCounter();
  let document: Document.Parsed;
  try {
    document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      keepSourceTokens: false,
      logLevel: 'error',
    });
  } catch {
    // The parser recurses on nesting; a stack that is used up is the one error that it throws.
    return broken('nested too deeply');
  }
  const reader = new Reader(lines);
  for (const error of [...document.errors, ...document.warnings].slice(0, MAX_SYNTAX_FAULTS)) {
    reader.fault([], SYNTAX_MESSAGES[error.code] ?? 'not YAML', error.pos[0]);
  }
  const data = reader.faults.length > 0 ? undefined : reader.read(document.contents, [], 0);
  return { data, faults: reader.faults, placeOf: (path, at) => reader.placeOf(path, at) };
}

/** Plain data as YAML, one key a line. */
export function formatYaml(data: unknown): string {
  return stringify(data, { lineWidth: 100, aliasDuplicateObjects: false });
}

function broken(message: string): ParsedDocument {
  const place = { line: 1, column: 1 };
  return {
    data: undefined,
    faults: [{ finding: { path: [], message }, place }],
    placeOf: () => place,
  };
}

interface Span {
  readonly key: number | undefined;
  readonly value: number;
}

class Reader {
  readonly faults: { finding: Finding; place: Place }[] = [];
  readonly #lines: LineCounter;
  readonly #spans = new Map<string, Span>();
  readonly #anchors = new Map<string, unknown>();
  readonly #open = new Set<unknown>();
  #values = 0;

  constructor(lines: LineCounter) {
    this.#lines = lines;
  }

  fault(path: KeyPath, message: string, offset: number): void {
    this.faults.push({ finding: { path, message }, place: this.#place(offset) });
  }

  placeOf(path: KeyPath, at: 'key' | 'value'): Place {
    for (let length = path.length; length >= 0; length -= 1) {
      const span = this.#spans.get(JSON.stringify(path.slice(0, length)));
      if (span === undefined) continue;
      const wantsKey = at === 'key' && length === path.length;
      return this.#place(wantsKey ? (span.key ?? span.value) : span.value);
    }
    return { line: 1, column: 1 };
  }

  read(node: unknown, path: KeyPath, depth: number, keyOffset?: number): unknown {
    const offset = offsetOf(node) ?? keyOffset ?? 0;
    this.#spans.set(JSON.stringify(path), { key: keyOffset, value: offset });
    this.#values += 1;
    if (this.#values > MAX_VALUES || depth > MAX_DEPTH) {
      const message = depth > MAX_DEPTH ? 'nested too deeply' : 'the file holds too many values';
      if (this.#values <= MAX_VALUES + 1) this.fault(path, message, offset);
      return undefined;
    }
    if (isAlias(node)) return this.#readAlias(node.source, path, { depth, offset, keyOffset });
    if (isScalar(node)) return this.#readScalar(node, path, offset);
    if (!isMap(node) && !isSeq(node)) return null;
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    this.#open.add(node);
    const value = isMap(node)
      ? this.#readMap(node.items, path, depth)
      : node.items.map((item, index) => this.read(item, [...path, index], depth + 1));
    this.#open.delete(node);
    return value;
  }

  #readScalar(node: Scalar, path: KeyPath, offset: number): unknown {
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    if (typeof node.value !== 'object' || node.value === null) return node.value;
    this.fault(path, 'tags are not used here', offset);
    return undefined;
  }

  #readAlias(
    name: string,
    path: KeyPath,
    at: { depth: number; offset: number; keyOffset: number | undefined },
  ): unknown {
    const target = this.#anchors.get(name);
    if (target === undefined || this.#open.has(target)) {
      this.fault(
        path,
        'the alias has no anchor before it (quote a value that starts with *)',
        at.offset,
      );
      return undefined;
    }
    const value = this.read(target, path, at.depth + 1, at.keyOffset);
    this.#spans.set(JSON.stringify(path), { key: at.keyOffset, value: at.offset });
    return value;
  }

  #readMap(items: readonly Pair[], path: KeyPath, depth: number): unknown {
    // No prototype: a key named like a member of Object is a key like any other.
    const map: Record<string, unknown> = Object.create(null);
    for (const { key, value } of items) {
      const offset = offsetOf(key) ?? 0;
      const name = keyName(key);
      if (name === undefined || name === '__proto__') {
        this.fault(path, 'a key must be plain text', offset);
        continue;
      }
      if (name === '<<') {
        this.fault(path, 'merge keys are not supported', offset);
        continue;
      }
      if (Object.hasOwn(map, name)) {
        this.fault([...path, name], 'the key stands twice', offset);
        continue;
      }
      map[name] = this.read(value, [...path, name], depth + 1, offset);
    }
    return map;
  }

  #place(offset: number): Place {
    const { line, col } = this.#lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  }
}

function offsetOf(node: unknown): number | undefined {
  if (!isScalar(node) && !isMap(node) && !isSeq(node) && !isAlias(node)) return undefined;
  return node.range?.[0];
}

function keyName(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined;
  return typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
}
