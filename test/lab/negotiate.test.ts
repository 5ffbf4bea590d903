/** Negotiate at real servers: NTLM inside SPNEGO, and what is chosen where both are offered. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { labRequest, startLabDaemon } from './lab-daemon.ts';
import { useLab } from './lab.ts';

for (const server of ['apache', 'apache-tls'] as const) {
  test(`NTLM inside Negotiate is one login on one connection at ${server}`, async (t) => {
    const lab = await useLab(t, 'apache');
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [
      { path: '/a/', server, principal: 'alice', schemes: 'negotiate' },
    ]);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<string>();
    for (let i = 0; i < 10; i += 1) {
      const answer = await labRequest(daemon.address().port, '/a/echo', { agent });
      assert.equal(answer.status, 200, answer.body);
      assert.match(answer.user, /alice/i);
      ports.add(answer.port);
    }
    agent.destroy();
    assert.equal(ports.size, 1);
    const metrics = await daemon.metrics();
    const ok = { upstream: 'u0', scheme: 'negotiate', result: 'ok' };
    assert.equal(metrics.sum('sidekerb_handshakes_total', ok), 1);
  });
}

test('where a server offers NTLM alone, the list is followed to it', async (t) => {
  const lab = await useLab(t, 'front-end');
  if (lab === undefined) return;
  await using daemon = await startLabDaemon(lab, [
    { path: '/a/', server: 'front-end', principal: 'alice', schemes: 'negotiate, ntlm' },
    { path: '/n/', server: 'front-end', principal: 'alice', schemes: 'negotiate' },
  ]);
  const { port } = daemon.address();
  assert.equal((await labRequest(port, '/a/echo')).status, 200);
  const none = await labRequest(port, '/n/echo');
  assert.equal(none.status, 502);
  assert.match(none.body, /no auth scheme/);
  const metrics = await daemon.metrics();
  const ok = { upstream: 'u0', scheme: 'ntlm', result: 'ok' };
  assert.equal(metrics.sum('sidekerb_handshakes_total', ok), 1);
});

test('a wrong password inside Negotiate stops after three logins, and is 502, then 503', async (t) => {
  const lab = await useLab(t, 'apache');
  if (lab === undefined) return;
  await using daemon = await startLabDaemon(lab, [
    { path: '/w/', server: 'apache', principal: 'wrong', schemes: 'negotiate' },
  ]);
  const statuses: number[] = [];
  for (let i = 0; i < 20; i += 1) {
    statuses.push((await labRequest(daemon.address().port, '/w/echo')).status);
  }
  assert.deepEqual(statuses.slice(0, 4), [502, 502, 502, 503]);
  assert.deepEqual(new Set(statuses.slice(3)), new Set([503]));
});
