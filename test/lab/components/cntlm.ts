/** cntlm: another program that logs in at an NTLM parent for others; what the daemon is compared with. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LAB_USERS } from '../components.ts';
import { accepts, command, fillTemplate, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { templateFile } from './files.ts';

/** cntlm on `ports.own`, before the NTLM parent at `ports.parent`, as bob. */
export async function startCntlm(
  folder: string,
  ports: { readonly own: number; readonly parent: number },
): Promise<LabProcess> {
  const file = join(folder, 'cntlm.conf');
  const values = { PASSWORD: LAB_USERS.bob, PARENT_PORT: ports.parent, PORT: ports.own };
  writeFileSync(file, fillTemplate(templateFile('cntlm'), values));
  chmodSync(file, 0o600);
  await giveToLabUser(folder);
  const cntlm = startProcess({
    name: 'cntlm',
    folder,
    command: command('cntlm'),
    args: ['-f', '-c', file],
  });
  await cntlm.ready(() => accepts(ports.own));
  return cntlm;
}
