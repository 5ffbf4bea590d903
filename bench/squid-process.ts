/** squid as every case runs it: one process, nothing is cached, no logs. */

import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from './child.ts';

/** Started by root, squid becomes another user and must still write here. */
const WRITABLE_BY_ALL = 0o1777;

export interface SquidSetup {
  readonly folder: string;
  readonly core: number | undefined;
  /** The first lines of the configuration: where squid listens and where it leads to. */
  readonly way: string;
  readonly env?: Readonly<Record<string, string>>;
}

export async function startSquid({ folder, core, way, env }: SquidSetup): Promise<Child> {
  const file = join(folder, 'squid.conf');
  await writeFile(file, configuration(folder, way));
  await chmod(folder, WRITABLE_BY_ALL);
  return Child.start({
    name: 'squid',
    command: 'squid',
    args: ['-N', '-f', file],
    core,
    ...(env === undefined ? {} : { env }),
  });
}

const configuration = (folder: string, way: string): string => `${way}http_access allow all
cache deny all
cache_mem 0 MB
access_log none
cache_store_log none
cache_log ${folder}/cache.log
coredump_dir ${folder}
netdb_filename none
pid_filename none
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname bench
max_filedescriptors 4096
`;
