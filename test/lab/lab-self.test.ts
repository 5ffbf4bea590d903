/**
 * The lab answers independent clients as the README beside it says: curl --ntlm and
 * python3-requests-ntlm. What is proved here may be taken for granted by the other lab tests.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import { LAB_USERS } from './components.ts';
import { labCurl } from './lab-curl.ts';
import { startLab, useLab } from './lab.ts';
import { REQUESTS_NTLM, requestsNtlm } from './requests-ntlm.ts';
import { requireCommand } from './requires.ts';

/** The options that log curl in by NTLM; none without credentials. */
const ntlm = (credentials: string): string[] =>
  credentials === '' ? [] : ['--ntlm', '--user', credentials];

const alice = `LAB\\alice:${LAB_USERS.alice}`;

for (const [name, component, port] of [
  ['squid in accelerator mode', 'squid', 'squid'],
  ['the front end over ntlm_auth', 'front-end', 'frontEnd'],
] as const) {
  suite(name, () => {
    test('one login of curl serves two requests on one connection', async (t) => {
      const lab = await useLab(t, component);
      if (lab === undefined || !requireCommand(t, 'curl')) return;
      const url = `http://localhost:${lab.ports[port]}/echo`;
      const [first, second] = await labCurl([url, url], ntlm(alice));
      assert.equal(first?.status, 200);
      assert.equal(first.user, 'LAB\\alice');
      assert.deepEqual(second, { ...first, connections: 0 });
    });

    test('a wrong password, an unknown domain and no credentials are 401', async (t) => {
      const lab = await useLab(t, component);
      if (lab === undefined || !requireCommand(t, 'curl')) return;
      const url = `http://localhost:${lab.ports[port]}/echo`;
      for (const credentials of ['LAB\\alice:wrong', `OTHER\\alice:${LAB_USERS.alice}`, '']) {
        const [answer] = await labCurl([url], ntlm(credentials));
        assert.equal(answer?.status, 401, credentials);
        assert.doesNotMatch(answer.user, /alice/);
      }
    });
  });
}

suite('what the front end tells about itself', () => {
  test('/open asks for nothing, and the counts tell what was judged', async (t) => {
    const lab = await useLab(t, 'front-end');
    if (lab === undefined || !requireCommand(t, 'curl')) return;
    const origin = `http://localhost:${lab.ports.frontEnd}`;
    const open = await fetch(`${origin}/open`, { method: 'POST', body: 'x' });
    const { user, bodyLength } = (await open.json()) as { user: unknown; bodyLength: number };
    assert.deepEqual(
      { status: open.status, user, bodyLength },
      { status: 200, user: null, bodyLength: 1 },
    );
    const before = (await (await fetch(`${origin}/lab/counts`)).json()) as Record<string, number>;
    await labCurl([`${origin}/echo`], ntlm('LAB\\alice:wrong'));
    const after = (await (await fetch(`${origin}/lab/counts`)).json()) as Record<string, number>;
    assert.ok((after['rejected'] ?? 0) > (before['rejected'] ?? 0));
    assert.ok((after['authenticateMessages'] ?? 0) > (before['authenticateMessages'] ?? 0));
  });
});

