/**
 * What `run --parent` makes of its command line logs in at real parents. The lab's targets are on
 * loopback, which a laptop reaches directly, so that list is taken away here.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { laptopSource } from '../../cmd/laptop.ts';
import { type App, startApp } from '../../src/app.ts';
import { noAccessLog } from '../../src/log/access-log.ts';
import { noLog } from '../../src/log/log.ts';
import { LAB_USERS } from './components.ts';
import { kdcFile } from './kdc.ts';
import { useKerberosLab } from './kerberos-world.ts';
import { labRequest } from './lab-daemon.ts';
import type { LabFacts, LabPorts } from './lab.ts';

async function startLaptop(lab: LabFacts, parent: keyof LabPorts, user: string): Promise<App> {
  const isTls = parent === 'squidTls';
  const url = `${isTls ? 'https' : 'http'}://localhost:${lab.ports[parent]}`;
  const ca = isTls ? lab.certificate : undefined;
  const laptop = { parent: url, user, listen: '127.0.0.1:0', ca };
  const { config } = await laptopSource(laptop, LAB_USERS.bob).load();
  assert.ok(config);
  const krb5Conf = kdcFile.krb5Conf(join(lab.folder, 'kdc'));
  const listeners = config.listeners.map((one) => ({ ...one, direct: [] }));
  const kerberos = { ...config.kerberos, config: krb5Conf };
  const deps = { log: noLog, access: noAccessLog, version: '0.0.0-test' };
  return await startApp({ ...config, kerberos, listeners }, deps);
}

suite('run --parent', () => {
  for (const [parent, user, expected] of [
    ['squidNtlm', String.raw`LAB\bob`, /^LAB\\bob$/],
    ['squidNtlm', 'bob', /^(?:LAB\\)?bob$/],
    ['squidNegotiate', 'bob@LAB.TEST', /^bob@LAB\.TEST$/],
    ['squidAll', 'bob@LAB.TEST', /^bob@LAB\.TEST$/],
    ['squidTls', String.raw`LAB\bob`, /^LAB\\bob$/],
    ['squidTls', 'bob@LAB.TEST', /^bob@LAB\.TEST$/],
    ['apacheParent', String.raw`LAB\bob`, /^LAB\\bob$/],
    ['apacheParent', 'bob@LAB.TEST', /^bob@LAB\.TEST$/],
    ['apacheParentPerRequest', 'bob@LAB.TEST', /^bob@LAB\.TEST$/],
  ] as const) {
    test(`logs ${user} in at ${parent}`, async (t) => {
      const lab = await useKerberosLab(t, 'squid');
      if (lab === undefined) return;
      const app = await startLaptop(lab, parent, user);
      try {
        const address = app.addresses.listeners['proxy']?.[0];
        assert.ok(address?.kind === 'tcp');
        const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
        const answer = await labRequest(address.port, url);
        assert.equal(answer.status, 200, answer.body);
        assert.match(answer.parentUser, expected);
      } finally {
        await app.close();
      }
    });
  }
});
