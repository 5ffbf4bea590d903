/** squid as an accelerator: one process, nothing is cached, no logs. */

import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { Subject, SubjectContext } from './subject.ts';

/** Started by root, squid becomes another user and must still write here. */
const WRITABLE_BY_ALL = 0o1777;

export const squid: Subject = {
  name: 'squid',
  requires: { program: 'squid', debianPackage: 'squid' },
  start: async (context) => {
    const file = join(context.folder, 'squid.conf');
    await writeFile(file, configuration(context));
    await chmod(context.folder, WRITABLE_BY_ALL);
    return Child.start({
      name: 'squid',
      command: 'squid',
      args: ['-N', '-f', file],
      core: context.core,
    });
  },
};

function configuration({ folder, port, openOriginPort }: SubjectContext): string {
  return `http_port 127.0.0.1:${port} accel defaultsite=127.0.0.1 no-vhost
cache_peer 127.0.0.1 parent ${openOriginPort} 0 no-query no-digest no-netdb-exchange originserver name=origin
cache_peer_access origin allow all
never_direct allow all
http_access allow all
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
}
