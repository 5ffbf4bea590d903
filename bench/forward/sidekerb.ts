/** sidekerb's forward listener: the real daemon from a written configuration, metrics on, access log off. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import { POOL_SIZE } from '../subjects/subject.ts';
import type { ForwardContext, ForwardSubject } from './forward-subject.ts';

const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');
const POOL = `pool: { maxConnections: ${POOL_SIZE}, maxPerPrincipal: ${POOL_SIZE}, maxIdle: ${POOL_SIZE}, maxHandshakes: 16 }`;

export const sidekerbForward: ForwardSubject = {
  requires: undefined,
  start: async (context) => {
    const { folder, core, way } = context;
    const secrets = join(folder, 'secrets');
    await mkdir(secrets, { mode: 0o700 });
    const passwordFile = join(secrets, 'password');
    await writeFile(passwordFile, passwordOf(way), { mode: 0o600 });
    const file = join(folder, 'sidekerb.yaml');
    await writeFile(file, forwardConfig(context, passwordFile));
    return Child.start({
      name: 'sidekerb',
      command: process.execPath,
      args: [PROGRAM, 'run', '--config', file],
      core,
    });
  },
};

function passwordOf(way: ForwardContext['way']): string {
  if (way.kind === 'parent') return way.account.password;
  return way.kind === 'origin' ? way.password : '';
}

/** The configuration of the way. */
export function forwardConfig({ way, port }: ForwardContext, passwordFile: string): string {
  const { top, listener } = partsOf(way, JSON.stringify(passwordFile));
  return `version: 1
log: { level: warn, access: false }
${top}listeners:
  - name: bench
    listen: '127.0.0.1:${port}'
    mode: forward
    allow: ['127.0.0.0/8:*', 'localhost:*']
${listener}`;
}

function partsOf(
  way: ForwardContext['way'],
  file: string,
): { readonly top: string; readonly listener: string } {
  if (way.kind === 'origin') {
    const { domain, user } = way;
    return {
      top: `principals:
  bench: { username: ${JSON.stringify(`${domain}\\${user}`)}, password: { file: ${file} } }
upstreams:
  site:
    url: 'http://127.0.0.1:${way.port}'
    auth: { principal: bench, schemes: ntlm }
    ${POOL}
`,
      listener: '    origins: [site]\n',
    };
  }
  if (way.kind !== 'parent') return { top: '', listener: '' };
  const { account, scheme } = way;
  const name = JSON.stringify(`${account.domain}\\${account.user}`);
  const principal =
    scheme === 'ntlm'
      ? `principals:\n  bench: { username: ${name}, password: { file: ${file} } }\n`
      : `kerberos: { config: ${JSON.stringify(account.krb5Config)} }
principals:
  bench: { kerberos: '${account.user}@${account.realm}', keytab: ${JSON.stringify(account.keytab)} }
`;
  return {
    top: `${principal}upstreams:
  corp:
    proxy: 'http://localhost:${way.port}'
    auth: { principal: bench, schemes: ${scheme} }
    ${POOL}
`,
    listener: '    via: [corp]\n',
  };
}
