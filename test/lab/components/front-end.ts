/** The front end over ntlm_auth: an NTLM origin that also clients with short NEGOTIATE messages can log in to. */
import { accepts, asLabUser, command, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { programFile } from './files.ts';
import type { Verifier } from './winbind.ts';

/** The front end over ntlm_auth (programs/front-end.ts). */
export async function startFrontEnd(
  folder: string,
  port: number,
  verifier: Verifier,
): Promise<LabProcess> {
  await giveToLabUser(folder);
  const judge = asLabUser(verifier.wrapper, [
    command('ntlm_auth'),
    `--configfile=${verifier.sambaConf}`,
  ]);
  const frontEnd = startProcess({
    name: 'front-end',
    folder,
    command: process.execPath,
    args: [programFile('front-end.ts'), String(port), judge.command, ...judge.args],
    user: 'own',
  });
  await frontEnd.ready(() => accepts(port));
  return frontEnd;
}
