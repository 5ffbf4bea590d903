/**
 * Reads what the file refers to: `{ file }`, `{ env }` and plain paths. The only place below `cmd/`
 * that looks at the environment. No content ever becomes part of a message (I5).
 */

import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { env } from 'node:process';
import type { SecretReference } from './schema.ts';

/** What loading needs of the machine. */
export interface ConfigIo {
  /** Throws a system error with `code`. */
  readFile(path: string): Uint8Array;
  env(name: string): string | undefined;
  /** Milliseconds since 1970; absent: the machine's. */
  wall?(): number;
  /** Names in a folder; throws as `readFile` does. Absent: no folder can be looked into. */
  readFolder?(path: string): readonly string[];
}

/** Longest file that is read: a bundle of all public authorities is a quarter of it. */
const MAX_BYTES = 1_048_576;

export const systemIo: ConfigIo = {
  readFile: readBounded,
  env: (name) => env[name],
  readFolder: (path) => readdirSync(path),
};

/** Content, or why there is none. */
export type Reading<T> = { readonly value: T } | { readonly fault: string };

/** Reads references of one configuration file; relative paths start at its folder. */
export class ReferenceReader {
  readonly #io: ConfigIo;
  readonly #folder: string;

  constructor(io: ConfigIo, configFile: string) {
    this.#io = io;
    this.#folder = dirname(configFile);
  }

  /** Text in UTF-8 without its last line end. */
  text(reference: SecretReference | string): Reading<string> {
    if (typeof reference === 'object' && 'env' in reference) return this.#variable(reference.env);
    const bytes = this.#file(typeof reference === 'string' ? reference : reference.file);
    if ('fault' in bytes) return bytes;
    const text = decodeUtf8(bytes.value);
    return text === undefined
      ? { fault: 'is not text in UTF-8' }
      : nonEmpty(text.replace(/\r?\n$/, ''));
  }

  /** Bytes as they stand in a file, or base64 in a variable. */
  bytes(reference: SecretReference): Reading<Buffer> {
    if ('file' in reference) return this.#file(reference.file);
    const text = this.#variable(reference.env);
    if ('fault' in text) return text;
    const isBase64 = /^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(text.value);
    return isBase64 ? { value: Buffer.from(text.value, 'base64') } : { fault: 'is not base64' };
  }

  /** Bytes of a plain path. */
  file(path: string): Reading<Buffer> {
    return this.#file(path);
  }

  /** Names in a folder; undefined where it cannot be read. */
  names(folder: string): readonly string[] | undefined {
    try {
      return this.#io.readFolder?.(resolve(this.#folder, folder));
    } catch {
      // Included folders may be absent; whatever else is wrong, nothing of theirs counts.
      return undefined;
    }
  }

  /** Where a plain path leads. */
  locate(path: string): string {
    return resolve(this.#folder, path);
  }

  /** What a library would find in the environment; undefined where it is absent or empty. */
  environment(name: string): string | undefined {
    const value = this.#io.env(name);
    return value === '' ? undefined : value;
  }

  #variable(name: string): Reading<string> {
    const value = this.#io.env(name);
    return value === undefined ? { fault: 'is not set' } : nonEmpty(value.replace(/\r?\n$/, ''));
  }

  #file(path: string): Reading<Buffer> {
    try {
      return { value: Buffer.from(this.#io.readFile(resolve(this.#folder, path))) };
    } catch (error) {
      return { fault: readFault(error) };
    }
  }
}

/** Why a file cannot be read, in words; the system's code where there are none. */
export function readFault(error: unknown): string {
  const code =
    typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown';
  const words: Readonly<Record<string, string>> = {
    ENOENT: 'does not exist',
    EACCES: 'may not be read by this user',
    EISDIR: 'is a folder',
    EFBIG: 'is longer than 1 MiB',
  };
  return words[code] ?? `cannot be read (${code})`;
}

/** Text of bytes, without a byte order mark; undefined where they are no UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // The decoder's only error.
    return undefined;
  }
}

function nonEmpty(text: string): Reading<string> {
  return text === '' ? { fault: 'is empty' } : { value: text };
}

/** Never more than MAX_BYTES, whatever the path leads to. */
function readBounded(path: string): Uint8Array {
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(MAX_BYTES + 1);
    let length = 0;
    for (;;) {
      const count = readSync(file, buffer, length, buffer.length - length, null);
      length += count;
      if (count === 0) return Buffer.from(buffer.subarray(0, length));
      if (length > MAX_BYTES) throw Object.assign(new Error('file too long'), { code: 'EFBIG' });
    }
  } finally {
    closeSync(file);
  }
}
