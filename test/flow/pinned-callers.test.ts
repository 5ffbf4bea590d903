/** A connection on which several callers make requests: what one of them logs in to is not the other's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { logIn } from '../support/ntlm-client.ts';
import type { RawClient } from '../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import { describeRequest } from '../support/upstream-answers.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';
import { bearer, CallersWorld, tokenOf } from './callers-world.ts';

const ALICE = { domain: 'LAB', user: 'alice', password: 'alice-secret' } as const;
const AS_ALICE = { [MARKER_FIELD]: 'LAB\\alice' };

const basic = (who: string): string => `Basic ${Buffer.from(who).toString('base64')}`;

interface World extends AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;
}

/** `$url` stands for an NTLM origin that the daemon itself does not log in to. */
async function start(listener: string): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const upstream = stack.use(
    await startScriptedUpstream({ scheme: 'ntlm', handler: describeRequest }),
  );
  const daemon = stack.use(
    await startDaemon({
      config: `version: 1
principals: { caller: { from: client } }
upstreams: { web: { url: 'http://127.0.0.1:${upstream.port}', auth: { schemes: ntlm } } }
listeners: [ { name: one, listen: 127.0.0.1:0, ${listener} } ]
`,
    }),
  );
  const running = stack.move();
  return { upstream, daemon, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function statusOf(
  client: RawClient,
  line: string,
  fields: Readonly<Record<string, string>>,
): Promise<number> {
  await client.request(line, fields);
  return (await client.response()).status;
}

test('R1 behind a forward listener, whoever logged in to the proxy on the same connection', async () => {
  await using world = await start(
    `mode: forward, allow: ['127.0.0.1:*'], clients: [basic: { pass: true }],
     principal: [{ when: {}, use: caller }]`,
  );
  const url = `http://127.0.0.1:${world.upstream.port}`;
  const alice = { 'Proxy-Authorization': basic('LAB\\alice:alice-secret'), ...AS_ALICE };
  const bob = { 'Proxy-Authorization': basic('LAB\\bob:bob-secret') };
  await using client = await world.daemon.connect();
  assert.equal((await logIn(client, ALICE, `${url}/login`, alice)).status, 200);
  assert.equal(await statusOf(client, `GET ${url}/alice`, alice), 200);
  assert.equal(await statusOf(client, `GET ${url}/bob`, bob), 401);
  // Another one with another password is somebody else, too.
  const wrong = { 'Proxy-Authorization': basic('LAB\\alice:guessed') };
  assert.equal(await statusOf(client, `GET ${url}/guess`, wrong), 401);
});

test('R1 on a route that passes challenges, a caller with credentials for the listener', async () => {
  await using world = await start(
    `clients: [basic: { pass: true }, none],
     routes: [{ path: /, upstream: web, challenge: pass }]`,
  );
  await using client = await world.daemon.connect();
  assert.equal((await logIn(client, ALICE, '/login', AS_ALICE)).status, 200);
  assert.equal(await statusOf(client, 'GET /alice', AS_ALICE), 200);
  const bob = { Authorization: basic('LAB\\bob:bob-secret') };
  assert.equal(await statusOf(client, 'GET /bob', bob), 401);
});

for (const upstream of ['origin', 'plain']) {
  test(`R1 on such a route to ${upstream}, callers whom a trusted proxy names, each on what he logged in to`, async () => {
    await using world = await CallersWorld.ready({
      upstream: { scheme: 'ntlm', handler: describeRequest },
      routes: `{ upstream: ${upstream}, challenge: pass }`,
      clients: '{ JWT }, header: { name: X-Remote-User, from: [127.0.0.1] }, none',
      rules:
        '{ when: { client: none }, use: bob }, { when: { client: header }, use: alice }, { when: { client: jwt }, use: alice }',
    });
    const Host = world.daemon.authority();
    const alice = { Host, 'X-Remote-User': 'alice', ...AS_ALICE };
    await using client = await world.connect();
    assert.equal((await logIn(client, ALICE, '/login', alice)).status, 200);
    assert.equal(await statusOf(client, 'GET /alice', alice), 200);
    for (const other of [{ 'X-Remote-User': 'bob' }, {}, bearer(tokenOf('alice'))]) {
      assert.equal(await statusOf(client, 'GET /other', { Host, ...other }), 401);
      assert.equal((await logIn(client, ALICE, '/again', alice)).status, 200);
    }
    // As the rules say the daemon is somebody; where callers log in by themselves, it is nobody.
    const users = world.upstream.journal.sockets.flatMap(({ logins }) => logins);
    assert.deepEqual(new Set(users), new Set(['LAB\\alice']));
    const others = world.upstream.requests.filter(({ target }) => target === '/other');
    assert.deepEqual(
      others.map(({ user, status }) => [user, status]),
      Array.from({ length: 3 }, () => [undefined, 401]),
    );
  });
}

test('R1 behind a forward listener, whose token a request brings', async () => {
  await using world = await CallersWorld.ready({
    upstream: { scheme: 'ntlm', handler: describeRequest },
  });
  const { port } = new URL(world.upstream.url);
  await world.daemon.reload((text) =>
    text
      .replace(/clients: \[(\{ jwt: .*? \} \}).*\n/, 'clients: [$1]\n')
      .replace(/ {4}principal: .*\n/, '    principal: [{ when: {}, use: bob }]\n')
      .replace(/ {4}routes: .*\n/, `    mode: forward\n    allow: ['127.0.0.1:${port}']\n`),
  );
  const url = `http://127.0.0.1:${port}`;
  const tokenFields = (sub: string, more: Record<string, unknown> = {}) => ({
    'Proxy-Authorization': `Bearer ${tokenOf(sub, more)}`,
  });
  await using client = await world.connect();
  const first = { ...tokenFields('alice'), ...AS_ALICE };
  assert.equal((await logIn(client, ALICE, `${url}/login`, first)).status, 200);
  // The same caller with another token is himself.
  const renewed = { ...tokenFields('alice', { jti: '2' }), ...AS_ALICE };
  assert.equal(await statusOf(client, `GET ${url}/alice`, renewed), 200);
  assert.equal(await statusOf(client, `GET ${url}/bob`, tokenFields('bob')), 401);
});

test('a caller whom nobody verified may log in by himself where he could not have the principal of the upstream', async () => {
  await using upstream = await startScriptedUpstream({ scheme: 'ntlm', handler: describeRequest });
  await using daemon = await startDaemon({
    config: `version: 1
log: { principals: true }
principals: { svc: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams: { web: { url: 'http://127.0.0.1:${upstream.port}', auth: { principal: svc, schemes: ntlm } } }
listeners:
  - name: one
    listen: 127.0.0.1:0
    clients: [basic: { pass: true }, none]
    routes: [{ path: /, upstream: web, challenge: pass }]
  - name: two
    listen: 127.0.0.1:0
    routes: [{ path: /, upstream: web, challenge: pass }]
`,
    secrets: { ALICE: ALICE.password },
  });
  await using client = await daemon.connect();
  const bob = { Authorization: basic('LAB\\bob:bob-secret') };
  assert.equal(await statusOf(client, 'GET /bob', bob), 401);
  assert.equal((await logIn(client, ALICE, '/login', AS_ALICE)).status, 200);
  await using anybody = await daemon.connect('two');
  assert.equal((await logIn(anybody, ALICE, '/any', AS_ALICE)).status, 200);
  await daemon.logged(/"path":"\/login".*"status":200/);
  await daemon.logged(/"path":"\/any".*"status":200/);
  // Nobody was logged in as it.
  assert.doesNotMatch(daemon.logText, /svc/);
});
