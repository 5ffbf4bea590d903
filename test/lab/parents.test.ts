/**
 * The daemon logs in at real parents for callers without credentials, and at an origin behind them: who
 * was served, on which connections, after how many legs.
 */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { startSite } from '../support/site.ts';
import { LAB_USERS } from './components.ts';
import {
  type ForwardLab,
  NEGOTIATE_PARENT,
  NTLM_PARENT,
  PARENTS,
  startForwardLab,
  useForwardLab,
} from './forward-lab.ts';
import { type CurlAnswer, labCurl } from './lab-curl.ts';
import type { LabFacts } from './lab.ts';
import { requireCommand } from './requires.ts';

const TUNNELS = 20;

async function need(t: TestContext): Promise<LabFacts | undefined> {
  return requireCommand(t, 'curl') ? await useForwardLab(t, NTLM_PARENT) : undefined;
}

/** What curl without credentials gets through the daemon. */
const ask = (world: ForwardLab, ...urls: readonly string[]): Promise<CurlAnswer[]> =>
  labCurl(urls, ['--proxy', world.proxy, '--cacert', testCertificate().caFile]);

for (const parent of PARENTS) {
  suite(parent.title, () => {
    test('serves bob over http, on one connection', async (t) => {
      const lab = await need(t);
      if (lab === undefined) return;
      await using world = await startForwardLab(lab, parent);
      const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
      const answers = await ask(world, url, url, url);
      for (const { status, parentUser, user } of answers) {
        assert.deepEqual([status, parentUser, user], [200, parent.user, '']);
      }
      assert.equal(new Set(answers.map(({ parentPort }) => parentPort)).size, 1);
    });

    test('serves bob in tunnels', async (t) => {
      const lab = await need(t);
      if (lab === undefined) return;
      await using world = await startForwardLab(lab, parent);
      await using site = await startSite(() => ({ status: 204 }), testCertificate());
      const [first, second] = await ask(world, `${site.url}/a`, `${site.url}/b`);
      assert.deepEqual([first?.connectStatus, first?.status, second?.status], [200, 204, 204]);
      assert.equal(second?.connections, 0);
      if (!parent.port.startsWith('squid')) return;
      const served = await world.served(site.authority, 1);
      assert.deepEqual(
        served.map(({ method, status }) => [method, status]),
        [['CONNECT', 200]],
      );
    });
  });
}

for (const [parent, statuses] of [
  [NTLM_PARENT, [407, 200]],
  [NEGOTIATE_PARENT, [200]],
] as const) {
  test(`${TUNNELS} tunnels at once through ${parent.title}, ${statuses.join(' then ')} for each`, async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    await using world = await startForwardLab(lab, parent);
    // The first login of a secret is settled by itself.
    await ask(world, `http://localhost:${lab.ports.apacheOpen}/echo`);
    await using site = await startSite(() => ({ status: 204 }), testCertificate());
    const tunnels = await Promise.all(
      Array.from({ length: TUNNELS }, () => ask(world, `${site.url}/a`)),
    );
    for (const [answer] of tunnels) {
      assert.deepEqual([answer?.connectStatus, answer?.status], [200, 204]);
    }
    await world.served(site.authority, TUNNELS);
    const sockets = Map.groupBy(world.lines(site.authority), ({ clientPort }) => clientPort);
    assert.equal(sockets.size, TUNNELS);
    for (const lines of sockets.values()) {
      assert.deepEqual(
        lines.map(({ status }) => status),
        statuses,
      );
    }
  });
}

suite('a login at the parent and one at the origin', () => {
  for (const parent of [NTLM_PARENT, NEGOTIATE_PARENT]) {
    test(`bob at ${parent.title} and alice at an NTLM origin: the next requests need neither`, async (t) => {
      const lab = await need(t);
      if (lab === undefined) return;
      const authority = `localhost:${lab.ports.frontEnd}`;
      await using world = await startForwardLab(lab, parent, {
        url: `http://${authority}`,
        principal: 'alice',
        schemes: 'ntlm',
      });
      const url = `http://${authority}/echo`;
      const [first, ...others] = await ask(world, url, url, url);
      assert.deepEqual(
        [first?.status, first?.user, first?.parentUser],
        [200, 'LAB\\alice', parent.user],
      );
      for (const other of others) assert.deepEqual({ ...other, connections: 1 }, first);
      const lines = world
        .lines(authority)
        .filter(({ clientPort }) => clientPort === first?.parentPort);
      assert.deepEqual(
        lines.slice(-3).map(({ status, user }) => [status, user]),
        Array.from({ length: 3 }, () => [200, parent.user]),
      );
    });
  }

  test('alice arrives by Kerberos behind a parent where bob is by NTLM', async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    const authority = `localhost:${lab.ports.apacheNegotiate}`;
    await using world = await startForwardLab(lab, NTLM_PARENT, {
      url: `http://${authority}`,
      principal: 'alice-keytab',
      schemes: 'negotiate',
    });
    const answers = await ask(world, `http://${authority}/echo`, `http://${authority}/echo`);
    for (const { status, user, parentUser } of answers) {
      assert.deepEqual([status, user, parentUser], [200, 'alice@LAB.TEST', 'LAB\\bob']);
    }
  });

  test('alice arrives by Kerberos on each request behind a parent over TLS', async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    const parent = PARENTS.find(({ title }) => title === 'a parent over TLS, by NTLM');
    assert.ok(parent !== undefined);
    const authority = `localhost:${lab.ports.apacheNegotiate}`;
    await using world = await startForwardLab(lab, parent, {
      url: `http://${authority}`,
      principal: 'alice-keytab',
      schemes: 'negotiate',
    });
    // The answer is held back until the server's token is checked, and TLS goes on with its body.
    const urls = Array.from({ length: 10 }, () => `http://${authority}/echo`);
    const answers = await ask(world, ...urls);
    for (const { status, user, parentUser } of answers) {
      assert.deepEqual([status, user, parentUser], [200, 'alice@LAB.TEST', 'LAB\\bob']);
    }
    assert.equal(new Set(answers.map(({ parentPort }) => parentPort)).size, 1);
  });

  test('a tunnel to an origin of the list is not logged in to', async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    await using site = await startSite(() => ({ status: 204 }), testCertificate());
    const { url } = site;
    await using world = await startForwardLab(lab, NTLM_PARENT, {
      url,
      principal: 'alice',
      schemes: 'ntlm',
    });
    const [answer] = await ask(world, `${url}/a`);
    assert.deepEqual([answer?.connectStatus, answer?.status], [200, 204]);
    assert.deepEqual(
      site.requests.map(({ headers }) => headers.authorization),
      [undefined],
    );
  });
});

test('a wrong password at the parent is 502, then 503, and never more than three logins', async (t) => {
  const lab = await need(t);
  if (lab === undefined) return;
  await using world = await startForwardLab(lab, {
    ...NTLM_PARENT,
    principal: 'wrong',
  });
  const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
  const statuses: number[] = [];
  for (let i = 0; i < 6; i += 1) statuses.push((await ask(world, url))[0]?.status ?? 0);
  assert.deepEqual(statuses, [502, 502, 502, 503, 503, 503]);
  assert.ok(!world.daemon.logText.includes(LAB_USERS.alice));
});
