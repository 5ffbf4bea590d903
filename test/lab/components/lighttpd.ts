/** lighttpd with mod_authn_gssapi: a second implementation of a Kerberos origin; see conf/lighttpd.conf. */
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { kdcFile } from '../kdc.ts';
import { accepts, command, fillTemplate, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { programFile, templateFile } from './files.ts';

/** lighttpd on `port`; `kdc` is the folder of the KDC whose service it plays. */
export async function startLighttpd(
  folder: string,
  port: number,
  kdc: string,
): Promise<LabProcess> {
  const htdocs = join(folder, 'htdocs');
  mkdirSync(htdocs);
  copyFileSync(programFile('lighttpd-echo.cgi'), join(htdocs, 'echo'));
  chmodSync(join(htdocs, 'echo'), 0o755);
  const file = join(folder, 'lighttpd.conf');
  writeFileSync(
    file,
    fillTemplate(templateFile('lighttpd'), {
      FOLDER: folder,
      PORT: port,
      KEYTAB: kdcFile.serviceKeytab(kdc),
    }),
  );
  await giveToLabUser(folder);
  const lighttpd = startProcess({
    name: 'lighttpd',
    folder,
    command: command('lighttpd'),
    args: ['-D', '-f', file],
    environment: { KRB5_CONFIG: kdcFile.krb5Conf(kdc), TMPDIR: folder },
  });
  await lighttpd.ready(() => accepts(port));
  return lighttpd;
}
