/**
 * The daemon in front of real servers that verify NTLMv2 and bind the login to the connection: who
 * they saw, on which socket.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { Agent } from 'node:http';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { labRequest, startLabDaemon, type NtlmServer } from './lab-daemon.ts';
import { type LabFacts, useLab } from './lab.ts';
import { requireCommand } from './requires.ts';

const run = promisify(execFile);
const PATHS: Readonly<Record<NtlmServer, string>> = {
  apache: '/echo',
  'apache-tls': '/echo',
  squid: '/echo',
  'front-end': '/echo',
  'channel-binding': '/require',
};
/** Names as the servers report them. */
const names = (user: string): string => user.toLowerCase().replace(/^.*\\/, '').replace(/@.*$/, '');

async function need(t: TestContext, ...servers: NtlmServer[]): Promise<LabFacts | undefined> {
  const components = servers.map((one) => (one === 'apache-tls' ? 'apache' : one));
  return useLab(t, ...components);
}

for (const server of ['apache', 'apache-tls', 'squid', 'front-end', 'channel-binding'] as const) {
  test(`ten requests of curl on one connection are one login as alice at ${server}`, async (t) => {
    if (!requireCommand(t, 'curl')) return;
    const lab = await need(t, server);
    if (lab === undefined) return;
    await using daemon = await startLabDaemon(lab, [{ path: '/a/', server, principal: 'alice' }]);
    const url = `http://127.0.0.1:${daemon.address().port}/a${PATHS[server]}`;
    const out = [
      '-o',
      '/dev/null',
      '-w',
      '%{http_code} %header{x-lab-port} %header{x-lab-user} %{num_connects}\\n',
    ];
    const each = Array.from({ length: 10 }, (_, i) => [
      ...(i === 0 ? [] : ['--next']),
      '-sS',
      ...out,
      url,
    ]);
    const { stdout } = await run('curl', each.flat());
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split(' '));
    assert.deepEqual(new Set(lines.map(([status]) => status)), new Set(['200']));
    assert.deepEqual(new Set(lines.map(([, , user = '']) => names(user))), new Set(['alice']));
    assert.equal(new Set(lines.map(([, port]) => port)).size, 1, 'one upstream socket');
    assert.equal(
      lines.reduce((sum, line) => sum + Number(line[3]), 0),
      1,
      'one connection of curl',
    );
    const metrics = await daemon.metrics();
    const leases = (result: string): number =>
      metrics.sum('sidekerb_pool_lease_requests_total', { upstream: 'u0', result });
    assert.deepEqual([leases('new'), leases('hit')], [1, 9]);
  });
}

test('2,000 requests of two principals, 32 connections at random: never a wrong user, no shared socket', async (t) => {
  const lab = await need(t, 'apache', 'front-end');
  if (lab === undefined) return;
  const routes = (['apache', 'front-end'] as const).flatMap((server) =>
    (['alice', 'bob'] as const).map((principal) => ({
      path: `/${server}-${principal}/`,
      server,
      principal,
    })),
  );
  await using daemon = await startLabDaemon(lab, routes);
  const { port } = daemon.address();
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const sockets = new Map<string, Set<string>>();
  const wrong: string[] = [];
  let left = 2000;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const route = routes[Math.floor(Math.random() * routes.length)];
      if (route === undefined) return;
      const answer = await labRequest(port, `${route.path}echo?n=${left}`, { agent });
      const seen = names(answer.user);
      if (answer.status !== 200 || seen !== route.principal)
        wrong.push(`${answer.status} ${seen} at ${route.path}`);
      const key = `${route.server}:${answer.port}`;
      sockets.set(key, (sockets.get(key) ?? new Set()).add(seen));
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
  agent.destroy();
  assert.deepEqual(wrong, []);
  const shared = [...sockets].filter(([, users]) => users.size > 1);
  assert.deepEqual(shared, [], 'sockets of two users');
});

test('a redirect of the origin by its own name and base path is followed through the listener', async (t) => {
  if (!requireCommand(t, 'curl')) return;
  const lab = await need(t, 'apache');
  if (lab === undefined) return;
  await using daemon = await startLabDaemon(lab, [
    { path: '/app/', server: 'apache', principal: 'alice', base: '/base' },
  ]);
  const url = `http://127.0.0.1:${daemon.address().port}/app/moved`;
  const { stdout } = await run('curl', [
    '-sSL',
    '-o',
    '/dev/null',
    '-w',
    '%{http_code} %{url_effective} %{num_redirects}',
    url,
  ]);
  assert.equal(stdout, `200 http://127.0.0.1:${daemon.address().port}/app/echo 1`);
});

test('channel bindings that an origin requires are sent, also over a resumed TLS session', async (t) => {
  const lab = await need(t, 'channel-binding');
  if (lab === undefined) return;
  // Each connection serves one request, so that the second one resumes the session of the first.
  await using daemon = await startLabDaemon(
    lab,
    [{ path: '/a/', server: 'channel-binding', principal: 'alice' }],
    ', pool: { maxRequests: 1 }',
  );
  const { port } = daemon.address();
  const answers: { channelBound: boolean; tlsResumed: boolean }[] = [];
  for (let i = 0; i < 3; i += 1) {
    const answer = await labRequest(port, '/a/require');
    assert.equal(answer.status, 200, answer.body);
    answers.push(JSON.parse(answer.body) as (typeof answers)[number]);
  }
  assert.deepEqual(
    answers.map(({ channelBound }) => channelBound),
    [true, true, true],
  );
  assert.deepEqual(
    answers.map(({ tlsResumed }) => tlsResumed),
    [false, true, true],
  );
});

test('requests that Apache denies to alice keep its answer, and the guard stays closed', async (t) => {
  const lab = await need(t, 'apache');
  if (lab === undefined) return;
  await using daemon = await startLabDaemon(lab, [
    { path: '/a/', server: 'apache', principal: 'alice' },
  ]);
  const { port } = daemon.address();
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const seen = new Map<string, number>();
  const paths = ['echo', 'bob-only/echo', 'echo', 'bob-forbidden/echo'] as const;
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < 1000) {
      const path = paths[next % paths.length] ?? 'echo';
      next += 1;
      const answer = await labRequest(port, `/a/${path}`, { agent });
      const key = `${path} ${answer.status}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  agent.destroy();
  const expected = { 'echo 200': 500, 'bob-only/echo 401': 250, 'bob-forbidden/echo 403': 250 };
  assert.deepEqual(Object.fromEntries(seen), expected);
  const metrics = await daemon.metrics();
  assert.equal(metrics.sum('sidekerb_guard_state', { principal: 'alice', upstream: 'u0' }), 0);
});
