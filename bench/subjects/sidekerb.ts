/**
 * sidekerb itself: the real daemon from a written configuration, metrics on, access log off, towards
 * the origin that asks every connection for NTLM.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import { BENCH_USER, POOL_SIZE, type Subject, type SubjectContext } from './subject.ts';

const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');

export const sidekerb: Subject = {
  name: 'sidekerb',
  requires: undefined,
  start: async (context) => {
    const file = join(context.folder, 'sidekerb.yaml');
    await writeFile(file, configuration(context));
    return Child.start({
      name: 'sidekerb',
      command: process.execPath,
      args: [PROGRAM, 'run', '--config', file],
      core: context.core,
    });
  },
};

function configuration(context: SubjectContext): string {
  const text = (value: string): string => JSON.stringify(value);
  return `version: 1
log: { level: warn, access: false }
admin: { listen: '127.0.0.1:${context.secondPort}' }
principals:
  bench: { username: ${text(BENCH_USER)}, password: { file: ${text(context.passwordFile)} } }
upstreams:
  origin:
    url: http://127.0.0.1:${context.ntlmOriginPort}
    auth: { principal: bench, schemes: ntlm }
    pool: { maxConnections: ${POOL_SIZE}, maxPerPrincipal: ${POOL_SIZE}, maxIdle: ${POOL_SIZE}, maxHandshakes: 16 }
listeners:
  - name: bench
    listen: '127.0.0.1:${context.port}'
    mode: reverse
    routes: [{ path: /, upstream: origin }]
`;
}
