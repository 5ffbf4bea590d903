/** A wrong password at real servers: how many logins they see before the guard stops. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { labRequest, startLabDaemon } from './lab-daemon.ts';
import { startLab, useLab } from './lab.ts';
import type { FrontEndCounts } from './programs/front-end.ts';

interface Outcome {
  readonly statuses: Readonly<Record<number, number>>;
  readonly first: number;
  readonly retryAfter: string | undefined;
}

/** 100 requests, eight at a time. */
async function hundred(port: number, path: string): Promise<Outcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const statuses: Record<number, number> = {};
  let first = 0;
  let retryAfter: string | undefined;
  let left = 100;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const answer = await labRequest(port, path, { agent });
      if (first === 0) first = answer.status;
      retryAfter ??= answer.retryAfter;
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  agent.destroy();
  return { statuses, first, retryAfter };
}

function assertGuarded({ statuses, first, retryAfter }: Outcome): void {
  assert.equal(first, 502);
  assert.deepEqual(Object.keys(statuses), ['502', '503'], JSON.stringify(statuses));
  assert.ok((statuses[502] ?? 0) <= 3, JSON.stringify(statuses));
  assert.ok(Number(retryAfter) > 0);
}

test('a wrong password reaches the front end three times at most in 100 requests', async (t) => {
  if ((await useLab(t, 'front-end')) === undefined) return;
  // A front end of its own: what it counts are the logins of this test alone.
  await using lab = await startLab(['front-end']);
  const counts = async (): Promise<FrontEndCounts> => {
    const answer = await labRequest(lab.ports.frontEnd, '/lab/counts');
    return JSON.parse(answer.body) as FrontEndCounts;
  };
  await using daemon = await startLabDaemon(lab, [
    { path: '/w/', server: 'front-end', principal: 'wrong' },
  ]);
  const before = await counts();
  assertGuarded(await hundred(daemon.address().port, '/w/echo'));
  const after = await counts();
  const logins = after.rejected - before.rejected;
  assert.ok(logins >= 1 && logins <= 3, `${logins} rejected logins`);
});

test('a wrong password reaches Apache three times at most in 100 requests', async (t) => {
  const lab = await useLab(t, 'apache');
  if (lab === undefined) return;
  // A path of its own tells this test's lines from those of others that run beside it.
  const mark = `wrong-${process.pid}-${Date.now()}`;
  await using daemon = await startLabDaemon(lab, [
    { path: '/w/', server: 'apache', principal: 'wrong' },
  ]);
  assertGuarded(await hundred(daemon.address().port, `/w/echo?${mark}`));
  const log = readFileSync(join(lab.folder, 'apache', 'access.log'), 'latin1');
  const logins = log.split('\n').filter((line) => line.includes(mark) && line.endsWith(' 3'));
  assert.ok(logins.length >= 1 && logins.length <= 3, `${logins.length} type 3 messages`);
});

test('a wrong password is refused by squid without an endless loop', async (t) => {
  const lab = await useLab(t, 'squid');
  if (lab === undefined) return;
  await using daemon = await startLabDaemon(lab, [
    { path: '/w/', server: 'squid', principal: 'wrong' },
  ]);
  assertGuarded(await hundred(daemon.address().port, '/w/echo'));
});
