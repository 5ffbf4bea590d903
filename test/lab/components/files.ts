/** What several servers of the lab are given: templates, programs, the certificate, and what gss-ntlmssp knows. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LAB_USERS } from '../components.ts';

const run = promisify(execFile);
const LAB = join(import.meta.dirname, '..');

/** The template of a server's configuration. */
export function templateFile(name: string): string {
  return join(LAB, 'conf', `${name}.conf`);
}

/** A program that the lab brings itself. */
export function programFile(name: string): string {
  return join(LAB, 'programs', name);
}

/** A self-signed certificate for localhost, as `tls.crt` and `tls.key` in `folder`. */
export async function makeCertificate(folder: string): Promise<void> {
  const request = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30';
  await run('openssl', [
    ...request.split(' '),
    '-keyout',
    join(folder, 'tls.key'),
    '-out',
    join(folder, 'tls.crt'),
    '-subj',
    '/CN=localhost',
    '-addext',
    'subjectAltName=DNS:localhost,IP:127.0.0.1',
  ]);
}

/** What gss-ntlmssp verifies against and how it names itself; the machine's Kerberos stays out. */
export function acceptorEnvironment(folder: string): Record<string, string> {
  const users = join(folder, 'ntlm.users');
  const lines = Object.entries(LAB_USERS).map(([name, password]) => `LAB:${name}:${password}\n`);
  writeFileSync(users, lines.join(''));
  writeFileSync(join(folder, 'krb5.conf'), '[libdefaults]\n  default_realm = LAB.TEST\n');
  return {
    NTLM_USER_FILE: users,
    NETBIOS_COMPUTER_NAME: 'ORIGIN',
    NETBIOS_DOMAIN_NAME: 'LAB',
    KRB5_CONFIG: join(folder, 'krb5.conf'),
    TMPDIR: folder,
  };
}