suite('Apache', () => {
  test('a login of requests-ntlm belongs to the connection', async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
    const url = `http://localhost:${lab.ports.apacheNtlm}/echo`;
    const [first, second] = await requestsNtlm(url, 'LAB\\alice', LAB_USERS.alice, '2');
    assert.deepEqual([first?.status, first?.user, first?.earlier], [200, 'LAB\\alice', [401, 401]]);
    assert.deepEqual([second?.status, second?.user, second?.earlier], [200, 'LAB\\alice', []]);
    assert.equal(second?.port, first?.port);
    const { user, remotePort } = JSON.parse(second?.body ?? '') as {
      user: string;
      remotePort: number;
    };
    assert.deepEqual([user, String(remotePort)], ['LAB\\alice', first?.port]);
  });

  test('a wrong password is 401', async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
    const url = `http://localhost:${lab.ports.apacheNtlm}/echo`;
    const [answer] = await requestsNtlm(url, 'LAB\\alice', 'wrong', '1');
    assert.equal(answer?.status, 401);
  });

  test('NTLM works over TLS', async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
    const url = `https://localhost:${lab.ports.apacheNtlmTls}/echo`;
    const [answer] = await requestsNtlm(url, 'LAB\\bob', LAB_USERS.bob, '1', lab.certificate);
    assert.deepEqual([answer?.status, answer?.user], [200, 'LAB\\bob']);
  });

  for (const [area, refusal] of [
    ['bob-only', 401],
    ['bob-forbidden', 403],
  ] as const) {
    test(`/${area} lets bob in and gives alice Apache's own ${refusal}`, async (t) => {
      const lab = await useLab(t, 'apache');
      if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
      const url = `http://localhost:${lab.ports.apacheNtlm}/${area}/echo`;
      const [bob] = await requestsNtlm(url, 'LAB\\bob', LAB_USERS.bob, '1');
      const [other] = await requestsNtlm(url, 'LAB\\alice', LAB_USERS.alice, '1');
      assert.equal(bob?.status, 200);
      assert.deepEqual([other?.status, other?.user], [refusal, 'LAB\\alice']);
    });
  }

  test('the open host redirects by its own absolute address, base path included', async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined) return;
    const base = `http://localhost:${lab.ports.apacheOpen}/base`;
    const answer = await fetch(`http://127.0.0.1:${lab.ports.apacheOpen}/base/moved`, {
      redirect: 'manual',
    });
    assert.equal(answer.status, 302);
    assert.equal(answer.headers.get('location'), `${base}/echo`);
    assert.equal((await fetch(`${base}/moved`)).status, 200);
  });

  for (const framing of ['counted', 'chunked'] as const) {
    test(`/upload takes a ${framing} body of 20 MB and gives its SHA-256`, async (t) => {
      const lab = await useLab(t, 'apache');
      if (lab === undefined) return;
      const body = randomBytes(20_000_000);
      const answer = await fetch(`http://localhost:${lab.ports.apacheOpen}/upload`, {
        method: 'POST',
        body: framing === 'counted' ? body : new Blob([body]).stream(),
        duplex: 'half',
      });
      const { bodyLength, bodySha256 } = (await answer.json()) as Record<string, unknown>;
      assert.equal(bodyLength, body.length);
      assert.equal(bodySha256, createHash('sha256').update(body).digest('hex'));
    });
  }
});

suite('the channel-binding origin', () => {
  for (const [path, binding, status, bound] of [
    ['/off', 'right', 200, false],
    ['/check', 'right', 200, true],
    ['/check', 'none', 200, false],
    ['/require', 'right', 200, true],
    ['/require', 'none', 403, false],
  ] as const) {
    test(`${path} answers ${status} to a caller with ${binding} binding`, async (t) => {
      const lab = await useLab(t, 'channel-binding');
      if (lab === undefined || !requireCommand(t, REQUESTS_NTLM)) return;
      const [answer] = await requestsNtlm(
        `https://localhost:${lab.ports.channelBinding}${path}`,
        'LAB\\alice',
        LAB_USERS.alice,
        '1',
        lab.certificate,
        ...(binding === 'none' ? ['no-binding'] : []),
      );
      assert.equal(answer?.status, status);
      const { user, channelBound } = JSON.parse(answer.body) as Record<string, unknown>;
      assert.deepEqual([user, channelBound], ['LAB\\alice', bound]);
    });
  }
});

test('two labs run side by side on other ports', async (t) => {
  const lab = await useLab(t, 'apache');
  if (lab === undefined) return;
  await using other = await startLab(['apache']);
  assert.notEqual(other.ports.apacheOpen, lab.ports.apacheOpen);
  for (const { ports } of [lab, other]) {
    assert.equal((await fetch(`http://localhost:${ports.apacheOpen}/echo`)).status, 200);
  }
});
