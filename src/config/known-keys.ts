/**
 * Which keys the file may have at a path, read from the JSON Schema of the contract: hints for
 * misspelt keys, and the list of all keys that the example file is held against.
 */

import { CONTRACT } from './contract.ts';
import type { KeyPath } from './faults.ts';
import { jsonSchemaOf } from './schema.ts';

/** A part of a JSON Schema, as far as keys are concerned. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: Node | boolean;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** Answers which keys a map at a path may have; none where there is no map or any key goes. */
export function knownKeys(): (path: KeyPath) => string[] {
  const root = alternatives(jsonSchemaOf(CONTRACT, 'inline'));
  return (path) => {
    let nodes = root;
    for (const part of path)
      nodes = nodes.flatMap((node) => child(node, part)).flatMap(alternatives);
    return [...new Set(nodes.flatMap((node) => Object.keys(node.properties ?? {})))];
  };
}

/** Every key of the contract as a path; `*` stands for a name, lists are left out. */
export function allKeys(): string[] {
  return [...new Set(keysUnder(jsonSchemaOf(CONTRACT, 'inline'), ''))];
}

function keysUnder(start: Node, prefix: string): string[] {
  return alternatives(start).flatMap((node) => [
    ...Object.entries(node.properties ?? {}).flatMap(([key, value]) => {
      const path = prefix === '' ? key : `${prefix}.${key}`;
      return [path, ...keysUnder(value, path)];
    }),
    ...(typeof node.additionalProperties === 'object'
      ? keysUnder(node.additionalProperties, `${prefix}.*`)
      : []),
    ...(node.items === undefined ? [] : keysUnder(node.items, prefix)),
  ]);
}

function child(node: Node, part: string | number): Node[] {
  const found: (Node | undefined)[] =
    typeof part === 'number'
      ? [node.items]
      : [
          Object.hasOwn(node.properties ?? {}, part) ? node.properties?.[part] : undefined,
          typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined,
        ];
  return found.filter((item) => item !== undefined);
}

/** The node itself and its alternatives. */
function alternatives(node: Node): Node[] {
  return [node, ...(node.anyOf ?? []).flatMap(alternatives)];
}
