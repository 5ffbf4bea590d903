/** Callers by tickets, from their bytes to the upstream's and back; a stand-in says whose a ticket is. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RawResponse } from '../support/raw-client.ts';
import { Gate, until, within } from '../support/waiting.ts';
import { MAPPED, NegotiateWorld, proofOf, ticket } from './negotiate-world.ts';

const PLAIN = 'routes: [{ upstream: plain, forwardIdentity: X-Caller }]';

const userOf = (answer: RawResponse): string =>
  `${answer.status} ${answer.field('X-User') ?? ''}`.trimEnd();

const reasonOf = (answer: RawResponse): string =>
  /details="([^"]+)"/.exec(answer.field('Proxy-Status') ?? '')?.[1] ?? '';

describe('a caller with a ticket', () => {
  test('is mapped by his name; who has no rule is refused', async () => {
    await using world = await NegotiateWorld.start();
    assert.equal(userOf(await world.ask(ticket('alice 1'))), '200 LAB\\alice');
    assert.equal(userOf(await world.ask(ticket('bob 1'))), '200 LAB\\bob');
    const carol = await world.ask(ticket('carol 1'));
    assert.deepEqual([carol.status, reasonOf(carol)], [403, 'no-principal']);
    assert.equal(carol.field('WWW-Authenticate'), proofOf('carol 1'));
    const asked = await world.ask();
    assert.deepEqual([asked.status, asked.all('WWW-Authenticate')], [401, ['Negotiate']]);
  });

  test('R30 is told to the upstream by name, and his token is not', async () => {
    const seen: string[] = [];
    await using world = await NegotiateWorld.start({
      listener: PLAIN,
      handler: (request) => {
        seen.push(`${request.field('x-caller')} ${request.field('authorization')}`);
        return { body: 'x' };
      },
    });
    assert.equal((await world.ask(ticket('alice 1'))).status, 200);
    assert.equal((await world.ask({ ...ticket('bob 1'), 'X-Caller': 'alice@LAB' })).status, 200);
    assert.deepEqual(seen, ['alice@LAB undefined', 'bob@LAB undefined']);
  });

  test('brings a ticket for each request, also for those that wait behind one another', async () => {
    await using world = await NegotiateWorld.start();
    await using client = await world.connect();
    const host = { Host: world.daemon.authority() };
    const names = ['alice 1', 'bob 1', 'alice 2', 'alice 1', 'bob 2'];
    await Promise.all(names.map((name) => client.request('GET /x', { ...host, ...ticket(name) })));
    const answers: string[] = [];
    for (const name of names.slice(0, 4)) {
      const answer = await within(client.response(), `an answer to ${name}`);
      answers.push(userOf(answer));
      const proof = answer.status === 200 ? proofOf(name) : 'Negotiate';
      assert.equal(answer.field('WWW-Authenticate'), proof);
    }
    // A refusal ends the connection.
    assert.deepEqual(answers, ['200 LAB\\alice', '200 LAB\\bob', '200 LAB\\alice', '401']);
    await client.gone();
  });

  test('is no web page of another origin', async () => {
    await using world = await NegotiateWorld.start();
    const answer = await world.ask({ ...ticket('alice 1'), Origin: 'https://evil.example' });
    assert.deepEqual([answer.status, reasonOf(answer)], [403, 'web-page-refused']);
    assert.deepEqual(world.helpers.shown, []);
  });

  test('keeps the body that came with the request while somebody is asked', async () => {
    await using world = await NegotiateWorld.start();
    world.helpers.gate = new Gate();
    await using client = await world.connect();
    const body = 'x'.repeat(100_000);
    const fields = { Host: world.daemon.authority(), ...ticket('alice 1') };
    const sent = client.request('POST /x', { ...fields, 'Content-Length': '100000' }, body);
    await until(() => world.helpers.shown.length === 1, 'somebody is asked');
    assert.equal(world.upstream.requests.length, 0);
    world.helpers.gate.open();
    assert.equal((await within(client.response('POST'), 'the answer')).status, 200);
    await sent;
    const posts = world.upstream.requests.filter(
      ({ method, status }) => method === 'POST' && status === 200,
    );
    assert.deepEqual(
      posts.map(({ bodyLength }) => bodyLength),
      [100_000],
    );
  });
});

describe('the token of the acceptor', () => {
  test('goes with the answer of the upstream, whatever its status, and only once', async () => {
    const basic = 'Basic realm="app"';
    await using world = await NegotiateWorld.start({
      listener: PLAIN,
      handler: ({ target }) => {
        const status = Number(target.slice(1));
        const fields = [
          ['WWW-Authenticate', 'Negotiate dXBzdHJlYW0='],
          ['Persistent-Auth', 'true'],
          ...(status === 401 ? [['WWW-Authenticate', basic]] : []),
        ] as [string, string][];
        return { status, fields, interim: [{ status: 103, fields }], body: 'x' };
      },
    });
    await using client = await world.connect();
    for (const status of [200, 204, 302, 401, 404, 500]) {
      const text = `alice ${status}`;
      const answer = await world.on(client, ticket(text), `GET /${status}`);
      assert.equal(answer.status, status);
      const challenges = status === 401 ? [basic, proofOf(text)] : [proofOf(text)];
      assert.deepEqual(answer.all('WWW-Authenticate').toSorted(), challenges.toSorted());
      assert.equal(answer.field('Persistent-Auth'), 'false');
      const early = answer.interim.flatMap(({ fields }) => fields.map(([name]) => name));
      assert.ok(!early.some((name) => /^(?:www|persistent)-auth/i.test(name)));
    }
  });

  test('goes with answers of our own, and with a protocol switch', async () => {
    await using world = await NegotiateWorld.start({
      listener: `routes:
      - { path: /away/, upstream: away }
      - { path: /slash/, upstream: plain }
      - { path: /ws/, upstream: plain }`,
      handler: () => ({ upgrade: 'websocket' }),
    });
    for (const [path, status] of [
      ['/away/x', 502],
      ['/slash', 308],
      ['/nowhere', 404],
      ['/slash/%2e%2e/x', 400],
    ] as const) {
      const answer = await world.ask(ticket(`alice ${path}`), `GET ${path}`);
      assert.equal(answer.status, status);
      assert.equal(answer.field('WWW-Authenticate'), proofOf(`alice ${path}`), path);
    }
    const upgrade = {
      ...ticket('alice ws'),
      Connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Version': '13',
    };
    await using client = await world.connect();
    await client.request('GET /ws/', { Host: world.daemon.authority(), ...upgrade });
    const { status, fields } = await client.head();
    assert.equal(status, 101);
    assert.ok(fields.some(([, value]) => value === proofOf('alice ws')));
  });

  test('is not in the answer to a next request that is none', async () => {
    await using world = await NegotiateWorld.start();
    await using client = await world.connect();
    assert.equal((await world.on(client, ticket('alice 1'))).status, 200);
    await client.send('GET\r\n\r\n');
    const answer = await client.response();
    assert.deepEqual([answer.status, answer.all('WWW-Authenticate')], [400, []]);
  });
});

describe('an acceptor', () => {
  test('R32 is asked once about a request that a reload overtakes', async () => {
    await using world = await NegotiateWorld.start();
    world.helpers.gate = new Gate();
    await using client = await world.connect();
    await client.request('GET /x', { Host: world.daemon.authority(), ...ticket('alice 1') });
    await until(() => world.helpers.shown.length === 1, 'somebody is asked');
    const report = await world.daemon.reload((text) => text.replace('use: alice', 'use: bob'));
    assert.equal(report.result, 'ok');
    world.helpers.gate.open();
    assert.equal(userOf(await within(client.response(), 'the answer')), '200 LAB\\bob');
    assert.deepEqual(world.helpers.shown, ['alice 1']);
  });

  test('R32 that dies takes its tokens with it; its successor takes fresh ones', async () => {
    await using world = await NegotiateWorld.start();
    world.helpers.gate = new Gate();
    const lost = world.ask(ticket('alice 1'));
    await until(() => world.helpers.shown.length === 1, 'somebody is asked');
    world.helpers.kill();
    const answer = await lost;
    assert.deepEqual([answer.status, reasonOf(answer)], [503, 'acceptor-unavailable']);
    assert.deepEqual([answer.field('Retry-After'), answer.all('WWW-Authenticate')], ['1', []]);
    world.helpers.gate = undefined;
    assert.equal(userOf(await world.ask(ticket('alice 2'))), '200 LAB\\alice');
    assert.deepEqual(world.helpers.shown, ['alice 1', 'alice 2']);
    const metrics = await world.daemon.metrics();
    const failed = { client: 'negotiate', result: 'failed' };
    assert.equal(metrics.sum('sidekerb_inbound_auth_total', failed), 1);
    assert.equal(metrics.sum('sidekerb_kerberos_helper_restarts_total'), 1);
  });

  test('is waited for by nobody whose caller has gone', async () => {
    await using world = await NegotiateWorld.start();
    world.helpers.gate = new Gate();
    const client = await world.connect();
    await client.request('GET /x', { Host: world.daemon.authority(), ...ticket('alice 1') });
    await until(() => world.helpers.shown.length === 1, 'somebody is asked');
    client.reset();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
      'the connection is gone',
    );
    world.helpers.gate.open();
    assert.equal(userOf(await world.ask(ticket('bob 1'))), '200 LAB\\bob');
    const users = new Set(world.upstream.requests.flatMap(({ user }) => user ?? []));
    assert.deepEqual([...users], ['LAB\\bob']);
  });
});

describe('beside other kinds of callers', () => {
  test('the first kind that finds its credentials decides, and all are asked for', async () => {
    await using world = await NegotiateWorld.start({
      clients: ', basic: { pass: true, realm: LAB }',
      listener: 'routes: [{ upstream: plain }]',
      handler: () => ({ body: 'x' }),
    });
    const asked = await world.ask();
    assert.deepEqual(asked.all('WWW-Authenticate'), [
      'Negotiate',
      'Basic realm="LAB", charset="UTF-8"',
    ]);
    const basic = { Authorization: `Basic ${Buffer.from('carol:x').toString('base64')}` };
    assert.equal((await world.ask(basic)).status, 200);
    assert.equal((await world.ask(ticket('alice 1'))).status, 200);
    assert.equal((await world.ask(ticket('wrong 1'))).status, 401);
  });
});

describe('a ticket for a connection', () => {
  const client = ', persist: connection, directClients: true';

  test('names the caller of later requests, pipelined ones too, until another one comes', async () => {
    await using world = await NegotiateWorld.start({ client });
    await using connection = await world.connect();
    const host = { Host: world.daemon.authority() };
    const all = [ticket('alice 1'), {}, {}, ticket('bob 1'), {}];
    await Promise.all(all.map((fields) => connection.request('GET /x', { ...host, ...fields })));
    const users: string[] = [];
    for (let i = 0; i < all.length; i += 1) {
      users.push(userOf(await within(connection.response(), 'an answer')));
    }
    assert.deepEqual(users, [...Array(3).fill('200 LAB\\alice'), ...Array(2).fill('200 LAB\\bob')]);
    assert.deepEqual(world.helpers.shown, ['alice 1', 'bob 1']);
    assert.equal((await world.ask()).status, 401);
  });

  test('maps him by the rules in force, and ends when it is not taken any more', async () => {
    await using world = await NegotiateWorld.start({ client });
    await using connection = await world.connect();
    assert.equal(userOf(await world.on(connection, ticket('alice 1'))), '200 LAB\\alice');
    await world.daemon.reload((text) => text.replace('use: alice', 'use: bob'));
    assert.equal(userOf(await world.on(connection)), '200 LAB\\bob');
    await world.daemon.reload((text) => text.replace(client, ''));
    assert.equal(userOf(await world.on(connection)), '401');
  });
});

describe('on a forward listener', () => {
  const forward = (port: number): string => `mode: forward
    allow: ['127.0.0.1:${port}']`;

  test('tickets are for the proxy, and Authorization is for the origin', async () => {
    const seen: (string | undefined)[] = [];
    await using world = await NegotiateWorld.start({
      listener: MAPPED,
      handler: (request) => {
        seen.push(request.field('authorization'), request.field('proxy-authorization'));
        return { body: 'x' };
      },
    });
    const { port } = world.upstream;
    await world.daemon.reload((text) => text.replace(MAPPED, forward(port)));
    const line = `GET http://127.0.0.1:${port}/x`;
    const host = { Host: `127.0.0.1:${port}` };
    const asked = await world.ask({ ...host, ...ticket('alice 1') }, line);
    assert.deepEqual([asked.status, asked.all('Proxy-Authenticate')], [407, ['Negotiate']]);
    const own = {
      ...host,
      Authorization: 'Basic eDp5',
      ...ticket('alice 1', 'Proxy-Authorization'),
    };
    const answer = await world.ask(own, line);
    assert.deepEqual(
      [answer.status, answer.field('Proxy-Authenticate'), answer.field('Persistent-Auth')],
      [200, proofOf('alice 1'), undefined],
    );
    assert.deepEqual(seen, ['Basic eDp5', undefined]);
    await using client = await world.connect();
    await client.request(`CONNECT 127.0.0.1:${port}`, {
      ...host,
      ...ticket('bob 1', 'Proxy-Authorization'),
    });
    const opened = await client.head();
    assert.deepEqual(opened.fields, [['Proxy-Authenticate', proofOf('bob 1')]]);
  });
});
