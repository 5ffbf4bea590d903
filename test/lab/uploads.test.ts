/** Large uploads through the daemon as a process: each arrives once and whole, in bounded memory. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { labRequest, memoryOf, resetPeak, startDaemonProcess } from './lab-daemon.ts';
import { useLab } from './lab.ts';
import { takePortBlock } from './ports.ts';

const MIB = 1024 * 1024;
const SIZE = 20_000_000;

/** The same bytes at each call; nothing of the body is kept in this process. */
function* pieces(seed: Buffer): Generator<Buffer> {
  for (let sent = 0; sent < SIZE; sent += seed.length) {
    yield seed.subarray(0, Math.min(seed.length, SIZE - sent));
  }
}

function sha256(seed: Buffer): string {
  const hash = createHash('sha256');
  for (const piece of pieces(seed)) hash.update(piece);
  return hash.digest('hex');
}

for (const server of ['apache', 'front-end'] as const) {
  test(`uploads of 20 MB reach ${server} once and whole, and cost less than 8 MB of memory`, async (t) => {
    const lab = await useLab(t, server);
    if (lab === undefined) return;
    await using block = await takePortBlock();
    const path = server === 'apache' ? '/upload' : '/echo';
    await using daemon = await startDaemonProcess(
      lab,
      [
        { path: '/a/', server, principal: 'alice' },
        { path: '/b/', server, principal: 'bob' },
      ],
      block.base + 1,
    );
    const seed = randomBytes(256 * 1024);
    const expected = sha256(seed);
    const upload = async (route: string, length: number | undefined): Promise<void> => {
      const body = { method: 'POST', pieces: pieces(seed), length } as const;
      const answer = await labRequest(daemon.port, `${route}${path}`, { upload: body });
      assert.equal(answer.status, 200, answer.body);
      const { bodyLength, bodySha256 } = JSON.parse(answer.body) as {
        bodyLength: number;
        bodySha256: string;
      };
      assert.deepEqual([bodyLength, bodySha256], [SIZE, expected]);
    };
    await upload('/a', SIZE);
    resetPeak(daemon.pid);
    const resident = memoryOf(daemon.pid, 'VmRSS');
    await upload('/a', SIZE);
    await upload('/a', undefined);
    await upload('/b', SIZE);
    const growth = memoryOf(daemon.pid, 'VmHWM') - resident;
    t.diagnostic(`peak grew by ${(growth / MIB).toFixed(1)} MiB`);
    assert.ok(growth < 8_000_000, `peak grew by ${growth} bytes`);
  });
}
