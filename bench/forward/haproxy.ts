/** haproxy in mode tcp: one thread, one port to one port, no logs. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { ForwardContext, ForwardSubject } from './forward-subject.ts';

export const haproxyForward: ForwardSubject = {
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

function configuration({ port, way }: ForwardContext): string {
  if (way.kind !== 'port') throw new Error('haproxy in mode tcp leads to one port');
  return `global
  nbthread 1
  maxconn 4096
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend callers
  bind 127.0.0.1:${port}
  default_backend target
backend target
  server target 127.0.0.1:${way.port}
`;
}
