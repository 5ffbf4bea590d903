/**
 * The lab's parent proxies answer independent clients as the README beside this file says, over http
 * and through tunnels. What is proved here may be taken for granted by the other lab tests.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { until } from '../support/waiting.ts';
import { LAB_USERS } from './components.ts';
import { labCurl, ticketsOf } from './lab-curl.ts';
import { type LabFacts, type LabPorts, useLab } from './lab.ts';
import { REQUESTS_NTLM, requestsNtlm } from './requests-ntlm.ts';
import { requireCommand } from './requires.ts';
import { type SquidLine, squidLines } from './squid-log.ts';

const BOB = `LAB\\bob:${LAB_USERS.bob}`;
const WRONG = 'LAB\\bob:wrong';

/** A way to be bob at a parent. */
interface Way {
  readonly title: string;
  readonly port: keyof LabPorts;
  readonly scheme: 'negotiate' | 'ntlm' | 'basic';
}

const WAYS: readonly Way[] = [
  { title: "squid's Negotiate port", port: 'squidNegotiate', scheme: 'negotiate' },
  { title: "squid's NTLM port", port: 'squidNtlm', scheme: 'ntlm' },
  { title: "squid's Basic port", port: 'squidBasic', scheme: 'basic' },
  { title: "squid's port for all, by Negotiate", port: 'squidAll', scheme: 'negotiate' },
  { title: "squid's port for all, by NTLM", port: 'squidAll', scheme: 'ntlm' },
  { title: "squid's port for all, by Basic", port: 'squidAll', scheme: 'basic' },
  { title: "squid's TLS port, by Negotiate", port: 'squidTls', scheme: 'negotiate' },
  { title: "squid's TLS port, by NTLM", port: 'squidTls', scheme: 'ntlm' },
  { title: "squid's TLS port, by Basic", port: 'squidTls', scheme: 'basic' },
  { title: "Apache's parent, by Negotiate", port: 'apacheParent', scheme: 'negotiate' },
  {
    title: "Apache's parent that asks on each request",
    port: 'apacheParentPerRequest',
    scheme: 'negotiate',
  },
];

/** bob as a parent calls him; squid writes names of Basic in lower case. */
const BOB_BY = { negotiate: 'bob@LAB.TEST', ntlm: 'LAB\\bob', basic: 'lab\\bob' } as const;

const isSquid = ({ port }: Way): boolean => port.startsWith('squid');

/** What curl needs to reach a parent; for Negotiate it takes what tickets there are. */
function through(lab: LabFacts, { port, scheme }: Way, credentials = BOB): string[] {
  return [
    '--proxy',
    `${port === 'squidTls' ? 'https' : 'http'}://localhost:${lab.ports[port]}`,
    '--proxy-cacert',
    lab.certificate,
    '--cacert',
    lab.certificate,
    `--proxy-${scheme}`,
    '--proxy-user',
    scheme === 'negotiate' ? ':' : credentials,
  ];
}

async function prepare(t: Parameters<typeof useLab>[0]): Promise<LabFacts | undefined> {
  const lab = await useLab(t, 'squid', 'front-end');
  return lab !== undefined && requireCommand(t, 'curl') ? lab : undefined;
}

for (const way of WAYS) {
  suite(way.title, () => {
    test('a login serves two requests, and the parent says who asked', async (t) => {
      const lab = await prepare(t);
      if (lab === undefined) return;
      const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
      const tickets = ticketsOf(lab, 'bob');
      const [first, second] = await labCurl([url, url], through(lab, way), tickets);
      for (const answer of [first, second]) {
        assert.deepEqual([answer?.status, answer?.parentUser], [200, BOB_BY[way.scheme]]);
      }
      assert.equal(first?.connections, 1);
      assert.equal(second?.connections, 0);
      assert.equal(second.parentPort, first.parentPort);
      if (!isSquid(way)) return;
      const own = (): SquidLine[] =>
        squidLines(lab, `localhost:${lab.ports.apacheOpen}`).filter(
          ({ clientPort, status }) => clientPort === first.parentPort && status === 200,
        );
      await until(() => own().length === 2, 'a line about each request');
      assert.deepEqual(
        own().map(({ port, user, method, url: of }) => [port, user, method, of]),
        Array.from({ length: 2 }, () => [lab.ports[way.port], BOB_BY[way.scheme], 'GET', url]),
      );
    });

    test('a tunnel reaches an origin that sees nobody', async (t) => {
      const lab = await prepare(t);
      if (lab === undefined) return;
      const authority = `localhost:${lab.ports.apacheOpenTls}`;
      const lines = (): SquidLine[] =>
        squidLines(lab, authority).filter(
          ({ port, status }) => port === lab.ports[way.port] && status === 200,
        );
      const before = isSquid(way) ? lines().length : 0;
      const [answer] = await labCurl(
        [`https://${authority}/echo`],
        through(lab, way),
        ticketsOf(lab, 'bob'),
      );
      assert.deepEqual([answer?.connectStatus, answer?.status, answer?.user], [200, 200, '']);
      if (!isSquid(way)) return;
      await until(() => lines().length > before, 'a line about the tunnel');
      assert.equal(lines().at(-1)?.user, BOB_BY[way.scheme]);
      assert.equal(lines().at(-1)?.method, 'CONNECT');
    });

    test('without a right login there is 407, with and without a tunnel', async (t) => {
      const lab = await prepare(t);
      if (lab === undefined) return;
      const { apacheOpen, apacheOpenTls } = lab.ports;
      // No tickets: curl has nothing to answer Negotiate with.
      const noTickets = { ...ticketsOf(lab, 'bob'), KRB5_CLIENT_KTNAME: '/nonexistent' };
      const options = through(lab, way, WRONG);
      const [plain] = await labCurl([`http://localhost:${apacheOpen}/echo`], options, noTickets);
      assert.equal(plain?.status, 407);
      assert.equal(plain.user, '');
      const tunnel = [`https://localhost:${apacheOpenTls}/echo`];
      const [refused] = await labCurl(tunnel, options, noTickets);
      assert.deepEqual([refused?.connectStatus, refused?.status], [407, 0]);
    });
  });
}

