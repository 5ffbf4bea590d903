/** squid: a reverse proxy that asks for NTLM, and parent proxies, one port for each way to ask; see conf/squid.conf. */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQUID_KERBEROS } from '../components.ts';
import { kdcFile } from '../kdc.ts';
import { accepts, command, fillTemplate, giveToLabUser, startProcess } from '../processes.ts';
import type { LabProcess } from '../processes.ts';
import { templateFile } from './files.ts';
import type { Verifier } from './winbind.ts';

/** The ports of squid, and of the origin behind its accelerator. */
export interface SquidPorts {
  readonly accelerator: number;
  readonly origin: number;
  /** Parents: without a login, with one scheme, with all three, and that over TLS. */
  readonly open: number;
  readonly negotiate: number;
  readonly ntlm: number;
  readonly basic: number;
  readonly all: number;
  readonly tls: number;
}

/** Where squid writes a line for each request; conf/squid.conf says what is in it. */
export const squidLog = (folder: string): string => join(folder, 'access.log');

/** squid on all its ports, with `tls.crt` and `tls.key` in its folder; `kdc` is the folder of the KDC. */
export async function startSquid(
  folder: string,
  ports: SquidPorts,
  { verifier, kdc }: { readonly verifier: Verifier; readonly kdc: string },
): Promise<LabProcess> {
  // A file of its own: localhost is 127.0.0.1 alone, on every machine.
  writeFileSync(
    join(folder, 'hosts'),
    '127.0.0.1 localhost\n127.0.0.1 origin.lab.test\n127.0.0.1 proxy.lab.test\n',
  );
  writeFileSync(
    join(folder, 'squid.conf'),
    fillTemplate(templateFile('squid'), {
      FOLDER: folder,
      PORT: ports.accelerator,
      ORIGIN_PORT: ports.origin,
      OPEN_PORT: ports.open,
      NEGOTIATE_PORT: ports.negotiate,
      NTLM_PORT: ports.ntlm,
      BASIC_PORT: ports.basic,
      ALL_PORT: ports.all,
      TLS_PORT: ports.tls,
      KERBEROS_AUTH: SQUID_KERBEROS,
      KEYTAB: kdcFile.serviceKeytab(kdc),
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
    // The replay cache of the Kerberos helpers goes where the lab is removed.
    environment: { KRB5_CONFIG: kdcFile.krb5Conf(kdc), TMPDIR: folder },
    // It holds nothing worth the two seconds that it takes to end in order.
    stopSignal: 'SIGKILL',
  });
  await squid.ready(() => accepts(ports.tls));
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
