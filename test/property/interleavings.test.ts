/** Random callers, faults and orders through the daemon: isolation and single execution hold. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { runInterleaving } from './interleavings.ts';

const BUDGET_MS = 12_000;

test('R1 R32 R33 R45 hold for random callers in front of a random origin', async (context) => {
  const given = Number(process.env['SIDEKERB_SEED'] ?? Number.NaN);
  const end = performance.now() + BUDGET_MS;
  let served = 0;
  let logins = 0;
  for (let run = 0; run === 0 || performance.now() < end; run += 1) {
    const seed = Number.isNaN(given) ? randomInt(2 ** 32) : given + run;
    try {
      const facts = await runInterleaving(seed);
      served += facts.statuses.get(200) ?? 0;
      logins += facts.logins;
    } catch (error) {
      throw new Error(`SIDEKERB_SEED=${seed}`, { cause: error });
    }
  }
  context.diagnostic(`${served} requests served, ${logins} logins`);
  // Less would prove nothing.
  assert.ok(served > 20 && logins > 10, `${served} served, ${logins} logins`);
});
