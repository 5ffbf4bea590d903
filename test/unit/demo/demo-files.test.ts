/** What the demo puts on disk. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { loadConfig } from '../../../src/config/load.ts';
import { demoConfig, randomPasswords, writeDemoFiles } from '../../../src/demo/demo-files.ts';

describe('the files of the demo', () => {
  it('are a configuration without a fault, whose routes have a principal each', async () => {
    const files = await writeDemoFiles(4711, randomPasswords());
    try {
      const { config, faults } = loadConfig(files.configFile);
      assert.deepEqual(faults, []);
      const routes =
        config?.listeners.flatMap((listener) =>
          listener.mode === 'reverse' ? listener.routes : [],
        ) ?? [];
      assert.deepEqual(
        routes.map(({ path, principal }) => [path, principal]),
        [
          ['/alice/', 'alice'],
          ['/bob/', 'bob'],
        ],
      );
      assert.equal(config?.upstreams['origin']?.target.port, 4711);
    } finally {
      await files.remove();
    }
    assert.equal(existsSync(files.configFile), false);
  });

  it('hold passwords that nobody else can read, and that differ from run to run', async () => {
    const passwords = randomPasswords();
    assert.notEqual(passwords.alice, passwords.bob);
    assert.notEqual(passwords.alice, randomPasswords().alice);
    const files = await writeDemoFiles(1, passwords);
    try {
      const folder = dirname(files.configFile);
      assert.equal(readFileSync(join(folder, 'bob'), 'utf8'), passwords.bob);
      assert.equal(statSync(folder).mode & 0o777, 0o700);
      assert.equal(statSync(join(folder, 'bob')).mode & 0o777, 0o600);
    } finally {
      await files.remove();
    }
  });

  it('never hold a password in the configuration', () => {
    assert.doesNotMatch(demoConfig(1, '/secrets'), /password: (?!\{ file: "\/secrets\/)/);
  });
});
