/**
 * The configuration file and everything that was read for it, by content: loads them, and tells whether
 * any of it but credential caches is other than at the last load. Of files it keeps digests, never a
 * content (R46, R47), and of PKCS#12 stores what is in them, so that none is decrypted twice.
 */
import { resolve } from 'node:path';
import { OpenedStores } from '../certificates/opened-stores.ts';
import type { StoreSource } from '../certificates/pkcs12-link.ts';
import { Pkcs12Opener } from '../certificates/pkcs12-opener.ts';
import { keyedDigest } from '../identity/process-key.ts';
import type { Config, ListenerConfig } from './config.ts';
import { type LoadResult, loadConfig } from './load.ts';
import { type ConfigIo, readFault, systemIo } from './secrets.ts';
import { loadWithStores, type StoreTable } from './store-table.ts';

export class ConfigSource {
  readonly #file: string;
  readonly #io: ConfigIo;
  /** By absolute path: what the content was, or why there was none. */
  #seen = new Map<string, string>();
  /** Credential caches, which change all the time: the Kerberos provider looks at them when it logs in. */
  #caches: readonly string[] = [];
  readonly #opener = new Pkcs12Opener();
  readonly #stores = new OpenedStores(this.#opener);
  /** Of the last load that found no fault. */
  #used: readonly StoreSource[] = [];
  #shown: ReadonlySet<string> = new Set();

  /** Reads nothing yet. */
  constructor(file: string, io: ConfigIo = systemIo) {
    this.#file = file;
    this.#io = io;
  }

  /** Reads everything anew. Never rejects; whatever is wrong is a fault with a place. */
  async load(): Promise<LoadResult> {
    const load = (stores: StoreTable): LoadResult => this.#load(stores);
    const { result, used } = await loadWithStores(this.#stores, load);
    if (result.config !== undefined) {
      this.#used = used;
      this.#shown = new Set(result.config.listeners.flatMap(fingerprintsOf));
    }
    this.#stores.keepOnly(this.#used);
    return result;
  }

  /** Ends what is still being opened. */
  close(): void {
    this.#opener.close();
  }

  #load(stores: StoreTable): LoadResult {
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
    const result = loadConfig(this.#file, io, { stores, shown: this.#shown });
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

const fingerprintsOf = ({ tls }: ListenerConfig): string[] =>
  tls?.certificates.map(({ fingerprint }) => fingerprint) ?? [];

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
