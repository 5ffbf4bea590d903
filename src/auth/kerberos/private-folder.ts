/**
 * A folder that holds something secret on disk while the daemon runs: the ticket collection, the
 * merged client keytab, tickets under way; or the keytabs of acceptors and what they have seen. Nobody else may enter it, and it goes with the daemon.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class PrivateFolder {
  readonly path: string;
  /** The `DIR:` collection of the helper. */
  readonly collection: string;
  /** What the library logs principals in with by itself. */
  readonly clientKeytab: string;
  /** Authenticators that acceptors have seen; the file outlives them. */
  readonly replayCache: string;
  readonly #scratch: string;
  #lastScratch = 0;
  readonly #remove = (): void => rmSync(this.path, { recursive: true, force: true });

  constructor() {
    // Mode 0700, and a name that nobody can take before.
    this.path = mkdtempSync(join(tmpdir(), 'sidekerb-krb5-'));
    this.collection = join(this.path, 'collection');
    this.#scratch = join(this.path, 'scratch');
    this.clientKeytab = join(this.path, 'client.keytab');
    this.replayCache = join(this.path, 'replay');
    for (const folder of [this.collection, this.#scratch]) mkdirSync(folder, { mode: 0o700 });
    // A fault that ends the process at once must not leave tickets behind.
    process.once('exit', this.#remove);
  }

  /** A file name that nobody used, inside the folder and outside the collection. */
  scratchFile(): string {
    this.#lastScratch += 1;
    return join(this.#scratch, String(this.#lastScratch));
  }

  /** Where the tickets of the `index`th principal go; the library reads `tkt*` only. */
  cacheFile(index: number): string {
    return join(this.collection, `tkt-own-${index}`);
  }

  /** The keys of the `index`th acceptor. */
  serviceKeytab(index: number): string {
    return join(this.path, `service-${index}.keytab`);
  }

  /** Puts `bytes` into place as a whole: a reader sees the old file or the new one. */
  write(file: string, bytes: Uint8Array): void {
    const scratch = this.scratchFile();
    writeFileSync(scratch, bytes, { mode: 0o600 });
    renameSync(scratch, file);
  }

  /** Puts a finished file into place. */
  move(from: string, to: string): void {
    renameSync(from, to);
  }

  delete(file: string): void {
    rmSync(file, { force: true });
  }

  /** May be called twice. */
  remove(): void {
    process.removeListener('exit', this.#remove);
    this.#remove();
  }
}
