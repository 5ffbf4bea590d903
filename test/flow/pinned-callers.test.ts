/** A connection on which several callers make requests: what one of them logs in to is not the other's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { logIn } from '../support/ntlm-client.ts';
import type { RawClient } from '../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import { describeRequest } from '../support/upstream-answers.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';

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
