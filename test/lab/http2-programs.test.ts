/** HTTP/2 as programs of others speak it, in front of a real server that asks for NTLM or Kerberos. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, createPublicKey } from 'node:crypto';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { CHROMIUM, Chromium } from '../browser/chromium.ts';
import { Authority } from '../support/authority.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { kdcFile } from './kdc.ts';
import { useKerberosLab } from './kerberos-world.ts';
import { LAB_SECRETS } from './lab-daemon.ts';
import { requireCommand } from './requires.ts';

const authority = new Authority('server authority');
const LOCAL = authority.issue('localhost', { names: 'DNS:localhost,IP:127.0.0.1' });

const PATHS = { ntlm: '/ntlm', kerberos: '/kerberos' } as const;
const USERS = { ntlm: /^lab\\alice$/i, kerberos: /^alice@lab\.test$/i } as const;
const WAYS = ['ntlm', 'kerberos'] as const;

async function startGateway(t: TestContext): Promise<TestDaemon | undefined> {
  const lab = await useKerberosLab(t);
  if (lab === undefined) return undefined;
  const { ports, folder } = lab;
  return startDaemon({
    config: `version: 1
admin: { listen: 127.0.0.1:0 }
kerberos: { config: '${kdcFile.krb5Conf(join(folder, 'kdc'))}' }
principals:
  alice: { username: 'LAB\\alice', kerberos: alice@LAB.TEST, password: { env: ALICE } }
upstreams:
  ntlm: { url: 'http://localhost:${ports.apacheMixed}', auth: { principal: alice, schemes: [ntlm] } }
  kerberos: { url: 'http://localhost:${ports.apacheNegotiate}', auth: { principal: alice, schemes: [negotiate] } }
listeners:
  - name: gateway
    listen: 127.0.0.1:0
    hosts: [localhost, 127.0.0.1]
    tls: { cert: ${LOCAL.certFile}, key: { file: ${LOCAL.keyFile} } }
    http2: true
    routes:
      - { path: ${PATHS.ntlm}/, upstream: ntlm, stripPrefix: true }
      - { path: ${PATHS.kerberos}/, upstream: kerberos, stripPrefix: true }
`,
    secrets: LAB_SECRETS,
  });
}

/** What a program printed; `input` goes to it, and then the end. */
function run(command: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, args, { timeout: 60_000 }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(error);
    });
    child.stdin?.end(input);
  });
}

const CURL = [
  ...'--disable --silent --show-error --max-time 20 --http2 --output /dev/null'.split(' '),
  '--noproxy',
  '*',
  '--cacert',
  authority.caFile,
  '--write-out',
  '%{http_version} %{http_code} %header{x-lab-user}',
];

suite('HTTP/2', () => {
  test('curl gets, and sends bodies of unknown length by every method', async (t) => {
    if (!requireCommand(t, 'curl')) return;
    await using daemon = await startGateway(t);
    if (daemon === undefined) return;
    for (const way of WAYS) {
      const url: string = `https://${daemon.authority()}${PATHS[way]}/echo`;
      const answers: string[] = [await run('curl', [...CURL, url])];
      for (const method of ['POST', 'DELETE', 'OPTIONS', 'GET']) {
        const upload = ['--request', method, '--upload-file', '-'];
        answers.push(await run('curl', [...CURL, ...upload, url], 'unknown length'));
      }
      for (const answer of answers) {
        const [version, status, user = ''] = answer.split(' ');
        assert.deepEqual([version, status], ['2', '200'], answer);
        assert.match(user, USERS[way]);
      }
    }
  });

  test('h2load gets thousands of right answers, twenty at a time on a connection', async (t) => {
    if (!requireCommand(t, 'h2load')) return;
    await using daemon = await startGateway(t);
    if (daemon === undefined) return;
    for (const way of WAYS) {
      const url: string = `https://${daemon.authority()}${PATHS[way]}/echo`;
      const printed = await run('h2load', ['-n', '2000', '-c', '4', '-m', '20', url]);
      assert.match(printed, /Application protocol: h2\n/);
      assert.match(printed, /2000 succeeded, 0 failed, 0 errored, 0 timeout/);
      assert.match(printed, /status codes: 2000 2xx/);
    }
    const metrics = await daemon.metrics();
    assert.equal(metrics.sum('sidekerb_requests_total', { class: '2xx' }), 4000);
    assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
  });

  test('Chromium loads a page and what it asks for, side by side', async (t) => {
    if (!requireCommand(t, CHROMIUM)) return;
    await using daemon = await startGateway(t);
    if (daemon === undefined) return;
    const key = createPublicKey(LOCAL.cert).export({ type: 'spki', format: 'der' });
    const trusted = createHash('sha256').update(key).digest('base64');
    const network = ['--no-proxy-server', `--ignore-certificate-errors-spki-list=${trusted}`];
    await using browser = await Chromium.start('', network);
    const origin = `https://${daemon.authority()}`;
    for (const way of WAYS) {
      await using page = await browser.open(`${origin}${PATHS[way]}/echo`);
      const users = await page.evaluate(`Promise.all(Array.from({ length: 30 }, async (_, at) => {
        const body = at % 3 === 0 ? { method: 'POST', body: 'x'.repeat(5000) } : {};
        const answer = await fetch('${PATHS[way]}/echo?' + at, body);
        await answer.text();
        return answer.status + ' ' + answer.headers.get('x-lab-user');
      }))`);
      assert.ok(Array.isArray(users) && users.length === 30);
      for (const user of users) assert.match(String(user).replace(/^200 /, ''), USERS[way]);
      const protocols = await page.evaluate(
        `[...new Set(performance.getEntriesByType('resource').map((one) => one.nextHopProtocol))].join()`,
      );
      assert.equal(protocols, 'h2');
    }
  });
});
