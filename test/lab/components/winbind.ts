/**
 * Samba's winbindd without a domain, a port or root: the judge behind ntlm_auth. Which servers ask it
 * is decided by them.
 */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LAB_USERS } from '../components.ts';
import { command, fillTemplate, giveToLabUser, runAsLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { templateFile } from './files.ts';

/** How a program must be started to reach the lab's winbindd, and which configuration it names. */
export interface Verifier {
  readonly wrapper: string;
  readonly sambaConf: string;
}

/** Samba's winbindd over a local account file: the judge behind ntlm_auth. Opens no port. */
export async function startWinbind(folder: string): Promise<[LabProcess, Verifier]> {
  for (const name of ['private', 'state', 'cache', 'lock', 'run', 'ncalrpc', 'socket']) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  const sambaConf = join(folder, 'smb.conf');
  writeFileSync(sambaConf, fillTemplate(templateFile('winbind'), { FOLDER: folder }));
  const names = Object.keys(LAB_USERS);
  const accounts = (line: (name: string, id: number) => string): string =>
    ['root:x:0:', 'nobody:x:65534:'].map((start) => start + line('', 0)).join('\n') +
    '\n' +
    names.map((name, i) => `${name}:x:${70001 + i}:${line(name, 70001 + i)}`).join('\n') +
    '\n';
  writeFileSync(
    join(folder, 'passwd'),
    accounts((_, id) => `${id}::/:/bin/false`),
  );
  writeFileSync(
    join(folder, 'group'),
    accounts(() => ''),
  );
  // Samba's client library takes another socket folder only with a wrapped name service, and trusts
  // one that root does not own only with wrapped user ids.
  const wrapper = join(folder, 'with-winbind');
  writeFileSync(
    wrapper,
    `#!/bin/sh
export LD_PRELOAD=libnss_wrapper.so:libuid_wrapper.so UID_WRAPPER=1
export NSS_WRAPPER_PASSWD=${folder}/passwd NSS_WRAPPER_GROUP=${folder}/group
export SELFTEST_WINBINDD_SOCKET_DIR=${folder}/socket
exec "$@"
`,
  );
  chmodSync(wrapper, 0o755);
  await giveToLabUser(folder);
  for (const [name, password] of Object.entries(LAB_USERS)) {
    await runAsLabUser(wrapper, [command('pdbedit'), '-s', sambaConf, '-a', '-t', '-u', name], {
      input: `${password}\n${password}\n`,
    });
  }
  const winbindd = startProcess({
    name: 'winbind',
    folder,
    command: wrapper,
    args: [
      command('winbindd'),
      '--foreground',
      '--no-process-group',
      '-s',
      sambaConf,
      '-l',
      folder,
    ],
  });
  await winbindd.ready(() => existsSync(join(folder, 'socket', 'pipe')));
  return [winbindd, { wrapper, sambaConf }];
}
