/**
 * The configuration file and everything that was read for it, by content: loads them, and tells whether
 * any of it but credential caches is other than at the last load. Keeps digests, never a content (R46, R47).
 */
import { resolve } from 'node:path';
import { keyedDigest } from '../identity/process-key.ts';
import type { Config } from './config.ts';
import { type LoadResult, loadConfig } from './load.ts';
import { type ConfigIo, readFault, systemIo } from './secrets.ts';

export class ConfigSource {
  readonly #file: string;
  readonly #io: ConfigIo;
  /** By absolute path: what the content was, or why there was none. */
  #seen = new Map<string, string>();
  /** Credential caches, which change all the time: the Kerberos provider looks at them when it logs in. */
  #caches: readonly string[] = [];

  /** Reads nothing yet. */
  constructor(file: string, io: ConfigIo = systemIo) {
    this.#file = file;
    this.#io = io;
  }

  /** Reads everything anew. Throws nothing; whatever is wrong is a fault with a place. */
  load(): LoadResult {
    const seen = new Map<string, string>();
    const io: ConfigIo = {
      ...this.#io,
      readFile: (path) => {
        const { bytes, digest, error } = this.#read(path);
        seen.set(resolve(path), digest);
        if (bytes === undefined) throw error;
        return bytes;
      },
    };
    const result = loadConfig(this.#file, io);
    if (result.config !== undefined) this.#caches = cachesOf(result.config);
    for (const cache of this.#caches) seen.delete(cache);
    this.#seen = seen;
    return result;
  }

  /** Absolute paths of what the last load read, or wanted to read. */
  get files(): readonly string[] {
    return [...this.#seen.keys()];
  }

  /** Whether a file has another content than the last load saw, whatever links lead there. */
  hasChanged(): boolean {
    return [...this.#seen].some(([path, digest]) => this.#read(path).digest !== digest);
  }

  #read(path: string): Reading {
    try {
      const bytes = this.#io.readFile(path);
      const digest = keyedDigest('file content', bytes).toString('hex');
      return { bytes, digest, error: undefined };
    } catch (error) {
      return { bytes: undefined, digest: readFault(error), error };
    }
  }
}

const cachesOf = ({ principals }: Config): string[] =>
  Object.values(principals).flatMap((principal) => {
    const part = principal.kind === 'client' ? undefined : principal.kerberos;
    return part?.source === 'ccache' ? [part.path] : [];
  });

interface Reading {
  readonly bytes: Uint8Array | undefined;
  readonly digest: string;
  readonly error: unknown;
}
