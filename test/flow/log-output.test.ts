/**
 * Logs over a real file descriptor: order, a slow reader, a reader that is gone.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { createLineOutput } from '../../src/log/line-output.ts';
import { createLogs } from '../../src/log/pino-log.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describe('log output', () => {
  test('log and access lines arrive whole and in order', async () => {
    const path = join(temporaryFolder(), 'ordered.log');
    const fd = openSync(path, 'w');
    const logs = createLogs({ level: 'info', access: 'on', fd });
    for (let n = 0; n < 500; n += 1) logs.log.info({ n, pad: 'é'.repeat(100) }, 'line');
    const entry = { listener: 'api', client: '::1', method: 'GET', target: '/', status: 200 };
    logs.access.write({ ...entry, bytesIn: 0, bytesOut: 0, durationMs: 1 });
    await logs.drain();
    logs.log.info({ n: 500 }, 'line');
    await logs.drain();
    closeSync(fd);
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    const seen = lines.map((line) => JSON.parse(line));
    const numbers = seen.filter(({ msg }) => msg === 'line').map(({ n }) => n);
    assert.deepEqual(numbers, [...Array(501).keys()]);
    assert.equal(seen.filter(({ msg }) => msg === 'request').length, 1);
    assert.equal(logs.dropped(), 0);
  });

  test('access lines go nowhere when they are off', () => {
    assert.equal(createLogs({ level: 'info', access: 'off' }).access.enabled, false);
  });

  test('I12 what waits for a slow reader is bounded, and what is dropped is counted', async () => {
    const fd = openSync(join(temporaryFolder(), 'bounded.log'), 'w');
    const output = createLineOutput({ fd, maxWaiting: 100 });
    // The first is on its way at once; the second waits; the third has no room.
    for (let n = 0; n < 3; n += 1) output.write(`${'x'.repeat(79)}\n`);
    assert.equal(output.dropped, 1);
    await output.drain(5000);
    output.write('y\n');
    await output.drain(5000);
    closeSync(fd);
    assert.equal(readFileSync(join(temporaryFolder(), 'bounded.log'), 'utf8').length, 162);
  });

  test('flushNow writes what waits before it returns', () => {
    const path = join(temporaryFolder(), 'now.log');
    const fd = openSync(path, 'a');
    const output = createLineOutput({ fd, maxWaiting: 1000 });
    output.write('first\n');
    output.write('second\n');
    output.flushNow();
    assert.match(readFileSync(path, 'utf8'), /second\n/);
  });

  test('a reader that is gone neither ends nor holds up the process', async () => {
    const program = `
      const { createLogs } = await import(${JSON.stringify(import.meta.resolve('../../src/log/pino-log.ts'))});
      const logs = createLogs({ level: 'info', access: 'on' });
      process.stdin.once('data', async () => {
        for (let n = 0; n < 100; n += 1) logs.log.info({ n }, 'line');
        await logs.drain();
        logs.log.info({}, 'again');
        logs.flushNow();
        process.stderr.write('dropped ' + (logs.dropped() > 0));
        process.exit(7);
      });
      process.stderr.write('up ');`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      timeout: 10_000,
    });
    const exit = once(child, 'exit');
    await once(child.stderr, 'readable');
    child.stdout.destroy();
    await once(child.stdout, 'close');
    child.stdin.write('go\n');
    assert.equal(await text(child.stderr), 'up dropped true');
    assert.deepEqual(await exit, [7, null]);
  });
});
