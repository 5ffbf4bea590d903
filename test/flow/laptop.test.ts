/** `run --parent` and `explain` as a shell sees them, with scripted servers. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { RawClient } from '../support/raw-client.ts';
import { startScriptedParent } from '../support/scripted-parent.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { event, until } from '../support/waiting.ts';

const PROGRAM = join(import.meta.dirname, '../../cmd/sidekerb.ts');
const DEADLINE_MS = 15_000;

/** A running command; ended with the test that started it. */
class Command implements Disposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  out = '';
  err = '';

  constructor(args: readonly string[], stdin: string) {
    this.#child = spawn(process.execPath, [PROGRAM, ...args], { env: {} });
    this.#child.stdout?.on('data', (data: Buffer) => (this.out += data.toString()));
    this.#child.stderr?.on('data', (data: Buffer) => (this.err += data.toString()));
    this.#ended = event(this.#child, 'close', DEADLINE_MS);
    this.#ended.catch(() => undefined);
    this.#child.stdin?.end(stdin);
  }

  async code(): Promise<number | null> {
    await this.#ended;
    return this.#child.exitCode;
  }

  async port(): Promise<number> {
    const address = /"address":"127\.0\.0\.1:(\d+)"/;
    await until(() => address.test(this.out), 'the address that it listens on', DEADLINE_MS);
    return Number(address.exec(this.out)?.[1]);
  }

  stop(): Promise<number | null> {
    this.#child.kill('SIGTERM');
    return this.code();
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}

/** One request and one tunnel through the proxy at `port`. */
async function asks(port: number): Promise<void> {
  await using client = await RawClient.connect({ host: '127.0.0.1', port });
  await client.request('GET http://app.test/x', { Host: 'app.test' });
  assert.equal((await client.response()).status, 200);
  await using tunnel = await RawClient.connect({ host: '127.0.0.1', port });
  await tunnel.request('CONNECT app.test:443', { Host: 'app.test:443' });
  assert.equal((await tunnel.head()).status, 200);
}

describe('run --parent', () => {
  const certificate = testCertificate();
  for (const [title, tls, ca] of [
    ['an http parent', undefined, []],
    ['an https parent', { certificate }, ['--ca', certificate.caFile]],
  ] as const) {
    test(`logs in to ${title} with a password that is written nowhere`, async () => {
      await using origin = await startScriptedUpstream({ scheme: 'none' });
      await using parent = await startScriptedParent({
        origins: { 'app.test:80': origin.port, 'app.test:443': origin.port },
        ...(tls === undefined ? {} : { tls }),
      });
      const where = ['--parent', parent.url, '--user', String.raw`LAB\pat`, ...ca];
      const args = ['run', ...where, '--listen', '127.0.0.1:0'];
      using command = new Command(args, 'pat-secret\nanother line\n');
      const port = await command.port();
      await asks(port);
      const users = parent.journal.sockets.flatMap(({ logins }) => logins);
      assert.deepEqual([...new Set(users)], [String.raw`LAB\pat`]);
      assert.equal(await command.stop(), 0);
      assert.doesNotMatch(command.out + command.err, /pat-secret|another line/);
    });
  }

  test('ends with 78 where the loader finds a fault', async () => {
    const args = ['--parent', 'https://127.0.0.1:1', '--user', 'u', '--ca', '/nonexistent/ca.pem'];
    using command = new Command(['run', ...args, '--listen', '127.0.0.1:0'], 'x\n');
    assert.ok([69, 78].includes((await command.code()) ?? 0));
    assert.match(command.err, /^\(command line\):\d+:\d+: upstreams\.parent\.tls\.extraCa: /);
  });
});

describe('explain', () => {
  /** Runs it on a configuration whose upstream is at `url`. */
  async function run(url: string, args: readonly string[], config?: string): Promise<Command> {
    const folder = mkdtempSync(join(temporaryFolder(), 'explain-'));
    const file = join(folder, 'c.yaml');
    writeFileSync(join(folder, 'secret'), 'alice-secret\n');
    const text = `version: 1
principals: { alice: { username: 'LAB\\alice', password: { file: secret } } }
upstreams: { app: { url: '${url}', auth: { principal: alice, schemes: [ntlm] } } }
listeners: { name: api, listen: '127.0.0.1:0', routes: { upstream: app } }
`;
    writeFileSync(file, config ?? text);
    const command = new Command(['explain', ...args, '--config', file], '');
    await command.code();
    return command;
  }

  test('ends with 0 and the legs when the answer is good', async () => {
    await using origin = await startScriptedUpstream();
    using told = await run(origin.url, [`${origin.url}/x`]);
    assert.deepEqual([await told.code(), told.err], [0, '']);
    assert.match(
      told.out,
      /login by NTLM as alice, SPN HTTP\/127\.0\.0\.1, channel binding none\n/,
    );
    assert.match(told.out, /\nok: status 200\n$/);
  });

  test('ends with 1 when it is not, and tells it as JSON', async () => {
    await using origin = await startScriptedUpstream({ accounts: {} });
    using told = await run(origin.url, [`${origin.url}/x`, '--json']);
    assert.equal(await told.code(), 1);
    const { ok, error } = JSON.parse(told.out) as { ok: boolean; error: { code: string } };
    assert.deepEqual([ok, error.code], [false, 'credential-rejected']);
  });

  test('ends with 78 for a faulty file, 69 for a missing credential, 64 for a name that is not there', async () => {
    const url = 'http://127.0.0.1:9';
    using faulty = await run(url, [url], 'version: 2\n');
    assert.deepEqual([await faulty.code(), faulty.out], [78, '']);
    const missing = `version: 1
principals: { a: { username: a, password: { file: nowhere } } }
listeners: { name: api, listen: '127.0.0.1:0', mode: forward }
`;
    using lost = await run(url, [url], missing);
    assert.deepEqual([await lost.code(), lost.out], [69, '']);
    using nobody = await run(url, [url, '--principal', 'bob']);
    assert.deepEqual([await nobody.code(), nobody.out], [64, '']);
    assert.match(nobody.err, /^sidekerb explain: --principal: there is no principal bob\nusage: /);
  });
});
