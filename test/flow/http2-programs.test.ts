/** HTTP/2 as programs see it: curl in front of the daemon, and the daemon as a process of its own. */
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { H2Client } from '../support/h2-client.ts';
import { shapes, SHAPE_BODY } from '../support/response-shapes.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/waiting.ts';
import { startWorld } from './http-world.ts';

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');

function skipReason(): string | false {
  const { stdout } = spawnSync('curl', ['--version'], { encoding: 'utf8' });
  const able = /\bHTTP2\b/.test(stdout ?? '');
  return able || process.env['CI'] === 'true' ? false : 'curl with HTTP/2 is absent';
}

const USUAL = ['--disable', '--silent', '--show-error', '--noproxy', '*', '--max-time', '10'];

async function curl(...args: readonly string[]): Promise<string> {
  const all = [...USUAL, '--http2-prior-knowledge', '--path-as-is', ...args];
  const running = run('curl', all, { timeout: 15_000 });
  running.child.stdin?.end('piped');
  return (await running).stdout;
}

describe('curl with HTTP/2', { skip: skipReason() }, () => {
  test('gets, posts and deletes on one connection', async () => {
    await using world = await startWorld({ login: true, listener: 'http2: true' });
    const url = `http://${world.daemon.authority()}`;
    const words = ['--write-out', '\n%{http_version} %{http_code}\n', '--request'];
    const body = join(temporaryFolder(), 'h2-upload.bin');
    writeFileSync(body, Buffer.alloc(2_000_000, 'curl'));
    for (const method of ['GET', 'POST', 'DELETE']) {
      const out = await curl(...words, method, '--data-binary', `@${body}`, `${url}//x?`);
      assert.match(out, /"target":"\/\/x\?".*"bodyLength":2000000.*\n2 200\n$/s, method);
    }
    // Without a length.
    const piped = await curl(...words, 'DELETE', '--upload-file', '-', `${url}/`);
    assert.match(piped, /"method":"DELETE".*"bodyLength":5.*\n2 200\n$/s);
  });

  test('takes a cut answer for what it is', async () => {
    await using world = await startWorld({ listener: 'http2: true', handler: shapes });
    const url = `http://${world.daemon.authority()}`;
    assert.equal(await curl(`${url}/chunked`), SHAPE_BODY);
    for (const cut of ['body-counted', 'body-chunked', 'no-last-chunk']) {
      await assert.rejects(curl(`${url}/cut/${cut}`), /INTERNAL_ERROR/);
    }
  });
});

test('FORCE_FETCH_PATH takes no request past the daemon', async () => {
  await using upstream = await startScriptedUpstream();
  const folder = mkdtempSync(join(temporaryFolder(), 'fetch-'));
  writeFileSync(
    join(folder, 'c.yaml'),
    `version: 1
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams: { web: { url: '${upstream.url}', auth: { principal: alice, schemes: ntlm } } }
listeners: { name: main, listen: '127.0.0.1:0', http2: true, routes: { upstream: web } }
`,
  );
  const env = { ALICE: 'alice-secret', FORCE_FETCH_PATH: 'true' };
  const child = spawn(process.execPath, [PROGRAM, 'run', '--config', join(folder, 'c.yaml')], {
    env,
  });
  try {
    let out = '';
    child.stdout.on('data', (data: Buffer) => (out += data.toString()));
    child.stderr.on('data', (data: Buffer) => (out += data.toString()));
    const found = (): string | undefined => /"address":"(127\.0\.0\.1:\d+)"/.exec(out)?.[1];
    await until(() => found() !== undefined, 'the daemon listens', 15_000);
    const authority = found() ?? '';
    await using client = await H2Client.connect(`http://${authority}`, authority);
    const { status, headers } = await client.ask('POST /', {}, 'abc');
    assert.deepEqual([status, headers['x-user']], [200, 'LAB\\alice']);
    assert.equal(upstream.requests.at(-1)?.bodyLength, 3);
  } finally {
    child.kill('SIGKILL');
  }
});
