/**
 * Programs of other people, without any credentials for a proxy, through the daemon; straight to targets,
 * and through parents that ask for a login. What they fetch and send arrives whole, and the parent has
 * served bob.
 */
import assert from 'node:assert/strict';
import { createHash, createPublicKey, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { Chromium, CHROMIUM, throughProxy } from '../browser/chromium.ts';
import { testCertificate } from '../support/certificates.ts';
import { runClient } from '../support/client-programs.ts';
import { GIT_BASIC, gitAbsent, GitServer, pushAndClone } from '../support/git-server.ts';
import { type Site, type SiteRequest, startSite } from '../support/site.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { PYTHON } from './components.ts';
import {
  answerFrom,
  aptSettings,
  makeDebianRepository,
  makeNpmPackage,
} from './package-sources.ts';
import {
  FORWARD_WAYS,
  type ForwardLab,
  type LabParent,
  startForwardLab,
  useForwardLab,
} from './forward-lab.ts';
import { requireCommand } from './requires.ts';
import type { LabFacts } from './lab.ts';

const BODY_BYTES = 2_000_000;

/** The lab, unless it, what is behind `parent` or one of the programs is missing. */
async function need(
  t: TestContext,
  parent: LabParent | undefined,
  ...programs: string[]
): Promise<LabFacts | undefined> {
  return requireCommand(t, ...programs) ? await useForwardLab(t, parent) : undefined;
}

/** A site that says what it was asked. */
const startEcho = (secure: 'http' | 'https'): Promise<Site> =>
  startSite(
    ({ method, bodySha256 }) => ({ body: `${method} ${bodySha256}\n` }),
    secure === 'https' ? testCertificate() : undefined,
  );

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const EMPTY = sha256(new Uint8Array());
/** The file of the authority of https sites. */
const authority = (): string => testCertificate().caFile;

/** A file with a body to send. */
function bodyFile(): { readonly file: string; readonly sha256: string } {
  const folder = mkdtempSync(join(temporaryFolder(), 'body-'));
  const file = join(folder, 'body');
  const bytes = randomBytes(BODY_BYTES);
  writeFileSync(file, bytes);
  return { file, sha256: sha256(bytes) };
}

/** Where there is a parent, the site was reached by one tunnel or more, all bob's. */
async function assertTunnels(world: ForwardLab, site: Pick<Site, 'authority'>): Promise<void> {
  const lines = await world.served(site.authority, 1);
  for (const { method, status } of lines) assert.deepEqual([method, status], ['CONNECT', 200]);
}

/** No credentials arrived at the site; the clients that are asked here have none for it. */
function assertNoCredentials(requests: readonly SiteRequest[]): void {
  assert.ok(requests.length > 0);
  const names = requests.flatMap(({ headers }) => Object.keys(headers));
  assert.deepEqual(
    names.filter((name) => /authenticat|authorization/.test(name)),
    [],
  );
}

for (const way of FORWARD_WAYS) {
  suite(way.title, () => {
    test('curl gets and sends over http', async (t) => {
      const lab = await need(t, way.parent, 'curl');
      if (lab === undefined) return;
      await using world = await startForwardLab(lab, way.parent);
      await using site = await startEcho('http');
      const body = bodyFile();
      const common = ['--disable', '-sS', '--max-time', '20', '--proxy', world.proxy];
      const got = await runClient('curl', [...common, `${site.url}/a`, `${site.url}/b`]);
      assert.equal(got, `GET ${EMPTY}\nGET ${EMPTY}\n`);
      const sent = await runClient('curl', [...common, '-T', body.file, `${site.url}/c`]);
      assert.equal(sent, `PUT ${body.sha256}\n`);
      const lines = await world.served(site.authority, 3);
      const methods = way.parent === undefined ? [] : ['GET', 'GET', 'PUT'];
      assert.deepEqual(
        lines.slice(-3).map(({ method }) => method),
        methods,
      );
      assertNoCredentials(site.requests);
    });

    test('curl gets and sends over https through one tunnel', async (t) => {
      const lab = await need(t, way.parent, 'curl');
      if (lab === undefined) return;
      await using world = await startForwardLab(lab, way.parent);
      await using site = await startEcho('https');
      const body = bodyFile();
      const common = ['-sS', '--max-time', '20', '--proxy', world.proxy, '--cacert', authority()];
      const get = [...common, `${site.url}/a`];
      const send = [...common, '-T', body.file, `${site.url}/c`];
      const output = await runClient('curl', ['--disable', ...get, '--next', ...send]);
      assert.equal(output, `GET ${EMPTY}\nPUT ${body.sha256}\n`);
      await assertTunnels(world, site);
      const tunnels = await world.served(site.authority, 1);
      assert.equal(tunnels.length, way.parent === undefined ? 0 : 1);
      assertNoCredentials(site.requests);
    });

    for (const scheme of ['http', 'https'] as const) {
      test(`wget gets over ${scheme}`, async (t) => {
        const lab = await need(t, way.parent, 'wget');
        if (lab === undefined) return;
        await using world = await startForwardLab(lab, way.parent);
        await using site = await startEcho(scheme);
        const options = ['--no-config', '-qO-', '--tries=1', `--ca-certificate=${authority()}`];
        const output = await runClient('wget', [...options, `${site.url}/a`, `${site.url}/b`], {
          environment: { [`${scheme}_proxy`]: world.proxy },
        });
        assert.equal(output, `GET ${EMPTY}\nGET ${EMPTY}\n`);
        if (scheme === 'https') await assertTunnels(world, site);
        else await world.served(site.authority, 2);
        assertNoCredentials(site.requests);
      });

      test(`python's requests posts over ${scheme}, and its own Authorization arrives`, async (t) => {
        const lab = await need(t, way.parent, PYTHON, '/usr/lib/python3/dist-packages/requests');
        if (lab === undefined) return;
        await using world = await startForwardLab(lab, way.parent);
        await using site = await startEcho(scheme);
        const args = ['-c', REQUESTS, world.proxy, `${site.url}/x`, authority()];
        const body = sha256(Buffer.alloc(BODY_BYTES, 'x'));
        const line = `200 POST ${body}\n`;
        assert.equal(await runClient(PYTHON, args), `${line}${line}`);
        if (scheme === 'https') await assertTunnels(world, site);
        else await world.served(site.authority, 2);
        // The first login at a parent is settled by a HEAD of its own, which goes on to the site.
        const posts = site.requests.filter(({ method }) => method === 'POST');
        const seen = posts.map(({ headers }) => headers.authorization);
        assert.deepEqual(seen, [GIT_BASIC, GIT_BASIC]);
      });

      test(`git pushes and clones over ${scheme}, and its Basic arrives at the origin`, async (t) => {
        const lab = await need(t, way.parent, 'git');
        if (lab === undefined) return;
        if (gitAbsent !== false) {
          t.skip(gitAbsent);
          return;
        }
        await using world = await startForwardLab(lab, way.parent);
        using server = await new GitServer(
          scheme === 'https' ? testCertificate() : undefined,
        ).listen();
        const { pushed, cloned } = await pushAndClone(server, world.proxy, authority());
        assert.ok(cloned.equals(pushed));
        assert.ok(server.seen.length >= 4);
        assert.deepEqual(new Set(server.seen), new Set([GIT_BASIC]));
        if (scheme === 'https') await assertTunnels(world, server);
        else await world.served(server.authority, 4);
      });

      test(`npm installs from a registry over ${scheme}`, async (t) => {
        const lab = await need(t, way.parent, 'npm', 'tar');
        if (lab === undefined) return;
        await using world = await startForwardLab(lab, way.parent);
        const made = await makeNpmPackage();
        // The registry's answers name its own address, which is known once it listens.
        let answer = answerFrom(new Map());
        await using site = await startSite(
          (request) => answer(request),
          scheme === 'https' ? testCertificate() : undefined,
        );
        answer = made.answerAt(site.url);
        const folder = mkdtempSync(join(temporaryFolder(), 'npm-client-'));
        writeFileSync(join(folder, 'package.json'), '{"private":true}');
        await runClient('npm', npmArguments(folder, site.url, world.proxy), {
          folder,
          environment: { HOME: folder },
        });
        const installed = join(folder, 'node_modules', 'lab-package', 'content.bin');
        assert.ok(readFileSync(installed).equals(made.content));
        if (scheme === 'https') await assertTunnels(world, site);
        else await world.served(site.authority, 2);
        assertNoCredentials(site.requests);
      });

      test(`apt updates and downloads over ${scheme}`, async (t) => {
        const lab = await need(
          t,
          way.parent,
          'apt-get',
          'dpkg-deb',
          `/usr/lib/apt/methods/${scheme}`,
        );
        if (lab === undefined) return;
        await using world = await startForwardLab(lab, way.parent);
        const made = await makeDebianRepository(4);
        await using site = await startSite(
          answerFrom(made.files),
          scheme === 'https' ? testCertificate() : undefined,
        );
        const settings = aptSettings(site.url, world.proxy, authority());
        const folder = mkdtempSync(join(temporaryFolder(), 'apt-client-'));
        const apt = (...args: string[]): Promise<string> =>
          runClient('apt-get', ['-q', ...args], { folder, environment: { APT_CONFIG: settings } });
        await apt('update', '-o', 'APT::Update::Error-Mode=any');
        await apt('download', ...made.packages);
        for (const name of made.packages) {
          const file = readFileSync(join(folder, `${name}_1.0_all.deb`));
          assert.ok(file.equals(made.fileOf(name)), name);
        }
        if (scheme === 'https') await assertTunnels(world, site);
        else await world.served(site.authority, 2 + made.packages.length);
        assertNoCredentials(site.requests);
      });
    }

    test('Chromium shows pages over http and https and sends a form', async (t) => {
      const lab = await need(t, way.parent, CHROMIUM);
      if (lab === undefined) return;
      await using world = await startForwardLab(lab, way.parent);
      await using plain = await startSite(page);
      await using secure = await startSite(page, testCertificate());
      const key = createPublicKey(testCertificate().cert).export({ type: 'spki', format: 'der' });
      const trusted = createHash('sha256').update(key).digest('base64');
      await using browser = await Chromium.start('', throughProxy(world.proxy, trusted));
      for (const { url } of [plain, secure]) {
        await using tab = await browser.open(`${url}/a`);
        assert.equal(await tab.text(), `GET ${EMPTY}`);
        const form = `fetch('/b', { method: 'POST', body: 'x'.repeat(${BODY_BYTES}) }).then((answer) => answer.text())`;
        const sent = await tab.evaluate(form);
        assert.match(String(sent), new RegExp(`POST ${sha256(Buffer.alloc(BODY_BYTES, 'x'))}`));
      }
      await world.served(plain.authority, 2);
      await browser[Symbol.asyncDispose]();
      await assertTunnels(world, secure);
      for (const { requests } of [plain, secure]) assertNoCredentials(requests);
    });
  });
}

const page = ({
  method,
  bodySha256,
}: SiteRequest): { headers: Record<string, string>; body: string } => ({
  headers: { 'Content-Type': 'text/html' },
  body: `<!doctype html><title>lab</title><link rel="icon" href="data:,"><p>${method} ${bodySha256}</p>`,
});

const npmArguments = (folder: string, registry: string, proxy: string): string[] => [
  'install',
  'lab-package',
  ...Object.entries({
    registry,
    proxy,
    'https-proxy': proxy,
    cafile: authority(),
    cache: join(folder, 'cache'),
    userconfig: join(folder, 'npmrc'),
    globalconfig: join(folder, 'global-npmrc'),
    loglevel: 'error',
    'fetch-retries': '0',
  }).map(([name, value]) => `--${name}=${value}`),
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
];

const REQUESTS = `
import sys, requests
proxy, url, ca = sys.argv[1:4]
session = requests.Session()
session.trust_env = False
session.proxies = {"http": proxy, "https": proxy}
for _ in range(2):
    answer = session.post(url, data=b"x" * ${BODY_BYTES}, verify=ca, timeout=20, auth=("alice", "secret"))
    print(answer.status_code, answer.text, end="")
`;