suite('the parents in general', () => {
  test('the open port asks for nothing', async (t) => {
    const lab = await prepare(t);
    if (lab === undefined) return;
    const options = ['--proxy', `http://localhost:${lab.ports.squidOpen}`];
    const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
    const [answer] = await labCurl([url], options);
    assert.deepEqual([answer?.status, answer?.parentUser], [200, '-']);
  });

  for (const port of ['squidOpen', 'apacheParent', 'apacheParentPerRequest'] as const) {
    test(`${port} leads to loopback only`, async (t) => {
      const lab = await prepare(t);
      if (lab === undefined) return;
      const way = { title: '', port, scheme: 'negotiate' } as const;
      const options = through(lab, way);
      const urls = ['http://192.0.2.1/', 'https://192.0.2.1/'];
      for (const url of urls) {
        const [answer] = await labCurl([url], options, ticketsOf(lab, 'bob'));
        assert.equal(answer?.connectStatus === 0 ? answer.status : answer?.connectStatus, 403, url);
      }
    });
  }

  test("requests-ntlm logs in at Apache's parent by raw NTLM", async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
    const url = `http://localhost:${lab.ports.apacheOpen}/echo`;
    const proxy = `http://localhost:${lab.ports.apacheParent}`;
    const [first, second] = await requestsNtlm(
      url,
      'LAB\\bob',
      LAB_USERS.bob,
      '2',
      `proxy=${proxy}`,
    );
    assert.deepEqual([first?.status, first?.earlier], [200, [407, 407]]);
    assert.deepEqual([second?.status, second?.earlier], [200, []]);
    const [wrong] = await requestsNtlm(url, 'LAB\\bob', 'wrong', '1', `proxy=${proxy}`);
    assert.equal(wrong?.status, 407);
  });

  test('bob at the parent and alice at an NTLM origin share one connection', async (t) => {
    const lab = await prepare(t);
    if (lab === undefined) return;
    const url = `http://localhost:${lab.ports.frontEnd}/echo`;
    const way = { title: '', port: 'squidNtlm', scheme: 'ntlm' } as const;
    const options = [...through(lab, way), '--ntlm', '--user', `LAB\\alice:${LAB_USERS.alice}`];
    const [first, second] = await labCurl([url, url], options);
    assert.deepEqual(
      [first?.status, first?.user, first?.parentUser],
      [200, 'LAB\\alice', 'LAB\\bob'],
    );
    assert.deepEqual({ ...second, connections: 1 }, first);
  });
});

suite('cntlm', () => {
  test('logs in as bob for callers without credentials, over http and in tunnels', async (t) => {
    const lab = await useLab(t, 'cntlm');
    if (lab === undefined || !requireCommand(t, 'curl')) return;
    const { apacheOpen, apacheOpenTls, cntlm } = lab.ports;
    const options = ['--proxy', `http://127.0.0.1:${cntlm}`, '--cacert', lab.certificate];
    const [plain] = await labCurl([`http://localhost:${apacheOpen}/echo`], options);
    assert.deepEqual([plain?.status, plain?.parentUser], [200, 'LAB\\bob']);
    const [secure] = await labCurl([`https://localhost:${apacheOpenTls}/echo`], options);
    assert.deepEqual([secure?.connectStatus, secure?.status], [200, 200]);
  });
});

suite('lighttpd', () => {
  test('asks on each request and proves nothing about itself', async (t) => {
    const lab = await useLab(t, 'lighttpd');
    if (lab === undefined || !requireCommand(t, 'curl')) return;
    const url = `http://localhost:${lab.ports.lighttpd}/echo`;
    const [first, second] = await labCurl(
      [url, url],
      ['--negotiate', '--user', ':'],
      ticketsOf(lab, 'alice'),
    );
    assert.deepEqual([first?.status, first?.user], [200, 'alice@LAB.TEST']);
    assert.deepEqual({ ...second, connections: 1 }, first);
    const bare = await fetch(url);
    assert.deepEqual([bare.status, bare.headers.get('www-authenticate')], [401, 'Negotiate']);
  });
});
