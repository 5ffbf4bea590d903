/** Programs of other people through a forward listener: they know proxies by their own habits. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { absentProgram, runClient } from '../support/client-programs.ts';
import { GIT_BASIC, GitServer, gitAbsent, pushAndClone } from '../support/git-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startForward, type ForwardWorld } from './forward-world.ts';

const ALLOW = "['127.0.0.1:*', 'localhost:*']";
const NAMES = { localhost: ['127.0.0.1'] };

const proxyOf = (world: ForwardWorld): string => `http://${world.daemon.authority()}`;

const startTls = (): Promise<ForwardWorld> =>
  startForward({
    allow: ALLOW,
    names: NAMES,
    upstream: { tls: { certificate: testCertificate() } },
    handler: ({ method, bodySha256 }) => ({ body: `${method} ${bodySha256}` }),
  });

const startPlain = (): Promise<ForwardWorld> =>
  startForward({
    allow: ALLOW,
    names: NAMES,
    handler: ({ method, bodySha256 }) => ({ body: `${method} ${bodySha256}` }),
  });

function authorityFile(): string {
  const file = join(temporaryFolder(), 'forward-ca.pem');
  writeFileSync(file, testCertificate().ca);
  return file;
}

describe('curl', { skip: absentProgram('curl', ['--version']) }, () => {
  const curl = async (world: ForwardWorld, ...args: readonly string[]): Promise<string> => {
    const common = ['--disable', '-sS', '--max-time', '10', '--proxy', proxyOf(world)];
    return await runClient('curl', [...common, ...args]);
  };

  it('gets and sends over http', async () => {
    await using world = await startPlain();
    const status = ['-w', ' %{http_code}'];
    assert.match(await curl(world, ...status, `http://${world.authority}/`), /^GET \w+ 200$/);
    const body = join(temporaryFolder(), 'curl-body');
    writeFileSync(body, randomBytes(2_000_000));
    const sent = await curl(world, ...status, '-T', body, `http://${world.authority}/up`);
    assert.match(sent, /^PUT \w+ 200$/);
  });

  it('gets over https through a tunnel, twice on one', async () => {
    await using world = await startTls();
    const url = `${world.upstream.url}/`;
    const answer = await curl(
      world,
      '--cacert',
      authorityFile(),
      '-w',
      ' %{http_code}\n',
      url,
      url,
    );
    assert.match(answer, /^GET \w+ 200\nGET \w+ 200\n$/);
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('tells a refused tunnel by its status', async () => {
    await using world = await startPlain();
    await assert.rejects(curl(world, 'https://127.0.0.2:22/'), /403/);
  });
});

describe('wget', { skip: absentProgram('wget', ['--version']) }, () => {
  it('gets over http and https', async () => {
    await using plain = await startPlain();
    await using secure = await startTls();
    const get = async (world: ForwardWorld, name: string): Promise<string> => {
      const args = ['--no-config', '-qO-', '--tries=1', `--ca-certificate=${authorityFile()}`];
      const environment = { [name]: proxyOf(world) };
      return await runClient('wget', [...args, `${world.upstream.url}/x`], { environment });
    };
    assert.match(await get(plain, 'http_proxy'), /^GET /);
    assert.match(await get(secure, 'https_proxy'), /^GET /);
  });
});

const PYTHON = `
import sys, requests
proxy, url, ca = sys.argv[1:4]
session = requests.Session()
session.trust_env = False
session.proxies = {"http": proxy, "https": proxy}
for _ in range(2):
    answer = session.post(url, data=b"x" * 1500000, verify=ca, timeout=10, auth=("alice", "secret"))
    print(answer.status_code, answer.text.split(" ")[0])
`;

describe('python requests', { skip: absentProgram('python3', ['-c', 'import requests']) }, () => {
  it('posts over http and https', async () => {
    await using plain = await startPlain();
    await using secure = await startTls();
    for (const world of [plain, secure]) {
      const args = ['-c', PYTHON, proxyOf(world), `${world.upstream.url}/x`, authorityFile()];
      assert.equal(await runClient('python3', args), '200 POST\n200 POST\n');
    }
  });
});

describe('git', { skip: gitAbsent }, () => {
  it('pushes more than a megabyte with Basic over http, and clones it again', async () => {
    await using world = await startForward({ allow: ALLOW });
    using server = await new GitServer().listen();
    const { pushed, cloned } = await pushAndClone(server, proxyOf(world));
    assert.ok(server.seen.length >= 2);
    assert.ok(server.seen.every((seen) => seen === GIT_BASIC));
    assert.ok(cloned.equals(pushed));
    const metrics = await world.daemon.metrics();
    assert.ok(metrics.sum('sidekerb_requests_total', { upstream: 'direct', class: '2xx' }) >= 4);
    assert.ok(metrics.sum('sidekerb_bytes_total', { direction: 'in' }) > pushed.length);
  });
});
