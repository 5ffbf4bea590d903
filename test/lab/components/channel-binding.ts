/** The origin that can insist on channel bindings. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { PYTHON } from '../components.ts';
import { accepts, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { acceptorEnvironment, programFile } from './files.ts';

/** The HTTPS origin that can insist on channel bindings (programs/channel-binding-origin.py). */
export async function startChannelBindingOrigin(folder: string, port: number): Promise<LabProcess> {
  copyFileSync(programFile('channel-binding-origin.py'), join(folder, 'origin.py'));
  const environment = acceptorEnvironment(folder);
  await giveToLabUser(folder);
  const origin = startProcess({
    name: 'channel-binding',
    folder,
    command: PYTHON,
    args: ['origin.py', String(port), 'tls.crt', 'tls.key'],
    environment,
  });
  await origin.ready(() => accepts(port));
  return origin;
}
