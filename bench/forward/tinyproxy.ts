/** tinyproxy, straight to targets, any port, no logs. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import type { ForwardSubject } from './forward-subject.ts';

export const tinyproxyForward: ForwardSubject = {
  requires: { program: 'tinyproxy', debianPackage: 'tinyproxy-bin' },
  start: async ({ folder, port, core }) => {
    const file = join(folder, 'tinyproxy.conf');
    await writeFile(
      file,
      `Port ${port}
Listen 127.0.0.1
Timeout 60
MaxClients 512
Allow 127.0.0.1
LogLevel Critical
LogFile "${folder}/tinyproxy.log"
`,
    );
    return Child.start({ name: 'tinyproxy', command: 'tinyproxy', args: ['-d', '-c', file], core });
  },
};
