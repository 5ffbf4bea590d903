/**
 * Copies the caches of ccache principals into the collection whenever their content changes: the
 * originals belong to somebody else, may appear late, and are never written to.
 */
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../../clock.ts';
import { decodeCredentialCache } from '../../identity/credential-cache.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import type { Log } from '../../log/log.ts';
import type { PrivateFolder } from './private-folder.ts';

/** An original is looked at no more often than this. */
const CHECK_MS = 1000;

interface Copy {
  readonly file: string;
  /** What `stat` said last; a changed content changes it. */
  mark: string;
  digest: string;
  checkedAt: number;
  /** A writer may take the file away for a moment: only a second absence counts. */
  isAbsent: boolean;
  check: Promise<boolean> | undefined;
}

export class CacheCopies {
  readonly #folder: PrivateFolder;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #copies = new Map<string, Copy>();

  constructor(folder: PrivateFolder, { clock, log }: { clock: Clock; log: Log }) {
    this.#folder = folder;
    this.#clock = clock;
    this.#log = log;
  }

  /** The copy in `file` was removed: what comes next is new. */
  forget(file: string): void {
    this.#copies.delete(file);
  }

  /** Copies the cache of `identity` to `file` if it changed. True when it did. Never rejects. */
  async update(identity: KerberosIdentity, file: string, isUrgent: boolean): Promise<boolean> {
    let copy = this.#copies.get(file);
    if (copy === undefined) {
      const checkedAt = Number.NEGATIVE_INFINITY;
      copy = { file, mark: '', digest: '', checkedAt, isAbsent: false, check: undefined };
      this.#copies.set(file, copy);
    }
    if (copy.check !== undefined) return copy.check;
    if (!isUrgent && this.#clock.now() - copy.checkedAt < CHECK_MS) return false;
    copy.checkedAt = this.#clock.now();
    copy.check = this.#look(identity, copy);
    try {
      return await copy.check;
    } finally {
      copy.check = undefined;
    }
  }

  async #look(identity: KerberosIdentity, copy: Copy): Promise<boolean> {
    const { principal } = identity;
    let bytes: Buffer;
    try {
      const facts = await stat(identity.credential, { bigint: true });
      const mark = `${facts.dev} ${facts.ino} ${facts.size} ${facts.mtimeNs} ${facts.ctimeNs}`;
      if (mark === copy.mark) return false;
      bytes = await readFile(identity.credential);
      copy.mark = mark;
    } catch (error) {
      const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
      return this.#absent(copy, { principal, reason });
    }
    copy.isAbsent = false;
    const digest = createHash('sha256').update(bytes).digest('hex');
    if (digest === copy.digest) return false;
    const contents = decodeCredentialCache(bytes);
    if (contents === undefined || contents.tickets === 0) {
      // A writer may be in the middle of it; what was copied before is still good.
      this.#log.warn({ principal }, 'a credential cache is empty, incomplete or no cache file');
      return false;
    }
    if (contents.principal !== identity.name) {
      this.#log.warn({ principal }, 'a credential cache holds tickets of another principal');
      return false;
    }
    copy.digest = digest;
    this.#folder.write(copy.file, bytes);
    return true;
  }

  #absent(copy: Copy, fields: { principal: string; reason: string }): boolean {
    const wasAbsent = copy.isAbsent;
    copy.isAbsent = true;
    copy.mark = '';
    if (!wasAbsent) this.#log.warn(fields, 'a credential cache cannot be read');
    if (!wasAbsent || copy.digest === '') return false;
    copy.digest = '';
    this.#folder.delete(copy.file);
    return true;
  }
}
