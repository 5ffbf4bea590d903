/** What a run starts it ends, with all that descends from it. Real processes: that is the point. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Child } from '../../../bench/child.ts';
import { readStat, readTree } from '../../../bench/process-tree.ts';

const WAIT_MS = 10_000;

function shell(script: string): Promise<Child> {
  return Child.start({ name: 'shell', command: 'sh', args: ['-c', script], core: undefined });
}

test('stopping a program ends its descendants, also those that ignore the signal', async () => {
  const child = await shell('(trap "" TERM; sleep 60; sleep 60) & echo up; wait');
  const whole = (): Promise<number[] | undefined> => {
    const pids = readTree(child.pid).map(({ pid }) => pid);
    return Promise.resolve(pids.length >= 3 ? pids : undefined);
  };
  const pids = await child.until(whole, WAIT_MS);
  await child.stop();
  const alive = pids.filter((pid) => readStat(pid)?.zombie === false);
  assert.deepEqual(alive, []);
});

test('a program that ends before it is ready is reported with what it said', async () => {
  const child = await shell('echo no such address >&2; exit 3');
  await assert.rejects(
    child.until(() => Promise.resolve(undefined), WAIT_MS),
    /shell ended early \(exit code 3\)\nno such address/,
  );
});

test('a program that cannot be started is an error', async () => {
  await assert.rejects(
    Child.start({ name: 'none', command: '/no/such/program', args: [], core: undefined }),
    /ENOENT/,
  );
});
