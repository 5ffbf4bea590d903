/**
 * Which service a ticket is asked for: the name that the configuration gives, whatever its spelling in
 * the URL and whatever the DNS and the machine's Kerberos configuration would make of it (R27). The log
 * of the KDC tells.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { startDaemon } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/waiting.ts';
import { kdcFile, REALM } from './kdc.ts';
import { labKeytab, useKerberosLab } from './kerberos-world.ts';
import { labRequest } from './lab-daemon.ts';

interface Row {
  readonly title: string;
  /** `PORT` stands for that of the lab's server. */
  readonly url: string;
  readonly spn?: string;
  /** Service of the ticket; undefined: the KDC does not know it, and the request fails. */
  readonly service: string;
  readonly isKnown: boolean;
}

const ROWS: readonly Row[] = [
  { title: 'a name', url: 'http://localhost:PORT', service: 'HTTP/localhost', isKnown: true },
  { title: 'capitals', url: 'http://LOCALHOST:PORT', service: 'HTTP/localhost', isKnown: true },
  {
    title: 'a trailing dot',
    url: 'http://localhost.:PORT',
    service: 'HTTP/localhost',
    isKnown: true,
  },
  {
    title: 'an address',
    url: 'http://127.0.0.1:PORT',
    service: 'HTTP/127.0.0.1',
    isKnown: true,
  },
  {
    title: 'an alias of which the DNS knows another name',
    url: 'http://localhost:PORT',
    spn: 'HTTP/alias.lab.test',
    service: 'HTTP/alias.lab.test',
    isKnown: false,
  },
  {
    title: 'a short name without a search domain',
    url: 'http://localhost:PORT',
    spn: 'HTTP/intranet',
    service: 'HTTP/intranet',
    isKnown: false,
  },
  {
    title: 'a service of another host',
    url: 'http://localhost:PORT',
    spn: 'HTTP/origin.lab.test',
    service: 'HTTP/origin.lab.test',
    isKnown: true,
  },
  {
    title: 'capitals in spn, which a realm tells apart',
    url: 'http://localhost:PORT',
    spn: 'HTTP/Origin.Lab.Test',
    service: 'HTTP/origin.lab.test',
    isKnown: true,
  },
  {
    title: 'a port in spn',
    url: 'http://localhost:PORT',
    spn: 'HTTP/localhost:8080',
    service: 'HTTP/localhost:8080',
    isKnown: false,
  },
];

describe('a service name', () => {
  for (const row of ROWS) {
    test(`from ${row.title}: ${row.spn ?? row.url} is ${row.service}`, async (t) => {
      const lab = await useKerberosLab(t);
      if (lab === undefined) return;
      const kdc = join(lab.folder, 'kdc');
      const folder = mkdtempSync(join(temporaryFolder(), 'names-'));
      const krb5Conf = join(folder, 'krb5.conf');
      // As most machines have it, where an address would become HTTP/localhost.
      const machine = readFileSync(kdcFile.krb5Conf(kdc), 'utf8');
      const canonical = machine.replaceAll(
        /^(\s*(?:dns_canonicalize_hostname|rdns)\s*=).*$/gm,
        '$1 true',
      );
      assert.notEqual(canonical, machine);
      writeFileSync(krb5Conf, canonical);
      const url = row.url.replace('PORT', String(lab.ports.apacheNegotiate));
      const spn = row.spn === undefined ? '' : `, spn: '${row.spn}'`;
      await using daemon = await startDaemon({
        config: `version: 1
kerberos: { config: '${krb5Conf}' }
principals: { alice: { kerberos: 'alice@${REALM}', keytab: '${labKeytab(lab, 'alice')}' } }
upstreams: { web: { url: '${url}', auth: { principal: alice, schemes: negotiate${spn} } } }
listeners: [{ name: lab, listen: '127.0.0.1:0', routes: [{ upstream: web }] }]
`,
      });
      const log = join(kdc, 'requests.log');
      const before = statSync(log).size;
      const { status } = await labRequest(daemon.address().port, '/echo');
      assert.equal(status, row.isKnown ? 200 : 502);
      const asked = (): string[] => {
        const text = readFileSync(log).subarray(before).toString('utf8');
        return text.split('\n').filter((line) => line.includes('TGS_REQ'));
      };
      const name = `alice@${REALM} for ${row.service}@${REALM}`;
      await until(() => asked().some((line) => line.includes(name)), `${name} in the KDC's log`);
    });
  }
});
