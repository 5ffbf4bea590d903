/** haproxy as every case runs it: one thread, no logs. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from './child.ts';

export interface HaproxySetup {
  readonly folder: string;
  readonly core: number | undefined;
  /** Where it listens. */
  readonly port: number;
  /** Lines of `defaults`, without indent. */
  readonly defaults: readonly string[];
  /** What follows the name in the `server` line. */
  readonly server: string;
}

export async function startHaproxy(setup: HaproxySetup): Promise<Child> {
  const file = join(setup.folder, 'haproxy.cfg');
  await writeFile(file, configuration(setup));
  return Child.start({
    name: 'haproxy',
    command: 'haproxy',
    args: ['-db', '-q', '-f', file],
    core: setup.core,
  });
}

const configuration = ({ port, defaults, server }: HaproxySetup): string => `global
  nbthread 1
  maxconn 4096
defaults
${defaults.map((line) => `  ${line}\n`).join('')}  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend callers
  bind 127.0.0.1:${port}
  default_backend origin
backend origin
  server origin ${server}
`;
