/**
 * Merges the keytabs of all keytab principals into the one client keytab that the library knows. It
 * fetches tickets with it by itself and renews them before they end.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeCredentialCache } from '../../identity/credential-cache.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import { decodeKeytab, encodeKeytab, type KeytabEntry } from '../../identity/keytab.ts';
import type { Log } from '../../log/log.ts';
import type { PrivateFolder } from './private-folder.ts';

export class ClientKeytab {
  readonly #folder: PrivateFolder;
  readonly #log: Log;
  /** By principal name: its keys, and a digest of them. */
  #known = new Map<string, { entries: readonly KeytabEntry[]; digest: string }>();

  constructor(folder: PrivateFolder, log: Log) {
    this.#folder = folder;
    this.#log = log;
  }

  /**
   * Reads the keytabs of `identities` and writes the merged one where keys changed; a file that is
   * missing or malformed leaves the keys in force that were read from it before. The cached tickets
   * of a principal whose keys changed are removed, so that only the new keys are used (R15). Gives
   * the names of these principals.
   */
  update(identities: readonly KerberosIdentity[]): string[] {
    const found = new Map<string, { entries: readonly KeytabEntry[]; digest: string }>();
    for (const { name, source, credential, principal } of identities) {
      if (source !== 'keytab' || name === undefined) continue;
      const read = this.#read(credential, name, principal);
      const entries = [...(found.get(name)?.entries ?? []), ...read];
      if (entries.length > 0) found.set(name, { entries, digest: digestOf(entries) });
    }
    const names = new Set([...found.keys(), ...this.#known.keys()]);
    const changed = [...names].filter(
      (name) => found.get(name)?.digest !== this.#known.get(name)?.digest,
    );
    if (changed.length === 0) return [];
    this.#known = found;
    const entries = [...found.values()].flatMap((keys) => keys.entries);
    this.#folder.write(this.#folder.clientKeytab, encodeKeytab(entries));
    this.#removeTickets(new Set(changed));
    return changed;
  }

  #read(file: string, name: string, principal: string): readonly KeytabEntry[] {
    const before = this.#known.get(name)?.entries ?? [];
    let bytes: Buffer;
    try {
      bytes = readFileSync(file);
    } catch (error) {
      const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
      this.#log.warn({ principal, reason }, 'a keytab cannot be read; the keys read before stay');
      return before;
    }
    const entries = decodeKeytab(bytes)?.filter((entry) => entry.principal === name) ?? [];
    if (entries.length === 0) {
      this.#log.warn({ principal }, 'a keytab is malformed or has no key of its principal');
      return before;
    }
    return entries;
  }

  /** The library names its caches itself; whose they are stands inside. */
  #removeTickets(names: ReadonlySet<string>): void {
    for (const file of readdirSync(this.#folder.collection)) {
      if (!file.startsWith('tkt') || file.startsWith('tkt-own-')) continue;
      const path = join(this.#folder.collection, file);
      const contents = decodeCredentialCache(readFileSync(path));
      if (contents !== undefined && names.has(contents.principal)) this.#folder.delete(path);
    }
  }
}

function digestOf(entries: readonly KeytabEntry[]): string {
  return createHash('sha256').update(encodeKeytab(entries)).digest('hex');
}
