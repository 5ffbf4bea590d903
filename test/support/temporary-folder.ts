/** One temporary folder per process, removed when the process ends. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder: string | undefined;

/** The path of the folder; made at the first call. */
export function temporaryFolder(): string {
  if (folder === undefined) {
    const path = mkdtempSync(join(tmpdir(), 'sidekerb-test-'));
    process.on('exit', () => rmSync(path, { recursive: true, force: true }));
    folder = path;
  }
  return folder;
}

let files = 0;

/** A file of its own in the folder; answers its path. */
export function temporaryFile(name: string, content: string | Uint8Array): string {
  const path = join(temporaryFolder(), `${(files += 1)}-${name}`);
  writeFileSync(path, content);
  return path;
}
