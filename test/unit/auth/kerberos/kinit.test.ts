/** What kinit is given and how its end is judged; the program is a script of the test's own. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { kinitRunner } from '../../../../src/auth/kerberos/kinit.ts';
import { Secret } from '../../../../src/identity/secret.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { until } from '../../../support/waiting.ts';

const PASSWORD = 'pass word-canary';

/** A machine whose kinit is `script`; `folder` is its `$OUT`. */
function machine(script: string | undefined) {
  const folder = mkdtempSync(join(temporaryFolder(), 'kinit-'));
  if (script !== undefined)
    writeFileSync(join(folder, 'kinit'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const clock = new FakeClock();
  const { deadlines } = clock;
  const environment = { PATH: `${folder}:/usr/bin:/bin`, OUT: folder, KRB5_CONFIG: '/own.conf' };
  const paths = script === undefined ? { ...environment, PATH: folder } : environment;
  const closing = new AbortController();
  const kinit = kinitRunner(paths, { deadlines, deadlineMs: 5000 });
  const order = { principal: 'a@R', password: new Secret(PASSWORD), file: join(folder, 'cc') };
  return { folder, clock, closing, run: () => kinit({ ...order, signal: closing.signal }) };
}

test('the password is on standard input alone, not among arguments or in the environment', async () => {
  const { folder, run } = machine(
    'echo "$@" >$OUT/arguments; env >$OUT/environment; cat >$OUT/input',
  );
  await run();
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
  assert.equal(read('input'), `${PASSWORD}\n`);
  assert.equal(read('arguments'), `-c FILE:${folder}/cc -- a@R\n`);
  assert.doesNotMatch(read('environment'), /canary/);
  assert.match(read('environment'), /^KRB5_CONFIG=\/own\.conf$/m);
  assert.match(read('environment'), /^LC_ALL=C$/m);
  assert.doesNotMatch(read('environment'), /^HOME=/m);
});

test('what it says when it fails becomes a code, and never shows the password', async () => {
  const { run } = machine('echo "kinit: Password incorrect while getting" >&2; exit 1');
  await assert.rejects(run(), (error: Error & { code?: unknown }) => {
    assert.equal(error.code, 'credential-rejected');
    assert.doesNotMatch(`${error.message} ${String(error.cause)} ${error.stack}`, /canary/);
    return true;
  });
});

/** Of the kinit that wrote it; empty before. */
function pidIn(folder: string): string {
  const file = join(folder, 'pid');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}

test('one that gets no answer is killed at the deadline: kdc-timeout', async () => {
  const { folder, clock, run } = machine('echo $$ >$OUT/pid; exec sleep 60');
  const running = run();
  await until(() => pidIn(folder) !== '', 'the start of kinit');
  clock.advance(5100);
  await assert.rejects(running, { code: 'kdc-timeout' });
  const pid = pidIn(folder);
  assert.ok(!existsSync(`/proc/${pid}`));
});

test('one that is under way when the daemon closes is killed', async () => {
  const { folder, closing, run } = machine('echo $$ >$OUT/pid; exec sleep 60');
  const running = run();
  await until(() => pidIn(folder) !== '', 'the start of kinit');
  closing.abort();
  await assert.rejects(running, { code: 'shutting-down' });
});

test('a machine without kinit cannot make tickets of passwords: mechanism-unavailable', async () => {
  await assert.rejects(machine(undefined).run(), { code: 'mechanism-unavailable' });
});
