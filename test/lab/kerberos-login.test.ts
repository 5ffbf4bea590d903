/** The daemon logs in by Kerberos at real servers, for callers without credentials. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { temporaryFolder } from '../support/temporary-folder.ts';
import {
  type LabPrincipal,
  labRequest,
  type LabRoute,
  type LabServer,
  startLabDaemon,
} from './lab-daemon.ts';
import { LAB_USERS } from './components.ts';
import { kdcFile } from './kdc.ts';
import { kinit, useKerberosLab } from './kerberos-world.ts';

const SPN_OF_NOBODY = 'HTTP/nobody.lab.test';

suite('a Kerberos login', () => {
  for (const [server, logins] of [
    // The first login is settled in a leg of its own; then each request has a token of its own.
    ['negotiate', 11],
    // It proves nothing about itself, which is enough unless more is required.
    ['lighttpd', 11],
    // The server's proof comes with the answer, which TLS brings in one packet with its body.
    ['negotiate-tls', 11],
    ['negotiate-bound', 1],
    ['mixed', 1],
  ] as const) {
    test(`ten requests at ${server} take ${logins} and one connection`, async (t) => {
      const lab = await useKerberosLab(t, server === 'lighttpd' ? 'lighttpd' : 'apache');
      if (lab === undefined) return;
      await using daemon = await startLabDaemon(lab, [route('/a/', server, 'alice-keytab')]);
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const ports = new Set<string>();
      for (let i = 0; i < 10; i += 1) {
        const answer = await labRequest(daemon.address().port, '/a/echo', { agent });
        assert.equal(answer.status, 200, answer.body);
        assert.match(answer.user, /^alice@LAB\.TEST$/);
        ports.add(answer.port);
      }
      agent.destroy();
      assert.equal(ports.size, 1);
      const metrics = await daemon.metrics();
      const ok = { upstream: 'u0', scheme: 'negotiate', result: 'ok' };
      assert.equal(metrics.sum('sidekerb_handshakes_total', ok), logins);
    });
  }

  test('the server proves itself where that is required', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { ...route('/a/', 'negotiate', 'bob-tickets'), mutual: 'required' },
    ]);
    const answer = await labRequest(daemon.address().port, '/a/echo');
    assert.equal(answer.status, 200, answer.body);
    assert.equal(answer.user, 'bob@LAB.TEST');
  });

  test('a server that proves nothing is refused where proof is required', async (t) => {
    const lab = await useKerberosLab(t, 'lighttpd');
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { ...route('/a/', 'lighttpd', 'bob-tickets'), mutual: 'required' },
    ]);
    const answer = await labRequest(daemon.address().port, '/a/echo');
    assert.equal(answer.status, 502);
    assert.match(answer.body, /mutual-failed/);
  });

  test('two users at one server, 40 in flight, 4,000 requests: each arrives as itself', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      route('/alice/', 'negotiate', 'alice-keytab'),
      route('/bob/', 'negotiate', 'bob-tickets'),
    ]);
    const seen = await askInTurn(daemon.address().port, 4000);
    assert.deepEqual(seen.users, { '/alice/': ['alice@LAB.TEST'], '/bob/': ['bob@LAB.TEST'] });
    assert.deepEqual(seen.shared, []);
  });

  test('alice by NTLM and bob by Kerberos at one server: each arrives as itself', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { path: '/alice/', server: 'mixed', principal: 'alice' },
      route('/bob/', 'mixed', 'bob-tickets'),
    ]);
    const seen = await askInTurn(daemon.address().port, 2000);
    assert.equal(seen.users['/alice/']?.length, 1);
    assert.match(seen.users['/alice/']?.[0] ?? '', /^LAB\\alice$/i);
    assert.deepEqual(seen.users['/bob/'], ['bob@LAB.TEST']);
    assert.deepEqual(seen.shared, []);
  });
});

suite('the ambient identity', () => {
  test('R5 is on no connection twice: who owns the default cache may change at any time', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    const cache = join(mkdtempSync(join(temporaryFolder(), 'ambient-')), 'cc');
    const world = { krb5Conf: kdcFile.krb5Conf(join(lab.folder, 'kdc')) };
    const owns = (name: 'alice' | 'bob'): Promise<void> =>
      kinit(world, { name, password: LAB_USERS[name], file: cache });
    await owns('alice');
    await using daemon = await startLabDaemon(
      lab,
      [route('/a/', 'negotiate-bound', 'ambient')],
      '',
      {
        KRB5CCNAME: `FILE:${cache}`,
      },
    );
    const { port } = daemon.address();
    const first = [await labRequest(port, '/a/echo'), await labRequest(port, '/a/echo')];
    assert.deepEqual(
      first.map(({ status, user }) => `${status} ${user}`),
      ['200 alice@LAB.TEST', '200 alice@LAB.TEST'],
    );
    assert.notEqual(first[0]?.port, first[1]?.port);
    await owns('bob');
    const next = await labRequest(port, '/a/echo');
    assert.equal(`${next.status} ${next.user}`, '200 bob@LAB.TEST');
  });
});

suite('a Kerberos login that cannot be', () => {
  test('is 502 for a service that the realm does not know, and no token leaves', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { ...route('/a/', 'negotiate', 'alice-keytab'), spn: SPN_OF_NOBODY },
    ]);
    const answer = await labRequest(daemon.address().port, '/a/echo');
    assert.equal(answer.status, 502);
    assert.match(answer.body, /"?spn-unknown"?/);
  });

  test('is 502 for a password that is wrong', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [route('/a/', 'negotiate', 'wrong-tickets')]);
    const { port } = daemon.address();
    const answer = await labRequest(port, '/a/echo');
    assert.equal(answer.status, 502);
    assert.match(answer.body, /"?credential-rejected"?/);
    const statuses: number[] = [];
    for (let i = 0; i < 6; i += 1) statuses.push((await labRequest(port, '/a/echo')).status);
    assert.deepEqual(
      statuses,
      [502, 502, 503, 503, 503, 503],
      'the guard counts the word of a KDC',
    );
  });

  test('never falls to NTLM with a password that the KDC refused (R29)', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [route('/a/', 'mixed', 'wrong-both')]);
    assert.equal((await labRequest(daemon.address().port, '/a/echo')).status, 502);
    const metrics = await daemon.metrics();
    assert.equal(metrics.sum('sidekerb_handshakes_total', { upstream: 'u0', scheme: 'ntlm' }), 0);
  });

  test('is not made where a channel binding is required: NTLM is', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { ...route('/a/', 'apache-tls', 'alice-both'), channelBinding: 'required' },
    ]);
    const answer = await labRequest(daemon.address().port, '/a/echo');
    assert.equal(answer.status, 200, answer.body);
    assert.match(answer.user, /^LAB\\alice$/i);
    assert.match(daemon.logText, /"mechanism":"kerberos","reason":"mechanism-unavailable"/);
  });

  test('makes room for NTLM of the same principal', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { ...route('/a/', 'mixed', 'alice-both'), spn: SPN_OF_NOBODY },
      route('/k/', 'mixed', 'alice-both'),
    ]);
    const { port } = daemon.address();
    const fallen = await labRequest(port, '/a/echo');
    assert.equal(fallen.status, 200, fallen.body);
    assert.match(fallen.user, /^LAB\\alice$/i);
    assert.equal((await labRequest(port, '/k/echo')).user, 'alice@LAB.TEST');
  });
});

const route = (path: string, server: LabServer, principal: LabPrincipal): LabRoute => ({
  path,
  server,
  principal,
  schemes: principal.endsWith('-both') ? 'negotiate, ntlm' : 'negotiate',
});

/** `count` requests, every other one by the other route: the users that each saw, and shared sockets. */
async function askInTurn(
  port: number,
  count: number,
): Promise<{ readonly users: Record<string, string[]>; readonly shared: readonly string[] }> {
  const users = { '/alice/': new Set<string>(), '/bob/': new Set<string>() };
  const sockets = { '/alice/': new Set<string>(), '/bob/': new Set<string>() };
  const agent = new Agent({ keepAlive: true, maxSockets: 40 });
  let asked = 0;
  const ask = async (): Promise<void> => {
    while (asked < count) {
      asked += 1;
      const path = asked % 2 === 0 ? '/alice/' : '/bob/';
      const answer = await labRequest(port, `${path}echo`, { agent });
      assert.equal(answer.status, 200, answer.body);
      users[path].add(answer.user);
      sockets[path].add(answer.port);
    }
  };
  await Promise.all(Array.from({ length: 40 }, ask));
  agent.destroy();
  return {
    users: { '/alice/': [...users['/alice/']], '/bob/': [...users['/bob/']] },
    shared: [...sockets['/alice/'].intersection(sockets['/bob/'])],
  };
}
