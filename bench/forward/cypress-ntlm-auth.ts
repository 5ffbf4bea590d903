/**
 * cypress-ntlm-auth: its proxy, started through its own API without Cypress. It is installed once, in
 * the user's cache folder: the project has no other use for it.
 */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Child } from '../child.ts';
import type { ForwardSubject } from './forward-subject.ts';

const NAME = 'cypress-ntlm-auth';
const VERSION = '4.2.4';
const INSTALL_MS = 180_000;
const PROGRAM = join(import.meta.dirname, '../peers/cypress-ntlm-auth.ts');

export const cypressForward: ForwardSubject = {
  requires: undefined,
  start: async ({ port, way, folder, core }) => {
    if (way.kind !== 'origin') throw new Error(`${NAME} logs in at origins alone`);
    return Child.start({
      name: NAME,
      command: process.execPath,
      args: [PROGRAM, cacheFolder(), `127.0.0.1:${way.port}`],
      core,
      // It writes certificates where it works.
      folder,
      env: {
        CYPRESS_NTLM_AUTH_PROXY: `http://127.0.0.1:${port}`,
        BENCH_USER: way.user,
        BENCH_DOMAIN: way.domain,
        BENCH_PASSWORD: way.password,
      },
    });
  },
};

/** Installs the package unless it is there. Throws what npm says. */
export async function installCypressNtlmAuth(): Promise<void> {
  const folder = cacheFolder();
  if (existsSync(join(folder, 'node_modules', NAME, 'package.json'))) return;
  await mkdir(folder, { recursive: true });
  const options = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', folder];
  await promisify(execFile)('npm', ['install', ...options, `${NAME}@${VERSION}`], {
    cwd: folder,
    timeout: INSTALL_MS,
  });
}

function cacheFolder(): string {
  const caches = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  return join(caches, 'sidekerb-bench', `${NAME}-${VERSION}`);
}
