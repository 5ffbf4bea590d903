/** haproxy: one thread, connections to the origin reused always, no logs. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { Subject, SubjectContext } from './subject.ts';

export const haproxy: Subject = {
  name: 'haproxy',
  requires: { program: 'haproxy', debianPackage: 'haproxy' },
  start: async (context) => {
    const file = join(context.folder, 'haproxy.cfg');
    await writeFile(file, configuration(context));
    return Child.start({
      name: 'haproxy',
      command: 'haproxy',
      args: ['-db', '-q', '-f', file],
      core: context.core,
    });
  },
};

function configuration({ port, openOriginPort }: SubjectContext): string {
  return `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend callers
  bind 127.0.0.1:${port}
  default_backend origin
backend origin
  server origin 127.0.0.1:${openOriginPort} pool-purge-delay 60s
`;
}
