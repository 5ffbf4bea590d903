/** Many reloads one after the other under load: nobody is mixed up, nothing fails, nothing is lost. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/waiting.ts';
import { startWorld, USERS } from './login-world.ts';

const ROUNDS = 40;

test('R1 R15 R45 sixty callers of two principals see forty reloads of everything, and notice none', async () => {
  const accounts: Record<string, string> = {
    'LAB\\alice': 'alice-secret',
    'LAB\\bob': 'bob-secret',
  };
  await using world = await startWorld({
    upstream: { accounts },
    pool: 'maxConnections: 40, maxPerPrincipal: 20, waitTimeout: 20s',
    timeouts: 'connect: 5s',
  });
  const load = { isOver: false, answered: 0 };
  const callers = Array.from({ length: 60 }, async (_, n) => {
    const who = n % 2 === 0 ? 'alice' : 'bob';
    await using caller = await world.caller(who);
    while (!load.isOver) {
      const answer = await caller.ask();
      assert.equal(answer.status, 200, `${who}: ${answer.body.toString()}`);
      assert.equal(answer.field('X-User'), USERS[who]);
      load.answered += 1;
    }
  });
  const failed = Promise.race(callers).catch((error: unknown) => {
    load.isOver = true;
    throw error;
  });
  failed.catch(() => undefined);
  for (let round = 1; round <= ROUNDS && !load.isOver; round += 1) {
    const wanted = load.answered + 30;
    await until(() => load.isOver || load.answered >= wanted, 'requests between two reloads');
    const who = round % 2 === 0 ? 'alice' : 'bob';
    accounts[USERS[who]] = `secret-${round}`;
    const changes: ((text: string) => string)[] = [
      (text) => text,
      // Another target: its connections are opened anew.
      (text) => text.replaceAll(/connect: \d+s/g, `connect: ${5 + (round % 7)}s`),
      // Other limits: surplus connections close.
      (text) => text.replaceAll(/maxPerPrincipal: \d+/g, `maxPerPrincipal: ${3 + (round % 17)}`),
      (text) => text.replace(/^ {2}- name: more\n(?: {4}.*\n)*/m, ''),
      (text) => `${text}  - name: more\n    listen: 127.0.0.1:0\n    routes: { upstream: plain }\n`,
    ];
    const change = changes[round % changes.length];
    const report = await world.daemon.reload(change, { [who.toUpperCase()]: `secret-${round}` });
    assert.deepEqual([report.result, report.principals.changed], ['ok', [who]]);
  }
  load.isOver = true;
  await Promise.all(callers);
  const open = (): number => world.sockets.filter((socket) => socket.open).length;
  await world.daemon.measured(
    (metrics) =>
      metrics.sum('sidekerb_upstream_connections') === open() &&
      metrics.sum('sidekerb_upstream_connections', { state: 'active' }) === 0,
    'the books and the origin agree',
  );
  const metrics = await world.daemon.metrics();
  assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
  assert.equal(metrics.sum('sidekerb_errors_total'), 0);
  assert.equal(metrics.sum('sidekerb_config_reloads_total', { result: 'ok' }), ROUNDS);
});
