/** `challenge: pass` on a route: callers log in to the upstream by themselves, each on his own connection. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { logIn, testType1 } from '../support/ntlm-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import { describeRequest } from '../support/upstream-answers.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';
import { until } from '../support/waiting.ts';

const LOGINS = {
  alice: { domain: 'LAB', user: 'alice', password: 'alice-secret' },
  bob: { domain: 'LAB', user: 'bob', password: 'bob-secret' },
} as const;

interface World extends AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;
}

/** `/own/` and `/pass/` lead to one NTLM origin; it has a login of the daemon's for the first only. */
async function start(): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const upstream = stack.use(
    await startScriptedUpstream({ scheme: 'ntlm', handler: describeRequest }),
  );
  const daemon = stack.use(
    await startDaemon({
      config: `version: 1
log: { access: false }
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams: { web: { url: 'http://127.0.0.1:${upstream.port}', auth: { principal: alice, schemes: ntlm } } }
listeners:
  - name: web
    listen: 127.0.0.1:0
    routes:
      - { path: /own/, upstream: web }
      - { path: /pass/, upstream: web, challenge: pass }
`,
      secrets: { ALICE: LOGINS.alice.password },
    }),
  );
  const running = stack.move();
  return { upstream, daemon, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

const mark = (who: string): Record<string, string> => ({ [MARKER_FIELD]: `LAB\\${who}` });

test('two callers log in as themselves, and their connections stay theirs', async () => {
  await using world = await start();
  await using first = await world.daemon.connect();
  await using second = await world.daemon.connect();
  for (const [client, who] of [
    [first, 'alice'],
    [second, 'bob'],
  ] as const) {
    const answer = await logIn(client, LOGINS[who], '/pass/login', mark(who));
    assert.equal(answer.status, 200);
  }
  for (let i = 0; i < 3; i += 1) {
    for (const [client, who] of [
      [first, 'alice'],
      [second, 'bob'],
    ] as const) {
      await client.request(`GET /pass/${i}`, mark(who));
      assert.equal((await client.response()).status, 200);
    }
  }
  // The daemon's own login to the same origin has a third.
  assert.equal((await world.daemon.ask('GET /own/x', mark('alice'))).status, 200);
  assert.equal(world.upstream.journal.sockets.length, 3);
});

test('a challenge reaches the caller there, and nowhere else', async () => {
  await using world = await start();
  const passed = await world.daemon.ask('GET /pass/x');
  assert.equal(passed.status, 401);
  assert.deepEqual(passed.all('www-authenticate'), ['NTLM']);
  assert.equal(passed.field('proxy-support'), 'Session-Based-Authentication');
  const token = `NTLM ${testType1()}`;
  const refused = await world.daemon.ask('GET /own/x', { Authorization: token });
  assert.equal(refused.status, 403);
});

test('the connection ends with the caller', async () => {
  await using world = await start();
  const client = await world.daemon.connect();
  await logIn(client, LOGINS.alice, '/pass/login', mark('alice'));
  await client[Symbol.asyncDispose]();
  await until(() => world.upstream.openSockets === 0, 'the end of its connection');
});
