/** Who is served on which upstream socket, seen from the origin, through the running daemon. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { identitiesOf } from '../support/daemon.ts';
import { fieldValues } from '../support/strict-http.ts';
import { startWorld, USERS, type Who } from './login-world.ts';

describe('sockets and principals', () => {
  test('R1 ten requests of one principal are one socket, one login and nine hits', async () => {
    await using world = await startWorld();
    for (let n = 0; n < 10; n += 1) {
      const answer = await world.ask('alice');
      assert.equal(answer.status, 200);
      assert.equal(answer.field('X-User'), USERS.alice);
    }
    assert.deepEqual(identitiesOf(world.upstream.journal), [[USERS.alice]]);
    assert.equal(world.upstream.count('type1'), 1);
    assert.equal(world.upstream.count('type3'), 1);
    const metrics = await world.daemon.metrics();
    const lease = (result: string): number =>
      metrics.sum('sidekerb_pool_lease_requests_total', { upstream: 'origin', result });
    assert.equal(lease('hit'), 9);
    assert.equal(lease('new'), 1);
    assert.equal(metrics.sum('sidekerb_handshakes_total', { result: 'ok' }), 1);
    assert.equal(
      metrics.sum('sidekerb_upstream_connections', { state: 'idle', binding: 'tied' }),
      1,
    );
  });

  test('R1 two principals that alternate fast have a socket each', async () => {
    await using world = await startWorld();
    await using alice = await world.caller('alice');
    await using bob = await world.caller('bob');
    for (let n = 0; n < 50; n += 1) {
      const [one, other] = await Promise.all([
        alice.ask(),
        bob.ask('POST', { body: Buffer.from('b') }),
      ]);
      assert.equal(one.field('X-User'), USERS.alice);
      assert.equal(other.field('X-User'), USERS.bob);
    }
    assert.deepEqual(identitiesOf(world.upstream.journal).flat().toSorted(), [
      USERS.alice,
      USERS.bob,
    ]);
    assert.equal(world.upstream.journal.sockets.length, 2);
  });

  test('R1 one caller connection may ask as several principals in turn', async () => {
    await using world = await startWorld();
    await using client = await world.daemon.connect();
    for (const who of ['alice', 'bob', 'alice', 'bob'] as const) {
      const fields = { Host: world.daemon.authority(), 'X-Test-Principal': who };
      await client.request(`GET /${who}/x`, fields);
      assert.equal((await client.response()).field('X-User'), USERS[who]);
    }
    assert.equal(world.upstream.journal.sockets.length, 2);
  });

  test('R2 a request as nobody never gets a socket that carried a login', async () => {
    await using world = await startWorld();
    await world.ask('alice');
    const open = await world.ask('open');
    await world.ask('alice');
    assert.equal(open.field('X-User'), '');
    const [tied, other, ...more] = world.upstream.journal.sockets;
    assert.deepEqual([tied?.type1, other?.type1, more.length], [1, 0, 0]);
    assert.deepEqual(
      other?.requests.map(({ target }) => target),
      ['/open/x'],
    );
  });

  test("R3 a caller's own Basic never travels on a socket that a login tied", async () => {
    await using world = await startWorld();
    await world.ask('alice');
    const fields = { Authorization: 'Basic YWxpY2U6YWxpY2Utc2VjcmV0' };
    for (const who of ['plain', 'open'] as const) {
      assert.equal((await world.ask(who, 'GET', { fields })).status, 200);
    }
    const basic = world.upstream.journal.sockets.filter(({ requests }) =>
      requests.some(({ token }) => token === 'basic'),
    );
    assert.equal(basic.length, 2);
    assert.deepEqual(
      basic.map(({ type1 }) => type1),
      [0, 0],
    );
  });

  test('R5 a route as nobody and a route with an identity never share, whatever came first', async () => {
    for (const order of [
      ['open', 'alice', 'open'],
      ['alice', 'open', 'alice'],
    ] as const) {
      await using world = await startWorld();
      for (const who of order) assert.equal((await world.ask(who)).status, 200);
      const seen = identitiesOf(world.upstream.journal).map((users) => users.join());
      assert.deepEqual(seen.toSorted(), ['', USERS.alice]);
    }
  });

  test('R24 routes with own time limits share no more than the principal', async () => {
    const route =
      '{ path: /alice/slow/, upstream: origin, principal: alice, timeouts: { response: 100ms } }';
    const held = Promise.withResolvers<{ body: string }>();
    await using world = await startWorld({
      routes: [route],
      upstream: {
        handler: ({ target }) => (target.includes('/slow/') ? held.promise : { body: 'ok' }),
      },
    });
    assert.equal((await world.ask('alice')).status, 200);
    const late = await world.ask('alice', 'GET', { path: 'slow/x' });
    held.resolve({ body: 'late' });
    assert.equal(late.status, 504);
    assert.equal((await world.ask('alice')).body.toString(), 'ok');
  });

  test('R22 no way into the daemon leads upstream without an identity decided by a route', async () => {
    await using world = await startWorld();
    const host = world.daemon.authority();
    const lines = [
      'CONNECT 127.0.0.1:1',
      `GET http://${host}/alice/x`,
      'OPTIONS *',
      'GET /nowhere/x',
    ];
    for (const line of lines) {
      await using client = await world.daemon.connect();
      await client.request(line, { Host: line.startsWith('CONNECT') ? '127.0.0.1:1' : host });
      assert.ok((await client.response('GET')).status >= 400, line);
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  test('R53 each request of one connection is routed by its own target', async () => {
    await using world = await startWorld();
    await using client = await world.daemon.connect();
    const order: Who[] = ['open', 'alice', 'plain', 'bob', 'open'];
    const users: (string | undefined)[] = [];
    for (const who of order) {
      const marker = who === 'open' || who === 'plain' ? 'anonymous' : who;
      await client.request(`GET /${who}/x`, {
        Host: world.daemon.authority(),
        'X-Test-Principal': marker,
      });
      users.push((await client.response()).field('X-User'));
    }
    assert.deepEqual(users, ['', USERS.alice, '', USERS.bob, '']);
  });
});

describe('credentials of callers', () => {
  test("R18 a caller's own NTLM or Negotiate is refused and nothing goes upstream", async () => {
    await using world = await startWorld();
    const values = [
      'NTLM TlRMTVNTUAABAAAA',
      'ntlm x',
      'Negotiate YII=',
      'NEGOTIATE YII=',
      'Nego2 x',
      'Kerberos x',
    ];
    for (const who of ['alice', 'open', 'plain'] as const) {
      for (const value of values) {
        const answer = await world.ask(who, 'GET', { fields: { Authorization: value } });
        assert.equal(answer.status, 403, `${who} ${value}`);
      }
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  test('R18 a second Authorization field hides no NTLM token', async () => {
    await using world = await startWorld();
    for (const target of ['/open/x', '/plain/x', '/alice/x']) {
      await using client = await world.daemon.connect();
      const lines = ['Authorization: Bearer b', 'Authorization: NTLM TlRMTVNTUAABAAAA'];
      await client.send(
        `GET ${target} HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\n${lines.join('\r\n')}\r\n\r\n`,
      );
      assert.ok([400, 403].includes((await client.response()).status), target);
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  test('R30 Authorization is taken away where we log in and passes where we do not', async () => {
    await using world = await startWorld();
    const fields = { Authorization: 'Bearer own-token', 'Proxy-Authorization': 'Basic cHJveHk=' };
    for (const who of ['alice', 'open', 'plain'] as const) {
      assert.equal((await world.ask(who, 'GET', { fields })).status, 200);
    }
    const sent = world.upstream.requests.map((request) => ({
      to: request.target,
      own: fieldValues(request.fields, 'authorization').filter((value) =>
        value.startsWith('Bearer'),
      ),
      proxy: fieldValues(request.fields, 'proxy-authorization').length,
    }));
    for (const { to, own, proxy } of sent) {
      assert.deepEqual(own, to.startsWith('/alice/') ? [] : ['Bearer own-token'], to);
      assert.equal(proxy, 0);
    }
  });

  test('R30 identity fields are removed in every spelling, case and number', async () => {
    await using world = await startWorld({
      listener: 'identityHeaders: [ X-Remote-User, X-Forwarded-User, X-Caller ]',
    });
    const names = [
      'X-Remote-User',
      'x-remote-user',
      'X_Remote_User',
      'X.Remote.User',
      'x-REMOTE_user',
      'X-Forwarded-User',
      'X_Forwarded-User',
      'X-Caller',
      'X_CALLER',
      'x.caller',
    ];
    for (const who of ['alice', 'open', 'plain'] as const) {
      await using client = await world.daemon.connect();
      const lines = names.flatMap((name) => [`${name}: mallory`, `${name}: again`]);
      await client.send(
        `GET /${who}/x HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\nX-Keep: yes\r\n${lines.join('\r\n')}\r\n\r\n`,
      );
      assert.equal((await client.response()).status, 200);
    }
    for (const { fields } of world.upstream.requests) {
      const left = fields.filter(([, value]) => value === 'mallory' || value === 'again');
      assert.deepEqual(left, []);
    }
    const kept = world.upstream.requests.filter(({ fields }) =>
      fields.some(([name]) => name === 'X-Keep'),
    );
    assert.equal(kept.length, 3);
  });

  test('R30 a field that Connection names ends here, and names no field of ours away', async () => {
    await using world = await startWorld();
    const fields = { Connection: 'X-Hop, Authorization, Host, Content-Length', 'X-Hop': '1' };
    const answer = await world.ask('alice', 'POST', { fields, body: Buffer.from('abc') });
    // Refusing such a list is as good as ignoring it.
    assert.ok([200, 400].includes(answer.status), String(answer.status));
    const hops = world.upstream.requests.filter(
      (request) => fieldValues(request.fields, 'x-hop').length > 0,
    );
    assert.deepEqual(hops, []);
    for (const { user, bodyLength } of world.writes) {
      assert.equal(user, USERS.alice);
      assert.equal(bodyLength, 3);
    }
  });

  test('R27 a Host field of the caller names neither the service nor the origin', async () => {
    await using world = await startWorld({
      listener: "hosts: [ 'evil.example' ]",
    });
    const answer = await world.ask('alice', 'GET', { fields: { Host: 'evil.example' } });
    assert.equal(answer.status, 200);
    const claims = world.upstream.journal.sockets.flatMap((socket) => socket.claims);
    assert.deepEqual(
      claims.map(({ spn }) => spn),
      ['HTTP/127.0.0.1'],
    );
    for (const request of world.upstream.requests) {
      assert.deepEqual(fieldValues(request.fields, 'host'), [`127.0.0.1:${world.upstream.port}`]);
    }
  });

  test('R27 the service name is the configured one', async () => {
    await using world = await startWorld({ auth: 'spn: HTTP/crm.corp.example' });
    await world.ask('alice');
    const claims = world.upstream.journal.sockets.flatMap((socket) => socket.claims);
    assert.deepEqual(
      claims.map(({ spn }) => spn),
      ['HTTP/crm.corp.example'],
    );
  });

  test('R28 a redirect is passed on and never followed', async () => {
    await using world = await startWorld({
      upstream: {
        handler: () => ({ status: 302, fields: [['Location', 'http://elsewhere.example/']] }),
      },
    });
    const answer = await world.ask('alice');
    assert.equal(answer.status, 302);
    assert.equal(answer.field('Location'), 'http://elsewhere.example/');
    assert.equal(world.executed.length, 1);
  });
});
