/**
 * Reads the files under `test/vectors/` for the tests that assert them.
 */
import { readFileSync } from 'node:fs';

/** The parsed content of `test/vectors/<name>`; the caller names its shape. */
export function readVectors(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'));
}

/** Bytes written as hex. */
export function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}
