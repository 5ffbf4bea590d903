/** Files whose content changes are read again without being asked for, however they are exchanged. */

import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { startApp, type App } from '../../src/app.ts';
import { ConfigSource } from '../../src/config/config-source.ts';
import { createPinoLog } from '../../src/log/pino-log.ts';
import { noAccessLog } from '../../src/log/access-log.ts';
import { RawClient, type RawResponse } from '../support/raw-client.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/waiting.ts';

/** More than the time between two looks. */
const NOTICED_MS = 10_000;

interface Watched extends AsyncDisposable {
  readonly app: App;
  readonly log: () => string;
  readonly reloads: () => number;
  ask(): Promise<RawResponse>;
}

/** The daemon on a real file. */
async function run(file: string): Promise<Watched> {
  const source = new ConfigSource(file);
  const { config, faults } = await source.load();
  assert.deepEqual(faults, []);
  assert.ok(config !== undefined);
  const lines: string[] = [];
  const log = createPinoLog('info', { write: (text) => void lines.push(text) });
  const app = await startApp(config, { log, access: noAccessLog, version: 'test', source });
  const told = (pattern: RegExp): number => lines.filter((line) => pattern.test(line)).length;
  return {
    app,
    log: () => lines.join(''),
    reloads: () => told(/the configuration was reloaded|reload failed/),
    ask: async () => {
      const address = app.addresses.listeners['api']?.[0];
      assert.ok(address?.kind === 'tcp');
      await using client = await RawClient.connect({ port: address.port });
      await client.request('GET /');
      return await client.response();
    },
    [Symbol.asyncDispose]: () => app.close(),
  };
}

const configText = (url: string, secret: string, more = ''): string => `version: 1
principals: { alice: { username: 'LAB\\alice', password: { file: ${secret} } } }
upstreams: { origin: { url: '${url}', auth: { principal: alice, schemes: [ntlm] } } }
listeners: { name: api, listen: 127.0.0.1:0, routes: { upstream: origin } }
${more}`;

const makeFolder = (): string => mkdtempSync(join(temporaryFolder(), 'watch-'));

describe('watch', { concurrency: true }, () => {
  test('R15 a secret that Kubernetes exchanges by a link is used from then on', async () => {
    const accounts = { 'LAB\\alice': 'first' };
    await using upstream = await startScriptedUpstream({ accounts });
    const folder = makeFolder();
    const mount = join(folder, 'mount');
    mkdirSync(mount);
    const publish = (version: string, secret: string): void => {
      mkdirSync(join(mount, version));
      writeFileSync(join(mount, version, 'password'), secret);
      symlinkSync(version, join(mount, '..data_tmp'));
      renameSync(join(mount, '..data_tmp'), join(mount, '..data'));
    };
    publish('..2026_1', 'first');
    symlinkSync('..data/password', join(mount, 'password'));
    writeFileSync(join(folder, 'c.yaml'), configText(upstream.url, 'mount/password'));
    await using watched = await run(join(folder, 'c.yaml'));
    assert.equal((await watched.ask()).status, 200);
    accounts['LAB\\alice'] = 'second';
    publish('..2026_2', 'second');
    await until(() => watched.reloads() === 1, 'the reload', NOTICED_MS);
    assert.equal(readlinkSync(join(mount, 'password')), '..data/password');
    assert.equal((await watched.ask()).status, 200);
    assert.match(watched.log(), /"cause":"watch","principals":"changed alice"/);
    assert.equal(upstream.journal.sockets.length, 2);
  });

  test('a file with the same content and another time is no change, and a faulty one none either', async () => {
    await using upstream = await startScriptedUpstream({ accounts: { 'LAB\\alice': 'first' } });
    const folder = makeFolder();
    const file = join(folder, 'c.yaml');
    writeFileSync(join(folder, 'secret'), 'first');
    writeFileSync(file, configText(upstream.url, 'secret'));
    await using watched = await run(file);
    await watched.ask();
    writeFileSync(join(folder, 'secret'), 'first');
    utimesSync(join(folder, 'secret'), 1, 1);
    renameSync(file, `${file}.old`);
    writeFileSync(file, configText(upstream.url, 'secret', 'nonsense: 1\n'));
    await until(() => watched.reloads() === 1, 'the refusal', NOTICED_MS);
    assert.match(watched.log(), /reload failed: nothing is changed/);
    assert.equal((await watched.ask()).status, 200);
    renameSync(`${file}.old`, file);
    await until(() => watched.reloads() === 2, 'the way back', NOTICED_MS);
    await watched.ask();
    assert.equal(upstream.journal.sockets.length, 1);
  });

  test('a password file that comes late is read when it is there', async () => {
    await using upstream = await startScriptedUpstream({ accounts: { 'LAB\\alice': 'first' } });
    const folder = makeFolder();
    const file = join(folder, 'c.yaml');
    writeFileSync(join(folder, 'secret'), 'first');
    writeFileSync(file, configText(upstream.url, 'secret'));
    await using watched = await run(file);
    writeFileSync(file, configText(upstream.url, 'late/secret', 'limits: { connections: 9 }\n'));
    await until(() => watched.reloads() === 1, 'the refusal', NOTICED_MS);
    assert.match(watched.log(), /late\/secret does not exist/);
    mkdirSync(join(folder, 'late'));
    writeFileSync(join(folder, 'late', 'secret'), 'first');
    await until(() => watched.reloads() === 2, 'the reload', NOTICED_MS);
    assert.match(watched.log(), /the configuration was reloaded/);
  });

  test('false reads nothing by itself, and may be turned on again', async () => {
    await using upstream = await startScriptedUpstream({ accounts: { 'LAB\\alice': 'first' } });
    const folder = makeFolder();
    const file = join(folder, 'c.yaml');
    writeFileSync(join(folder, 'secret'), 'first');
    writeFileSync(file, configText(upstream.url, 'secret', 'watch: false\n'));
    await using watched = await run(file);
    writeFileSync(join(folder, 'secret'), 'second');
    // Another daemon that watches sees a later change: by then the first would have seen its own.
    writeFileSync(file, configText(upstream.url, 'secret'));
    await using witness = await run(file);
    writeFileSync(join(folder, 'secret'), 'third');
    await until(() => witness.reloads() === 1, 'the reload of the witness', NOTICED_MS);
    assert.equal(watched.reloads(), 0);
    assert.equal((await watched.app.reload('api')).result, 'ok');
    writeFileSync(join(folder, 'secret'), 'fourth');
    await until(() => watched.reloads() === 2, 'the reload that is watched for', NOTICED_MS);
  });
});
