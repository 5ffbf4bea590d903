/** Apache: mpm_event in one process with a thread for every caller, mod_proxy_http, no logs. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { Subject, SubjectContext } from './subject.ts';

const MODULES = '/usr/lib/apache2/modules';
const THREADS = 320;

export const apache: Subject = {
  name: 'apache',
  requires: { program: 'apache2', debianPackage: 'apache2' },
  start: async (context) => {
    const file = join(context.folder, 'apache.conf');
    await writeFile(file, configuration(context));
    return Child.start({
      name: 'apache',
      command: 'apache2',
      args: ['-DFOREGROUND', '-f', file],
      core: context.core,
    });
  },
};

function configuration({ folder, port, openOriginPort }: SubjectContext): string {
  // Started by root, Apache refuses to serve as root; the account is the one of Debian's package.
  const account = process.getuid?.() === 0 ? 'User www-data\nGroup www-data\n' : '';
  return `ServerRoot ${folder}
DefaultRuntimeDir ${folder}
PidFile ${folder}/apache.pid
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
LoadModule mpm_event_module ${MODULES}/mod_mpm_event.so
LoadModule authz_core_module ${MODULES}/mod_authz_core.so
LoadModule proxy_module ${MODULES}/mod_proxy.so
LoadModule proxy_http_module ${MODULES}/mod_proxy_http.so
${account}ErrorLog ${folder}/error.log
LogLevel crit
ServerLimit 1
StartServers 1
ThreadLimit ${THREADS}
ThreadsPerChild ${THREADS}
MinSpareThreads ${THREADS}
MaxSpareThreads ${THREADS}
MaxRequestWorkers ${THREADS}
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ProxyPass / http://127.0.0.1:${openOriginPort}/ keepalive=On max=${THREADS} ttl=60
`;
}
