/** Certificates from PKCS#12 stores: opened beside the event loop, once, and exchanged under load. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { Authority, type IssuedCertificate } from '../support/authority.ts';
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts';
import { TlsWorld } from './tls-world.ts';

const authority = new Authority('store authority');
const { ca } = authority;
const names = 'DNS:localhost,DNS:gate.example';
const OLD = authority.issue('old', { names });
const NEW = authority.issue('new', { names });
const OTHER = authority.issue('other', { names: 'DNS:other.example' });

function store(
  { certFile, keyFile }: IssuedCertificate,
  { iterations = 2048, alias = 'one' }: { iterations?: number; alias?: string } = {},
): Buffer {
  const files = ['-in', certFile, '-inkey', keyFile, '-certfile', authority.caFile];
  const how = ['-iter', String(iterations), '-name', alias, '-passout', 'pass:opens it'];
  return execFileSync('openssl', ['pkcs12', '-export', ...files, ...how]);
}

const entry = (path: string): string => `{ pkcs12: { file: ${path} }, passphrase: { env: PASS } }`;
/** More than the time between two looks. */
const NOTICED_MS = 10_000;

const secrets = { PASS: 'opens it' };

/** What a caller is shown now; rejects where a handshake fails. */
function shown(world: TlsWorld): Promise<string> {
  const { host, port } = world.daemon.address();
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host, port, ca, servername: 'localhost' }, () => {
      const { subject } = socket.getPeerCertificate();
      socket.destroy();
      resolve(String(subject.CN));
    });
    socket.on('error', reject);
  });
}

/** Eight callers at a time until `work` is done; what they saw. Rejects with the first failure. */
async function seenDuring(world: TlsWorld, work: Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  const done = work.then(() => true);
  const lane = async (): Promise<void> => {
    do seen.push(await shown(world));
    while (!(await Promise.race([done, Promise.resolve(false)])));
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return seen;
}

describe('a listener with a PKCS#12 store', () => {
  test('is renewed under another alias, while callers come, without one that fails', async () => {
    const path = temporaryFile('gate.p12', store(OLD));
    await using world = await TlsWorld.start({ tls: entry(path), secrets });
    assert.equal(await shown(world), 'old');
    writeFileSync(path, store(NEW, { alias: 'two', iterations: 100_000 }));
    const seen = await seenDuring(world, world.daemon.reload());
    assert.deepEqual([...new Set([...seen, await shown(world)])], ['old', 'new']);
  });

  for (const [what, bytes, passphrase, reason] of [
    ['damaged', store(NEW).subarray(0, 700), 'opens it', /^file \S+ /],
    ['under another passphrase', store(NEW), 'does not', /passphrase/],
    ['for another name', store(OTHER), 'opens it', /no certificate of tls covers this name/],
  ] as const) {
    test(`keeps what it has when the new store is ${what}, and tells why`, async () => {
      const path = temporaryFile('gate.p12', store(OLD));
      const listener = 'hosts: [localhost, gate.example]';
      await using world = await TlsWorld.start({ tls: entry(path), secrets, listener });
      writeFileSync(path, bytes);
      const reload = world.daemon.reload((text) => text, { PASS: passphrase });
      const seen = await seenDuring(world, reload);
      const report = await reload;
      assert.equal(report.result, 'failed');
      assert.match(report.faults[0]?.message ?? '', reason);
      assert.deepEqual([...new Set([...seen, await shown(world)])], ['old']);
      await world.daemon.logged(/the configuration has a fault/);
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_config_reloads_total', { result: 'failed' }), 1);
    });
  }

  test('goes on with handshakes while one of 600,000 iterations is opened', async () => {
    const path = temporaryFile('gate.p12', store(OLD));
    await using world = await TlsWorld.start({ tls: entry(path), secrets });
    writeFileSync(path, store(NEW, { iterations: 600_000 }));
    const seen = await seenDuring(world, world.daemon.reload());
    // On this thread there would be those that were under way, before it or after.
    assert.ok(seen.filter((name) => name === 'old').length > 40, seen.join());
    assert.equal(await shown(world), 'new');
  });

  test('notices that the link to its folder leads elsewhere', async () => {
    const folder = join(temporaryFolder(), 'mount');
    for (const [name, content] of [
      ['v1', store(OLD)],
      ['v2', store(NEW)],
    ] as const) {
      mkdirSync(join(folder, name), { recursive: true });
      writeFileSync(join(folder, name, 'gate.p12'), content);
    }
    symlinkSync('v1', join(folder, 'data'));
    const tls = entry(join(folder, 'data', 'gate.p12'));
    await using world = await TlsWorld.start({ tls, secrets });
    assert.equal(await shown(world), 'old');
    symlinkSync('v2', join(folder, 'next'));
    renameSync(join(folder, 'next'), join(folder, 'data'));
    await world.daemon.logged(/the configuration was reloaded/, NOTICED_MS);
    assert.equal(await shown(world), 'new');
  });
});
