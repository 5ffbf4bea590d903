/**
 * The image's root tree, built as the Dockerfile builds it and run in bubblewrap as a container
 * would run it: a user without rights, a read-only root, a network of its own.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { lacks, requireCommand } from '../lab/requires.ts';

const run = promisify(execFile);
const checkout = join(import.meta.dirname, '../..');
const NEEDS = ['bwrap', 'ldd', 'ldconfig', 'dpkg-query'];

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

suite('the root tree of the image', () => {
  let folder = '';
  let namespaces = false;
  const root = (): string => join(folder, 'root');

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sidekerb-image-'));
    mkdirSync(join(folder, 'config'));
    mkdirSync(join(folder, 'secrets'));
    cpSync(join(checkout, 'deploy/sidekerb.yaml'), join(folder, 'config/sidekerb.yaml'));
    writeFileSync(join(folder, 'secrets/crm'), 'secret\n');
    cpSync(join(import.meta.dirname, 'probe-image.ts'), join(folder, 'config/probe.ts'));
    if (NEEDS.every((name) => globSync(`/{usr/,}{s,}bin/${name}`).length > 0)) {
      await run('sh', ['deploy/rootfs.sh', root()], { cwd: checkout });
      const trial = run('bwrap', [
        '--unshare-all',
        '--uid',
        '65532',
        '--ro-bind',
        '/',
        '/',
        'true',
      ]);
      namespaces = await trial.then(
        () => true,
        () => false,
      );
    }
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs Node in the tree; 65532 is the user that the Dockerfile names. */
  async function inImage(...args: readonly string[]): Promise<Outcome> {
    const sandbox = [
      '--unshare-all --die-with-parent --uid 65532 --gid 65532 --clearenv',
      `--ro-bind ${root()} / --proc /proc --dev /dev --tmpfs /tmp --chdir /app`,
      `--ro-bind ${folder}/config /etc/sidekerb --ro-bind ${folder}/secrets /run/secrets`,
      '--setenv NODE_COMPILE_CACHE /var/cache/sidekerb',
    ].flatMap((line) => line.split(' '));
    try {
      const { stdout, stderr } = await run('bwrap', [...sandbox, '/usr/bin/node', ...args]);
      return { code: 0, stdout, stderr };
    } catch (error) {
      const { code, stdout, stderr } = error as Outcome;
      return { code, stdout, stderr };
    }
  }

  const possible = (t: TestContext): boolean =>
    requireCommand(t, ...NEEDS) &&
    (namespaces ||
      lacks(t, 'the right to create namespaces (containers and chroots take it away)'));

  test('sidekerb version answers', async (t) => {
    if (!possible(t)) return;
    const { code, stdout, stderr } = await inImage('/app/cmd/sidekerb.ts', 'version');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /\d+\.\d+\.\d+/);
  });

  test('sidekerb check accepts the configuration of the manifests', async (t) => {
    if (!possible(t)) return;
    const file = '/etc/sidekerb/sidekerb.yaml';
    const { code, stderr } = await inImage('/app/cmd/sidekerb.ts', 'check', file);
    assert.equal(code, 0, stderr);
  });

  test('sidekerb run gets ready, answers the probes and ends with 0 at SIGTERM', async (t) => {
    if (!possible(t)) return;
    const { stdout, stderr } = await inImage('/etc/sidekerb/probe.ts');
    const { output, ...seen } = JSON.parse(stdout || JSON.stringify({ output: stderr })) as Record<
      string,
      unknown
    >;
    assert.deepEqual(
      seen,
      {
        user: 65532,
        rootIsWritable: false,
        ready: true,
        live: 200,
        probedReady: 200,
        exitCode: 0,
        signal: null,
      },
      String(output),
    );
  });

  test('kerberos loads where the checkout has it', async (t) => {
    if (!possible(t)) return;
    if (!existsSync(join(checkout, 'node_modules/kerberos'))) {
      if (process.env['CI'] === 'true') throw new Error('kerberos is not installed');
      t.skip('kerberos is not installed');
      return;
    }
    const { code, stderr } = await inImage('-e', "require('/app/node_modules/kerberos')");
    assert.equal(code, 0, stderr);
  });

  test('the tree holds no shell and no package that only development needs', (t) => {
    if (!possible(t)) return;
    const programs = globSync('{usr/,}{s,}bin/*', { cwd: root() });
    assert.deepEqual(programs, ['usr/bin/node']);
    const packages = globSync('app/node_modules/*', { cwd: root() });
    assert.ok(packages.includes('app/node_modules/yaml'));
    for (const name of ['typescript', 'oxlint', 'prettier', 'prebuild-install']) {
      assert.ok(!packages.includes(`app/node_modules/${name}`), name);
    }
  });
});
