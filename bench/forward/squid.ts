/** squid as a forward proxy: straight to targets, or through a parent by Kerberos; one process, no cache, no logs. */

import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { ForwardContext, ForwardSubject } from './forward-subject.ts';

/** Started by root, squid becomes another user and must still write here. */
const WRITABLE_BY_ALL = 0o1777;

export const squidForward: ForwardSubject = {
  requires: { program: 'squid', debianPackage: 'squid' },
  start: async (context) => {
    const { folder, core, way } = context;
    const file = join(folder, 'squid.conf');
    await writeFile(file, configuration(context));
    await chmod(folder, WRITABLE_BY_ALL);
    return Child.start({
      name: 'squid',
      command: 'squid',
      args: ['-N', '-f', file],
      core,
      ...(way.kind === 'parent'
        ? { env: { KRB5_CONFIG: way.account.krb5Config, KRB5_KTNAME: way.account.keytab } }
        : {}),
    });
  },
};

function configuration({ folder, port, way }: ForwardContext): string {
  return `http_port 127.0.0.1:${port}
${route(way)}http_access allow all
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

function route(way: ForwardContext['way']): string {
  if (way.kind !== 'parent') return '';
  return `cache_peer localhost parent ${way.port} 0 no-query no-digest no-netdb-exchange default login=NEGOTIATE
never_direct allow all
`;
}
