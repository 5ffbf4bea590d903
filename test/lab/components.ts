/**
 * The servers of the lab, one function each: writes what the server needs into its own folder and
 * starts it on the ports it is given. Order and sharing are decided in lab.ts.
 */
import { execFile } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  accepts,
  asLabUser,
  command,
  fillTemplate,
  giveToLabUser,
  runAsLabUser,
  startProcess,
} from './processes.ts';
import type { LabProcess } from './processes.ts';
import { KDC_NEEDS, kdcFile } from './kdc.ts';
import { isPresent } from './requires.ts';

const run = promisify(execFile);
const APACHE_MODULES = '/usr/lib/apache2/modules';
// Debian's own Python: another one in PATH does not have the python3-* packages.
const PYTHON = '/usr/bin/python3';

/** The accounts of the lab; the domain is LAB. */
export const LAB_USERS = { alice: 'alicepw', bob: 'bobpw' } as const;

/** How a program must be started to reach the lab's winbindd, and which configuration it names. */
export interface Verifier {
  readonly wrapper: string;
  readonly sambaConf: string;
}

export const COMPONENTS = [
  'kdc',
  'winbind',
  'apache',
  'squid',
  'front-end',
  'channel-binding',
] as const;
export type Component = (typeof COMPONENTS)[number];

const NEEDS = {
  kdc: KDC_NEEDS,
  winbind: [
    'setpriv',
    'winbindd',
    'ntlm_auth',
    'pdbedit',
    '/usr/lib/*/libnss_wrapper.so',
    '/usr/lib/*/libuid_wrapper.so',
  ],
  apache: [
    'setpriv',
    'apache2',
    'openssl',
    `${APACHE_MODULES}/mod_auth_gssapi.so`,
    '/etc/gss/mech.d',
  ],
  squid: ['setpriv', 'squid'],
  'front-end': ['setpriv'],
  'channel-binding': ['setpriv', 'openssl', PYTHON, '/usr/lib/python3/dist-packages/gssapi'],
} as const satisfies Record<Component, readonly string[]>;

/** The programs and files of `component` that this machine lacks. */
export function missingFor(component: Component): string[] {
  return NEEDS[component].filter((need) => !isPresent(need));
}

/** Samba's winbindd over a local account file: the judge behind ntlm_auth. Opens no port. */
export async function startWinbind(folder: string): Promise<[LabProcess, Verifier]> {
  for (const name of ['private', 'state', 'cache', 'lock', 'run', 'ncalrpc', 'socket']) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  const sambaConf = join(folder, 'smb.conf');
  writeFileSync(sambaConf, fillTemplate(config('winbind'), { FOLDER: folder }));
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

/** The hosts of Apache; see conf/apache.conf. */
export interface ApachePorts {
  readonly open: number;
  readonly ntlm: number;
  readonly ntlmTls: number;
  readonly negotiate: number;
  readonly negotiateBound: number;
  readonly mixed: number;
}

/** Apache with its hosts; `kdc` is the folder of the KDC whose services it plays. */
export async function startApache(
  folder: string,
  ports: ApachePorts,
  kdc: string,
): Promise<LabProcess> {
  mkdirSync(join(folder, 'htdocs'));
  writeFileSync(join(folder, 'htdocs', 'index.html'), 'lab\n');
  copyFileSync(program('echo.lua'), join(folder, 'echo.lua'));
  copyFileSync(program('upload.cgi'), join(folder, 'upload.cgi'));
  chmodSync(join(folder, 'upload.cgi'), 0o755);
  writeFileSync(
    join(folder, 'apache.conf'),
    fillTemplate(config('apache'), {
      FOLDER: folder,
      MODULES: APACHE_MODULES,
      OPEN_PORT: ports.open,
      NTLM_PORT: ports.ntlm,
      NTLM_TLS_PORT: ports.ntlmTls,
      NEGOTIATE_PORT: ports.negotiate,
      NEGOTIATE_BOUND_PORT: ports.negotiateBound,
      MIXED_PORT: ports.mixed,
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

/** squid as a reverse proxy that asks for NTLM, in front of Apache's open host. */
export async function startSquid(
  folder: string,
  ports: { readonly accelerator: number; readonly origin: number },
  verifier: Verifier,
): Promise<LabProcess> {
  writeFileSync(
    join(folder, 'squid.conf'),
    fillTemplate(config('squid'), {
      FOLDER: folder,
      PORT: ports.accelerator,
      ORIGIN_PORT: ports.origin,
      WRAPPER: verifier.wrapper,
      NTLM_AUTH: command('ntlm_auth'),
      SAMBA_CONF: verifier.sambaConf,
    }),
  );
  await giveToLabUser(folder);
  // Two squids on one machine collide in shared memory unless each has a service name.
  const service = `sidekerb${ports.accelerator}`;
  const squid = startProcess({
    name: 'squid',
    folder,
    command: command('squid'),
    args: ['-N', '-n', service, '-f', join(folder, 'squid.conf')],
    // It holds nothing worth the two seconds that it takes to end in order.
    stopSignal: 'SIGKILL',
  });
  await squid.ready(() => accepts(ports.accelerator));
  return {
    ...squid,
    stop: async () => {
      await squid.stop();
      for (const file of readdirSync('/dev/shm')) {
        if (file.startsWith(`${service}-`)) rmSync(join('/dev/shm', file), { force: true });
      }
    },
  };
}

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
    args: [program('front-end.ts'), String(port), judge.command, ...judge.args],
    user: 'own',
  });
  await frontEnd.ready(() => accepts(port));
  return frontEnd;
}

/** The HTTPS origin that can insist on channel bindings (programs/channel-binding-origin.py). */
export async function startChannelBindingOrigin(folder: string, port: number): Promise<LabProcess> {
  copyFileSync(program('channel-binding-origin.py'), join(folder, 'origin.py'));
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

/** What gss-ntlmssp verifies against and how it names itself; the machine's Kerberos stays out. */
function acceptorEnvironment(folder: string): Record<string, string> {
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

function config(name: string): string {
  return join(import.meta.dirname, 'conf', `${name}.conf`);
}

function program(name: string): string {
  return join(import.meta.dirname, 'programs', name);
}
