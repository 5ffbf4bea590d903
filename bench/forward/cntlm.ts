/** cntlm: logs in by NTLMv2 at its parent, for callers without credentials. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { ForwardSubject } from './forward-subject.ts';

export const cntlmForward: ForwardSubject = {
  requires: { program: 'cntlm', debianPackage: 'cntlm' },
  start: async ({ folder, port, core, way }) => {
    if (way.kind !== 'parent' || way.scheme !== 'ntlm')
      throw new Error('cntlm needs an NTLM parent');
    const file = join(folder, 'cntlm.conf');
    const { user, domain, password } = way.account;
    await writeFile(
      file,
      `Username ${user}
Domain ${domain}
Password ${password}
Auth NTLMv2
Workstation bench
Proxy 127.0.0.1:${way.port}
Listen 127.0.0.1:${port}
Gateway no
`,
      { mode: 0o600 },
    );
    return Child.start({ name: 'cntlm', command: 'cntlm', args: ['-f', '-c', file], core });
  },
};
