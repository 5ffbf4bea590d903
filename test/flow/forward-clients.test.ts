/** Programs of other people through a forward listener: they know proxies by their own habits. */

import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { testCertificate } from '../support/certificates.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startForward, type ForwardWorld } from './forward-world.ts';

const run = promisify(execFile);
const TIMEOUT_MS = 30_000;
const ALLOW = "['127.0.0.1:*', 'localhost:*']";
const NAMES = { localhost: ['127.0.0.1'] };

/** A reason to skip, unless the machine must have the program. */
function absent(command: string, args: readonly string[]): string | false {
  const able = spawnSync(command, args).status === 0;
  return able || process.env['CI'] === 'true' ? false : `${command} ${args.join(' ')} fails`;
}

const proxyOf = (world: ForwardWorld): string => `http://${world.daemon.authority()}`;

/** The environment of a client: nothing of this machine's own proxies. */
const environment = (more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv => {
  const own = Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name));
  return { ...Object.fromEntries(own), ...more };
};

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

describe('curl', { skip: absent('curl', ['--version']) }, () => {
  const curl = async (world: ForwardWorld, ...args: readonly string[]): Promise<string> => {
    const common = ['--disable', '-sS', '--max-time', '10', '--proxy', proxyOf(world)];
    const { stdout } = await run('curl', [...common, ...args], {
      env: environment(),
      timeout: TIMEOUT_MS,
    });
    return stdout;
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

describe('wget', { skip: absent('wget', ['--version']) }, () => {
  it('gets over http and https', async () => {
    await using plain = await startPlain();
    await using secure = await startTls();
    const get = async (world: ForwardWorld, name: string): Promise<string> => {
      const args = ['--no-config', '-qO-', '--tries=1', `--ca-certificate=${authorityFile()}`];
      const { stdout } = await run('wget', [...args, `${world.upstream.url}/x`], {
        env: environment({ [name]: proxyOf(world) }),
        timeout: TIMEOUT_MS,
      });
      return stdout;
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

describe('python requests', { skip: absent('python3', ['-c', 'import requests']) }, () => {
  it('posts over http and https', async () => {
    await using plain = await startPlain();
    await using secure = await startTls();
    for (const world of [plain, secure]) {
      const args = ['-c', PYTHON, proxyOf(world), `${world.upstream.url}/x`, authorityFile()];
      const { stdout } = await run('python3', args, { env: environment(), timeout: TIMEOUT_MS });
      assert.equal(stdout, '200 POST\n200 POST\n');
    }
  });
});

const BACKEND = join(
  spawnSync('git', ['--exec-path'], { encoding: 'utf8' }).stdout?.trim() ?? '',
  'git-http-backend',
);

/** git's own server program behind HTTP with Basic: each request is one run of it. */
class GitServer {
  readonly #server: Server;
  readonly #root: string;
  /** Authorization of every request that was let in. */
  readonly seen: string[] = [];

  constructor(root: string) {
    this.#root = root;
    this.#server = createServer((request, response) => this.#serve(request, response));
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get url(): string {
    return `http://alice:secret@127.0.0.1:${(this.#server.address() as AddressInfo).port}/repo.git`;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { authorization = '' } = request.headers;
    if (authorization === '') {
      request.resume();
      response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="git"' }).end();
      return;
    }
    this.seen.push(authorization);
    const url = new URL(request.url ?? '/', 'http://git.test');
    const backend = spawn(BACKEND, [], {
      env: {
        PATH: process.env['PATH'] ?? '',
        GIT_PROJECT_ROOT: this.#root,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'alice',
        REQUEST_METHOD: request.method ?? '',
        PATH_INFO: url.pathname,
        QUERY_STRING: url.search.slice(1),
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    backend.stdin.on('error', () => undefined);
    request.pipe(backend.stdin);
    const pieces: Buffer[] = [];
    backend.stdout.on('data', (piece: Buffer) => pieces.push(piece));
    backend.stdout.on('end', () => answerCgi(Buffer.concat(pieces), response));
  }

  [Symbol.dispose](): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function answerCgi(output: Buffer, response: ServerResponse): void {
  const end = output.indexOf('\r\n\r\n');
  const lines = output.toString('latin1', 0, end).split('\r\n');
  const fields = lines.map((line) => line.split(/:\s*/, 2) as [string, string]);
  const status = fields.find(([name]) => name === 'Status')?.[1] ?? '200';
  response.writeHead(Number.parseInt(status, 10), Object.fromEntries(fields));
  response.end(output.subarray(end + 4));
}

const gitAbsent = absent('git', ['--version']) || absent('test', ['-x', BACKEND]);

describe('git', { skip: gitAbsent }, () => {
  it('pushes more than a megabyte with Basic over http, and clones it again', async () => {
    await using world = await startForward({ allow: ALLOW });
    const root = join(temporaryFolder(), `git-${randomBytes(4).toString('hex')}`);
    const work = join(root, 'work');
    mkdirSync(work, { recursive: true });
    using server = await new GitServer(root).listen();
    const git = (...args: readonly string[]): Promise<unknown> =>
      run('git', ['-c', `http.proxy=${proxyOf(world)}`, ...args], {
        cwd: work,
        timeout: TIMEOUT_MS,
        env: environment({
          HOME: root,
          GIT_CONFIG_NOSYSTEM: '1',
          GIT_TERMINAL_PROMPT: '0',
          GIT_AUTHOR_NAME: 'a',
          GIT_AUTHOR_EMAIL: 'a@a.test',
          GIT_COMMITTER_NAME: 'a',
          GIT_COMMITTER_EMAIL: 'a@a.test',
        }),
      });
    await git('init', '--quiet', '--bare', join(root, 'repo.git'));
    await git('init', '--quiet', '--initial-branch=main', '.');
    const content = randomBytes(2_500_000);
    writeFileSync(join(work, 'large.bin'), content);
    await git('add', '.');
    await git('commit', '--quiet', '-m', 'x');
    await git('push', '--quiet', server.url, 'main');
    const basic = `Basic ${Buffer.from('alice:secret').toString('base64')}`;
    assert.ok(server.seen.length >= 2);
    assert.ok(server.seen.every((seen) => seen === basic));
    await git('clone', '--quiet', '--branch=main', server.url, join(root, 'again'));
    assert.ok(readFileSync(join(root, 'again', 'large.bin')).equals(content));
    const metrics = await world.daemon.metrics();
    assert.ok(metrics.sum('sidekerb_requests_total', { upstream: 'direct', class: '2xx' }) >= 4);
    assert.ok(metrics.sum('sidekerb_bytes_total', { direction: 'in' }) > content.length);
  });
});
