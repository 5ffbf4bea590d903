/**
 * git's own server program behind HTTP with Basic, each request one run of it; and a client that pushes
 * a large commit to it through a proxy and clones it again.
 */

import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestCertificate } from './certificates.ts';
import { absentProgram, runClient } from './client-programs.ts';
import { temporaryFolder } from './temporary-folder.ts';

const USER = 'alice:secret';

/** What every request of a client that logs in says in Authorization. */
export const GIT_BASIC = `Basic ${Buffer.from(USER).toString('base64')}`;

const BACKEND = join(
  spawnSync('git', ['--exec-path'], { encoding: 'utf8' }).stdout?.trim() ?? '',
  'git-http-backend',
);

/** Why git cannot be tested here, or false. */
export const gitAbsent =
  absentProgram('git', ['--version']) || absentProgram('test', ['-x', BACKEND]);

/** The running server; `using` ends it. */
export class GitServer {
  readonly #server: Server;
  /** A folder of its own, for repositories and clients. */
  readonly root = mkdtempSync(join(temporaryFolder(), 'git-'));
  readonly #scheme: string;
  /** Authorization of every request that was let in. */
  readonly seen: string[] = [];

  constructor(certificate?: TestCertificate) {
    const listener = (request: IncomingMessage, response: ServerResponse): void =>
      this.#serve(request, response);
    this.#scheme = certificate === undefined ? 'http' : 'https';
    this.#server =
      certificate === undefined
        ? createServer(listener)
        : createTlsServer({ key: certificate.key, cert: certificate.cert }, listener);
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  /** `127.0.0.1:PORT`. */
  get authority(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The repository, with the user's name and password. */
  get url(): string {
    return `${this.#scheme}://${USER}@${this.authority}/repo.git`;
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
        GIT_PROJECT_ROOT: this.root,
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

/** What was pushed, and what a clone of it holds. */
export interface PushedAndCloned {
  readonly pushed: Buffer;
  readonly cloned: Buffer;
}

/** Pushes a commit of 2.5 MB to the repository of `server` through `proxy`, and clones it. */
export async function pushAndClone(
  server: GitServer,
  proxy: string,
  caFile?: string,
): Promise<PushedAndCloned> {
  const { root } = server;
  const work = join(root, 'work');
  mkdirSync(work);
  const git = (...args: readonly string[]): Promise<string> =>
    runClient('git', ['-c', `http.proxy=${proxy}`, ...args], {
      folder: work,
      environment: {
        HOME: root,
        ...(caFile === undefined ? {} : { GIT_SSL_CAINFO: caFile }),
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
        GIT_AUTHOR_NAME: 'a',
        GIT_AUTHOR_EMAIL: 'a@a.test',
        GIT_COMMITTER_NAME: 'a',
        GIT_COMMITTER_EMAIL: 'a@a.test',
      },
    });
  await git('init', '--quiet', '--bare', join(root, 'repo.git'));
  await git('init', '--quiet', '--initial-branch=main', '.');
  const pushed = randomBytes(2_500_000);
  writeFileSync(join(work, 'large.bin'), pushed);
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'x');
  await git('push', '--quiet', server.url, 'main');
  await git('clone', '--quiet', '--branch=main', server.url, join(root, 'again'));
  return { pushed, cloned: readFileSync(join(root, 'again', 'large.bin')) };
}
