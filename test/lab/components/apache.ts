/** Apache: origins and parent proxies that ask for NTLM and Kerberos; see conf/apache.conf. */
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { APACHE_MODULES, LAB_USERS } from '../components.ts';
import { kdcFile } from '../kdc.ts';
import { accepts, command, fillTemplate, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { acceptorEnvironment, programFile, templateFile } from './files.ts';

/** The hosts of Apache; see conf/apache.conf. */
export interface ApachePorts {
  readonly open: number;
  readonly ntlm: number;
  readonly ntlmTls: number;
  readonly negotiate: number;
  readonly negotiateBound: number;
  readonly mixed: number;
  readonly openTls: number;
  readonly password: number;
  readonly negotiateTls: number;
  /** Parent proxies. */
  readonly parent: number;
  readonly parentPerRequest: number;
}

/** Apache with its hosts; `kdc` is the folder of the KDC whose services it plays. */
export async function startApache(
  folder: string,
  ports: ApachePorts,
  kdc: string,
): Promise<LabProcess> {
  mkdirSync(join(folder, 'htdocs'));
  writeFileSync(join(folder, 'htdocs', 'index.html'), 'lab\n');
  copyFileSync(programFile('echo.lua'), join(folder, 'echo.lua'));
  copyFileSync(programFile('upload.cgi'), join(folder, 'upload.cgi'));
  chmodSync(join(folder, 'upload.cgi'), 0o755);
  writePasswords(folder);
  writeFileSync(
    join(folder, 'apache.conf'),
    fillTemplate(templateFile('apache'), {
      FOLDER: folder,
      MODULES: APACHE_MODULES,
      OPEN_PORT: ports.open,
      NTLM_PORT: ports.ntlm,
      NTLM_TLS_PORT: ports.ntlmTls,
      NEGOTIATE_PORT: ports.negotiate,
      NEGOTIATE_BOUND_PORT: ports.negotiateBound,
      MIXED_PORT: ports.mixed,
      OPEN_TLS_PORT: ports.openTls,
      PASSWORD_PORT: ports.password,
      NEGOTIATE_TLS_PORT: ports.negotiateTls,
      PARENT_PORT: ports.parent,
      PARENT_PER_REQUEST_PORT: ports.parentPerRequest,
      BOB: 'LAB\\\\bob',
    }),
  );
  const environment = {
    ...acceptorEnvironment(folder),
    KRB5_CONFIG: kdcFile.krb5Conf(kdc),
    KRB5_KTNAME: kdcFile.serviceKeytab(kdc),
  };
  await giveToLabUser(folder);
  const apache = startProcess({
    name: 'apache',
    folder,
    command: command('apache2'),
    args: ['-D', 'FOREGROUND', '-f', join(folder, 'apache.conf')],
    environment,
  });
  await apache.ready(() => accepts(ports.ntlmTls));
  return apache;
}

/** The accounts of the lab as mod_authn_file has them. */
function writePasswords(folder: string): void {
  const accounts = Object.entries(LAB_USERS).map(([name, password]) => {
    return { user: `LAB\\${name}`, password };
  });
  const digest = accounts.map(({ user, password }) => {
    const hash = createHash('md5').update(`${user}:lab:${password}`).digest('hex');
    return `${user}:lab:${hash}\n`;
  });
  writeFileSync(join(folder, 'digest.passwords'), digest.join(''));
  const basic = accounts.map(({ user, password }) => {
    return `${user}:{SHA}${createHash('sha1').update(password).digest('base64')}\n`;
  });
  writeFileSync(join(folder, 'basic.passwords'), basic.join(''));
}
