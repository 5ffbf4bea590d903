/**
 * Which service a ticket is asked for: the name that the configuration gives, whatever its spelling in
 * the URL and whatever the DNS and the machine's Kerberos configuration would make of it (R27). The log
 * of the KDC tells.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { startDaemon } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/waiting.ts';
import { kdcFile, REALM } from './kdc.ts';
import { labKeytab, useKerberosLab } from './kerberos-world.ts';
import { labRequest } from './lab-daemon.ts';
import { lacks, requireCommand } from './requires.ts';

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');

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
    title: 'a name that nobody resolves',
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

/** A Kerberos configuration as most machines have it, where an address would become HTTP/localhost. */
function canonicalConf(kdc: string, folder: string): string {
  const file = join(folder, 'krb5.conf');
  const machine = readFileSync(kdcFile.krb5Conf(kdc), 'utf8');
  const canonical = machine.replaceAll(
    /^(\s*(?:dns_canonicalize_hostname|rdns)\s*=).*$/gm,
    '$1 true',
  );
  assert.notEqual(canonical, machine);
  writeFileSync(file, canonical);
  return file;
}

/** Waits until the KDC was asked by alice for a ticket of `service`. */
async function askedFor(kdc: KdcLog, service: string): Promise<void> {
  const name = `alice@${REALM} for ${service}@${REALM}`;
  await until(() => kdc.asked().some((line) => line.includes(name)), `${name} in the KDC's log`);
}

interface KdcLog {
  /** The requests for service tickets since `kdcLog`. */
  readonly asked: () => readonly string[];
}

function kdcLog(kdc: string): KdcLog {
  const log = join(kdc, 'requests.log');
  const before = statSync(log).size;
  const asked = (): string[] => {
    const text = readFileSync(log).subarray(before).toString('utf8');
    return text.split('\n').filter((line) => line.includes('TGS_REQ'));
  };
  return { asked };
}

describe('a service name', () => {
  for (const row of ROWS) {
    test(`from ${row.title}: ${row.spn ?? row.url} is ${row.service}`, async (t) => {
      const lab = await useKerberosLab(t);
      if (lab === undefined) return;
      const kdc = join(lab.folder, 'kdc');
      const krb5Conf = canonicalConf(kdc, mkdtempSync(join(temporaryFolder(), 'names-')));
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
      const log = kdcLog(kdc);
      const { status } = await labRequest(daemon.address().port, '/echo');
      assert.equal(status, row.isKnown ? 200 : 502);
      await askedFor(log, row.service);
    });
  }

  test('from an alias is that of the alias, not of the name behind it', async (t) => {
    if (!requireCommand(t, 'bwrap')) return;
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    const folder = mkdtempSync(join(temporaryFolder(), 'alias-'));
    const hosts = join(folder, 'hosts');
    // What a CNAME is to a resolver: asked for the alias, it answers with the first name.
    writeFileSync(hosts, '127.0.0.1 origin.lab.test alias.lab.test\n127.0.0.1 localhost\n');
    const withHosts = ['--dev-bind', '/', '/', '--ro-bind', hosts, '/etc/hosts'];
    const inside = (...command: readonly string[]): Promise<{ readonly stdout: string }> =>
      run('bwrap', [...withHosts, ...command]);
    if (!(await inside('true').then(Boolean, () => false))) {
      lacks(t, 'the right to create namespaces (containers and chroots take it away)');
      return;
    }
    const canonical = await inside('getent', 'ahosts', 'alias.lab.test');
    assert.match(canonical.stdout, /origin\.lab\.test/);

    const kdc = join(lab.folder, 'kdc');
    const url = `http://alias.lab.test:${lab.ports.apacheNegotiate}`;
    const config = join(folder, 'sidekerb.yaml');
    writeFileSync(
      config,
      `version: 1
kerberos: { config: '${canonicalConf(kdc, folder)}' }
principals: { alice: { kerberos: 'alice@${REALM}', keytab: '${labKeytab(lab, 'alice')}' } }
upstreams: { web: { url: '${url}', auth: { principal: alice, schemes: negotiate } } }
listeners: [{ name: lab, listen: '127.0.0.1:0', routes: [{ upstream: web }] }]
`,
    );
    const log = kdcLog(kdc);
    const told = await inside(
      process.execPath,
      PROGRAM,
      'explain',
      `${url}/echo`,
      '--config',
      config,
    ).then(
      ({ stdout }) => stdout,
      (error: { readonly stdout: string }) => error.stdout,
    );

    assert.match(told, /HTTP\/alias\.lab\.test/);
    assert.doesNotMatch(told, /HTTP\/origin\.lab\.test/);
    await askedFor(log, 'HTTP/alias.lab.test');
    assert.deepEqual(
      log.asked().filter((line) => line.includes('HTTP/origin')),
      [],
    );
  });
});
