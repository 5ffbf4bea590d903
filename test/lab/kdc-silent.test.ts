/**
 * A KDC that accepts and never answers, over HTTP: those who need it get 504 with the reason, everybody
 * else is served meanwhile, and it is used again as soon as it answers.
 */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { REALM, writeKrb5Conf } from './kdc.ts';
import { labKeytab, openGate, useKerberosLab } from './kerberos-world.ts';
import { LAB_SECRETS, labRequest } from './lab-daemon.ts';
import type { LabFacts } from './lab.ts';

/** alice has tickets once she was served; bob asks the KDC first when it is silent; NTLM needs none. */
function config(lab: LabFacts, krb5Conf: string): string {
  const { apacheNegotiate, apacheNtlm } = lab.ports;
  const negotiate = `url: 'http://localhost:${apacheNegotiate}'`;
  return `version: 1
log: { access: false }
kerberos: { config: '${krb5Conf}' }
principals:
  alice: { kerberos: 'alice@${REALM}', keytab: '${labKeytab(lab, 'alice')}' }
  bob: { kerberos: 'bob@${REALM}', password: { env: BOB } }
  ntlm: { username: 'LAB\\alice', password: { env: ALICE } }
upstreams:
  alice: { ${negotiate}, auth: { principal: alice, schemes: negotiate } }
  bob: { ${negotiate}, auth: { principal: bob, schemes: negotiate } }
  ntlm: { url: 'http://localhost:${apacheNtlm}', auth: { principal: ntlm, schemes: ntlm } }
listeners:
  - name: lab
    listen: 127.0.0.1:0
    routes:
      - { path: /alice/, upstream: alice, stripPrefix: true }
      - { path: /bob/, upstream: bob, stripPrefix: true }
      - { path: /ntlm/, upstream: ntlm, stripPrefix: true }
`;
}

interface Served {
  readonly statuses: ReadonlySet<number>;
  readonly p99Ms: number;
}

/** Requests for `path` one after the other, until `isOver`. */
async function serve(daemon: TestDaemon, path: string, isOver: () => boolean): Promise<Served> {
  const statuses = new Set<number>();
  const times: number[] = [];
  while (!isOver()) {
    const since = performance.now();
    const { status } = await labRequest(daemon.address().port, path);
    times.push(performance.now() - since);
    statuses.add(status);
  }
  times.sort((a, b) => a - b);
  return { statuses, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0 };
}

test('while a KDC is silent only those who need it wait, and they are told why', async (t) => {
  const lab = await useKerberosLab(t);
  if (lab === undefined) return;
  await using gate = await openGate(lab.ports.kdc);
  const folder = mkdtempSync(join(temporaryFolder(), 'silent-'));
  const krb5Conf = join(folder, 'krb5.conf');
  writeKrb5Conf(krb5Conf, { port: gate.port, lifetime: '10h' });
  await using daemon = await startDaemon({ config: config(lab, krb5Conf), secrets: LAB_SECRETS });
  for (const path of ['/alice/echo', '/ntlm/echo']) {
    assert.equal((await labRequest(daemon.address().port, path)).status, 200, path);
  }

  gate.isSilent = true;
  let refused = 0;
  const isOver = (): boolean => refused === 4;
  const asBob = async (): Promise<void> => {
    const answer = await labRequest(daemon.address().port, '/bob/echo');
    refused += 1;
    assert.equal(answer.status, 504);
    assert.match(answer.body, /kdc-timeout/);
  };
  const since = performance.now();
  const [alice, ntlm] = await Promise.all([
    serve(daemon, '/alice/echo', isOver),
    serve(daemon, '/ntlm/echo', isOver),
    ...Array.from({ length: 4 }, asBob),
  ]);
  t.diagnostic(`4 refusals in ${Math.round(performance.now() - since)} ms`);
  t.diagnostic(`p99: Kerberos ${alice.p99Ms.toFixed(1)} ms, NTLM ${ntlm.p99Ms.toFixed(1)} ms`);
  assert.deepEqual([...alice.statuses], [200]);
  assert.deepEqual([...ntlm.statuses], [200]);

  gate.isSilent = false;
  const again = performance.now();
  let status = 0;
  while (status !== 200) {
    assert.ok(performance.now() - again < 5000, 'bob is served within 5 s');
    ({ status } = await labRequest(daemon.address().port, '/bob/echo'));
  }
  t.diagnostic(`served ${Math.round(performance.now() - again)} ms after the KDC answered again`);
});
