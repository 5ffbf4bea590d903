/** Who calls, on one HTTP/2 connection: each stream by itself, never as the first one was. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { H2Client } from '../support/h2-client.ts';
import { testType1 } from '../support/ntlm-client.ts';
import { identitiesOf } from '../support/daemon.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';
import { basic, CallersWorld, type CallersSetup, WAYS } from './callers-world.ts';
import { startWorld } from './http-world.ts';

const HTTP2 = 'http2: true';

async function start(setup: CallersSetup = {}): Promise<CallersWorld> {
  return await CallersWorld.ready({ ...setup, listener: HTTP2 });
}

function connect(world: CallersWorld): Promise<H2Client> {
  const authority = world.daemon.authority();
  return H2Client.connect(`http://${authority}`, authority);
}

const mark = (user: string): Record<string, string> => ({ [MARKER_FIELD]: `LAB\\${user}` });

describe('callers on one HTTP/2 connection', () => {
  it('are told apart stream by stream, in whatever way they say who they are', async () => {
    await using world = await start();
    await using client = await connect(world);
    const asked = Object.values(WAYS).flatMap((way) =>
      ['alice', 'bob', 'alice', 'bob'].map(async (user) => {
        const { status, headers } = await client.ask('GET /', { ...way(user), ...mark(user) });
        return { user, status, seen: headers['x-user'] };
      }),
    );
    for (const { user, status, seen } of await Promise.all(asked)) {
      assert.deepEqual([status, seen], [200, `LAB\\${user}`]);
    }
    for (const users of identitiesOf(world.upstream.journal)) assert.equal(users.length, 1);
  });

  it('are nobody without credentials, whoever called before', async () => {
    await using world = await start();
    await using client = await connect(world);
    const fields = basic('alice', 'alice-gate');
    assert.equal((await client.ask('GET /', fields)).status, 200);
    const { status, all } = await client.ask('GET /');
    assert.equal(status, 401);
    assert.ok(all('www-authenticate').length > 0);
    assert.equal((await client.ask('GET /', basic('alice', 'bob-gate'))).status, 401);
    assert.equal((await client.ask('GET /', basic('carol', 'carol-gate'))).status, 403);
    assert.equal((await client.ask('GET /', fields)).status, 200);
  });
});

describe("a caller's own login over HTTP/2", () => {
  for (const route of ['challenge: own', 'challenge: pass']) {
    it(`is refused on a route with ${route} (R18, R21)`, async () => {
      await using world = await startWorld({ listener: HTTP2, route });
      await using client = await world.connectHttp2();
      for (const scheme of ['NTLM', 'Negotiate']) {
        const authorization = `${scheme} ${testType1()}`;
        assert.equal((await client.ask('GET /', { authorization })).status, 403);
      }
      assert.equal(world.upstream.requests.length, 0);
    });

    it(`is not asked for on a route with ${route} (R19)`, async () => {
      await using world = await startWorld({
        listener: HTTP2,
        route,
        handler: () => ({
          status: 401,
          fields: [
            ['WWW-Authenticate', 'Negotiate'],
            ['WWW-Authenticate', 'NTLM'],
            ['WWW-Authenticate', 'Basic realm="x"'],
          ],
        }),
      });
      await using client = await world.connectHttp2();
      for (let nth = 0; nth < 2; nth += 1) {
        const { status, all } = await client.ask('GET /');
        assert.deepEqual([status, all('www-authenticate')], [401, ['Basic realm="x"']]);
        assert.deepEqual(all('proxy-support'), []);
      }
      // A socket that asks for such a login serves nobody else.
      assert.equal(world.upstream.journal.sockets.length, 2);
    });
  }
});
