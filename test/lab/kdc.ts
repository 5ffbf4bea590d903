/**
 * The lab's Kerberos realm LAB.TEST: an MIT KDC with its accounts and keytabs, and what a test does
 * to it (other keys, other passwords). Where it stands among the servers is decided in lab.ts.
 */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  accepts,
  command,
  fillTemplate,
  giveToLabUser,
  runAsLabUser,
  startProcess,
} from './processes.ts';
import type { LabProcess } from './processes.ts';

export const REALM = 'LAB.TEST';

/** The programs that the realm needs. */
export const KDC_NEEDS = ['setpriv', 'krb5kdc', 'kdb5_util', 'kadmin.local', 'kinit'] as const;

/** Where Kerberos things lie in the folder of a KDC. */
export const kdcFile = {
  krb5Conf: (folder: string): string => join(folder, 'krb5.conf'),
  /** Keys of the lab's services. */
  serviceKeytab: (folder: string): string => join(folder, 'http.keytab'),
  userKeytab: (folder: string, user: string): string => join(folder, `${user}.keytab`),
};

/** Service names of the lab, all of them Apache's. */
const SERVICES = ['localhost', '127.0.0.1', 'origin.lab.test', 'proxy.lab.test'];

/** Starts the KDC with `users` and a keytab for each of them beside the password. */
export async function startKdc(
  folder: string,
  port: number,
  users: Readonly<Record<string, string>>,
): Promise<LabProcess> {
  writeFileSync(
    join(folder, 'kdc.conf'),
    fillTemplate(template('kdc'), { FOLDER: folder, PORT: port }),
  );
  writeKrb5Conf(kdcFile.krb5Conf(folder), { port });
  await giveToLabUser(folder);
  await runAsLabUser(command('kdb5_util'), ['create', '-s', '-r', REALM, '-P', 'masterpw'], {
    environment: environmentOf(folder),
  });
  const services = SERVICES.map((host) => `HTTP/${host}`);
  const keytab = kdcFile.serviceKeytab(folder);
  await kadmin(folder, [
    ...Object.entries(users).map(([name, password]) => `addprinc -pw ${password} ${name}`),
    ...services.map((name) => `addprinc -randkey ${name}`),
    `ktadd -k ${keytab} ${services.join(' ')}`,
    ...Object.keys(users).map(
      (name) => `ktadd -norandkey -k ${kdcFile.userKeytab(folder, name)} ${name}`,
    ),
  ]);
  const keytabs = Object.keys(users).map((name) => kdcFile.userKeytab(folder, name));
  for (const file of [keytab, ...keytabs]) chmodSync(file, 0o644);
  const kdc = startProcess({
    name: 'kdc',
    folder,
    command: command('krb5kdc'),
    args: ['-n', '-r', REALM],
    environment: environmentOf(folder),
  });
  await kdc.ready(() => accepts(port));
  return kdc;
}

/** Runs commands of kadmin.local on the realm whose KDC lies in `folder`. */
export async function kadmin(folder: string, commands: readonly string[]): Promise<void> {
  await runAsLabUser(command('kadmin.local'), ['-r', REALM], {
    environment: environmentOf(folder),
    input: `${commands.join('\n')}\n`,
  });
}

/** Writes a client configuration that finds the KDC of LAB.TEST at `port`. */
export function writeKrb5Conf(
  file: string,
  { port, lifetime = '10h' }: { readonly port: number; readonly lifetime?: string },
): void {
  writeFileSync(file, fillTemplate(template('krb5'), { PORT: port, LIFETIME: lifetime }));
}

function environmentOf(folder: string): Record<string, string> {
  return { KRB5_CONFIG: kdcFile.krb5Conf(folder), KRB5_KDC_PROFILE: join(folder, 'kdc.conf') };
}

function template(name: string): string {
  return join(import.meta.dirname, 'conf', `${name}.conf`);
}
