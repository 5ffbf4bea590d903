/**
 * The daemon logs in at real parents for callers without credentials, and at an origin behind them: who
 * was served, on which connections, after how many legs.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { startSite } from '../support/site.ts';
import { until } from '../support/waiting.ts';
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
import { type LabFacts, useLab } from './lab.ts';
import { requireCommand } from './requires.ts';
import type { SquidLine } from './squid-log.ts';

const TUNNELS = 20;

/** Origins behind a parent, and alice there. */
const ORIGINS = [
  {
    title: 'an NTLM origin',
    port: 'frontEnd',
    principal: 'alice',
    schemes: 'ntlm',
    user: 'LAB\\alice',
    isPerRequest: false,
  },
  {
    title: "Apache's NTLM host",
    port: 'apacheNtlm',
    principal: 'alice',
    schemes: 'ntlm',
    user: 'LAB\\alice',
    isPerRequest: false,
  },
  {
    title: 'an origin with NTLM inside Negotiate',
    port: 'apacheMixed',
    principal: 'alice',
    schemes: 'negotiate',
    user: 'LAB\\alice',
    isPerRequest: false,
  },
  {
    title: 'an origin where Kerberos lasts for the connection',
    port: 'apacheNegotiateBound',
    principal: 'alice-keytab',
    schemes: 'negotiate',
    user: 'alice@LAB.TEST',
    isPerRequest: false,
  },
  {
    title: 'an origin with Kerberos on each request',
    port: 'apacheNegotiate',
    principal: 'alice-keytab',
    schemes: 'negotiate',
    user: 'alice@LAB.TEST',
    isPerRequest: true,
  },
  {
    title: 'lighttpd',
    port: 'lighttpd',
    principal: 'alice-keytab',
    schemes: 'negotiate',
    user: 'alice@LAB.TEST',
    isPerRequest: true,
  },
] as const;

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

for (const parent of PARENTS) {
  test(`a server that speaks first is heard through ${parent.title}`, async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    await using world = await startForwardLab(lab, parent);
    const greeting = randomBytes(20_000);
    const server = createServer((socket) => socket.end(greeting)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const { port } = server.address() as AddressInfo;
      for (let i = 0; i < 3; i += 1) {
        await using client = await world.daemon.connect();
        await client.request(`CONNECT 127.0.0.1:${port}`, { Host: `127.0.0.1:${port}` });
        assert.equal((await client.head()).status, 200);
        assert.ok((await client.untilEnd()).equals(greeting));
      }
    } finally {
      server.close();
    }
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
    for (const origin of ORIGINS) {
      test(`bob at ${parent.title}, alice at ${origin.title}: one connection`, async (t) => {
        const lab = await useForwardLab(t, parent);
        if (lab === undefined || !requireCommand(t, 'curl')) return;
        if ((await useLab(t, 'lighttpd')) === undefined) return;
        const authority = `localhost:${lab.ports[origin.port]}`;
        const { principal, schemes, user } = origin;
        const intranet = { url: `http://${authority}`, principal, schemes };
        await using world = await startForwardLab(lab, parent, intranet);
        const url = `http://${authority}/echo`;
        const [first, ...others] = await ask(world, url, url, url);
        assert.deepEqual([first?.status, first?.user, first?.parentUser], [200, user, parent.user]);
        for (const { status, user: seen, parentUser, parentPort } of others) {
          assert.deepEqual([status, seen, parentUser], [200, user, parent.user]);
          assert.equal(parentPort, first?.parentPort);
        }
        if (origin.isPerRequest) return;
        // No login legs between them: what the parent served last are the three requests.
        const own = (): SquidLine[] =>
          world.lines(authority).filter(({ clientPort }) => clientPort === first?.parentPort);
        const served = (): number => own().filter(({ method }) => method === 'GET').length;
        await until(() => served() >= 3, 'three lines');
        assert.deepEqual(
          own()
            .slice(-3)
            .map(({ status, method }) => [status, method]),
          Array.from({ length: 3 }, () => [200, 'GET']),
        );
      });
    }
  }

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

  test('each request may need a token of its own at both hops', async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    const parent = PARENTS.find(({ port }) => port === 'apacheParentPerRequest');
    assert.ok(parent !== undefined);
    const authority = `localhost:${lab.ports.apacheNegotiate}`;
    await using world = await startForwardLab(lab, parent, {
      url: `http://${authority}`,
      principal: 'alice-keytab',
      schemes: 'negotiate',
    });
    const urls = Array.from({ length: 5 }, () => `http://${authority}/echo`);
    const answers = await ask(world, ...urls);
    for (const { status, user, parentUser } of answers) {
      assert.deepEqual([status, user, parentUser], [200, 'alice@LAB.TEST', 'bob@LAB.TEST']);
    }
  });

  test('alice arrives over TLS in a tunnel of ours for a caller that asks for http', async (t) => {
    const lab = await need(t);
    if (lab === undefined) return;
    const authority = `localhost:${lab.ports.apacheNtlmTls}`;
    await using world = await startForwardLab(lab, NTLM_PARENT, {
      url: `https://${authority}`,
      principal: 'alice',
      schemes: 'ntlm',
    });
    const [first, second] = await ask(
      world,
      `http://${authority}/echo`,
      `http://${authority}/echo`,
    );
    assert.deepEqual([first?.status, first?.user], [200, 'LAB\\alice']);
    assert.deepEqual([second?.status, second?.user], [200, 'LAB\\alice']);
    assert.equal(second?.port, first?.port);
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
