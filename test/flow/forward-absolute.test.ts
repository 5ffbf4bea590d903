/** Absolute-form requests of callers, straight to their targets. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { UpstreamRequest } from '../support/upstream-options.ts';
import { startForward } from './forward-world.ts';

const fieldsOf = (request: UpstreamRequest): { body: string } => ({
  body: JSON.stringify(request.fields),
});

for (const engine of ['handle', 'public'] as const) {
  describe(`an absolute-form request (engine ${engine})`, () => {
    it('reaches its target in origin-form, with Via, on connections that are kept', async () => {
      await using world = await startForward({ engine });
      await using client = await world.connect();
      for (const path of ['/a', '/b?x=1']) {
        await client.request(`GET http://${world.authority}${path}`, { Host: world.authority });
        assert.equal((await client.response()).status, 200);
      }
      const [socket, ...others] = world.upstream.journal.sockets;
      assert.deepEqual(others, []);
      assert.deepEqual(
        socket?.requests.map(({ target }) => target),
        ['/a', '/b?x=1'],
      );
      const metrics = await world.daemon.metrics();
      const direct = { upstream: 'direct' };
      assert.equal(metrics.sum('sidekerb_requests_total', { ...direct, class: '2xx' }), 2);
      assert.equal(
        metrics.sum('sidekerb_pool_lease_requests_total', { ...direct, result: 'hit' }),
        1,
      );
    });

    it('carries bodies both ways', async () => {
      await using world = await startForward({ engine });
      const body = Buffer.alloc(1_500_000, 'body ');
      await using client = await world.connect();
      const length = { 'Content-Length': String(body.length) };
      await client.request(`PUT http://${world.authority}/up`, length, body);
      const answer = (await client.response()).json() as { bodySha256: string };
      assert.equal(answer.bodySha256, createHash('sha256').update(body).digest('hex'));
    });
  });
}

describe('the target of an absolute-form request', () => {
  const rows: readonly (readonly [method: string, path: string, becomes: string])[] = [
    ['GET', '', '/'],
    ['GET', '/', '/'],
    ['GET', '?q=/x', '/?q=/x'],
    ['GET', '//a/../b/%2e', '//a/../b/%2e'],
    ['OPTIONS', '', '*'],
    ['OPTIONS', '/', '/'],
    ['OPTIONS', '?q', '/?q'],
    ['PROPFIND', '/dav', '/dav'],
  ];
  for (const [method, path, becomes] of rows) {
    it(`${method} with "${path}" behind its authority is ${becomes}`, async () => {
      await using world = await startForward();
      assert.equal((await world.ask(path, {}, method)).status, 200);
      const seen = world.upstream.requests.map((request) => [request.method, request.target]);
      assert.deepEqual(seen, [[method, becomes]]);
    });
  }

  it('wins over Host, for each request of a connection (D4, R53)', async () => {
    await using world = await startForward({ handler: fieldsOf });
    await using other = await startForward({ handler: () => ({ body: 'other' }) });
    await using client = await world.connect();
    const own = `http://${world.authority}/`;
    await client.request(`GET ${own}`, { Host: 'evil.example' });
    const fields = new Map((await client.response()).json() as [string, string][]);
    const lower = new Map([...fields].map(([name, value]) => [name.toLowerCase(), value]));
    assert.equal(lower.get('host'), world.authority);
    // What the origin is told of the caller's request is no world way to lie.
    assert.equal(lower.get('x-forwarded-host'), world.authority);
    await client.request(`GET http://${other.authority}/`, { Host: world.authority });
    assert.equal((await client.response()).body.toString(), 'other');
    await client.request(`GET ${own}`, { Host: other.authority });
    assert.notEqual((await client.response()).body.toString(), 'other');
  });

  it('is one however its host is written, and looked up once a dial', async () => {
    await using world = await startForward();
    await using client = await world.connect();
    for (const host of ['origin.test', 'ORIGIN.test', 'origin.test.']) {
      await client.request(`GET http://${host}:${world.upstream.port}/`);
      assert.equal((await client.response()).status, 200);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
    assert.deepEqual(world.lookups, ['origin.test']);
  });

  it('has connections of its own host and port (D11)', async () => {
    await using world = await startForward({
      names: { 'other.test': ['127.0.0.1'] },
      allow: "['*:*']",
      listener: 'private: true',
    });
    await using client = await world.connect();
    for (const host of ['origin.test', 'other.test', '127.0.0.1']) {
      await client.request(`GET http://${host}:${world.upstream.port}/`);
      assert.equal((await client.response()).status, 200);
    }
    assert.equal(world.upstream.journal.sockets.length, 3);
  });
});

describe('fields of an absolute-form request', () => {
  const seen = async (
    fields: Readonly<Record<string, string>>,
    listener?: string,
  ): Promise<ReadonlyMap<string, string>> => {
    await using world = await startForward({
      handler: fieldsOf,
      ...(listener === undefined ? {} : { listener }),
    });
    const answer = await world.ask('/', { Host: world.authority, ...fields });
    assert.equal(answer.status, 200);
    const pairs = answer.json() as [string, string][];
    return new Map(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  };

  it('that are the callers own credentials for the origin go through', async () => {
    const authorization = 'Basic YWxpY2U6c2VjcmV0';
    assert.equal(
      (await seen({ Authorization: authorization })).get('authorization'),
      authorization,
    );
  });

  it('that are for a proxy, name an identity, or end at this hop, do not', async () => {
    const fields = await seen({
      'Proxy-Authorization': 'Basic eDp5',
      'Proxy-Connection': 'keep-alive',
      'X-Remote-User': 'root',
      X_Forwarded_User: 'root',
      Connection: 'X-Mine',
      'X-Mine': '1',
      'X-Real-IP': '1.2.3.4',
      TE: 'trailers',
    });
    for (const name of fields.keys()) {
      assert.doesNotMatch(name, /^proxy-|user$|^x-mine|^connection|^te$|^x-real-ip/, name);
    }
    assert.match(fields.get('via') ?? '', /^1\.1 sidekerb-[0-9a-f]{12}$/);
  });

  it('tell who called, as on any listener, or nothing where the file says so', async () => {
    const told = await seen({ 'X-Forwarded-For': '6.6.6.6' });
    assert.equal(told.get('x-forwarded-for'), '127.0.0.1');
    assert.equal(told.get('x-forwarded-proto'), 'http');
    const silent = await seen({ 'X-Forwarded-For': '6.6.6.6' }, 'forwarded: { send: none }');
    assert.equal(
      [...silent.keys()].some((name) => name.startsWith('x-forwarded')),
      false,
    );
    const both = await seen({ Host: 'evil.example' }, 'forwarded: { send: both }');
    assert.match(
      both.get('forwarded') ?? '',
      /^for=127\.0\.0\.1;proto=http;host="127\.0\.0\.1:\d+"$/,
    );
    const trusted = await seen(
      { Forwarded: 'for=9.9.9.9' },
      'forwarded: { send: both, trust: [127.0.0.1] }',
    );
    assert.match(trusted.get('forwarded') ?? '', /^for=9\.9\.9\.9, for=127\.0\.0\.1;.*host="127\./);
  });
});

describe('an absolute-form request is refused', () => {
  it('when it came back to us (D18)', async () => {
    await using world = await startForward({ handler: fieldsOf });
    const pairs = (await world.ask('/')).json() as [string, string][];
    const via = pairs.find(([name]) => name === 'Via')?.[1] ?? '';
    const answer = await world.ask('/', { Via: `1.0 other, ${via}` });
    assert.equal(answer.status, 508);
    assert.match(answer.field('proxy-status') ?? '', /loop-detected/);
    await using client = await world.connect();
    await client.request(`CONNECT ${world.authority}`, { Via: via });
    assert.equal((await client.response()).status, 508);
    assert.equal(world.upstream.requests.length, 1);
  });

  it('when a web page of another origin made it', async () => {
    await using world = await startForward();
    const own = `http://${world.authority}`;
    const rows: readonly (readonly [fields: Record<string, string>, status: number])[] = [
      [{ Origin: own }, 200],
      [{ Origin: 'http://evil.example' }, 403],
      [{ Origin: 'null' }, 403],
      [{ Origin: own, 'Sec-Fetch-Site': 'same-origin' }, 200],
      [{ 'Sec-Fetch-Site': 'cross-site' }, 403],
      [{ 'Sec-Fetch-Site': 'none' }, 200],
      [
        {
          'Sec-Fetch-Site': 'cross-site',
          'Sec-Fetch-Mode': 'navigate',
          'Sec-Fetch-Dest': 'document',
        },
        200,
      ],
    ];
    for (const [fields, status] of rows) {
      assert.equal((await world.ask('/', fields)).status, status, JSON.stringify(fields));
    }
  });

  it('with 502 or 504 where the target cannot be reached, and the connection lives on', async () => {
    await using world = await startForward({ allow: "['127.0.0.1:*', 'nowhere.test:*']" });
    await using client = await world.connect();
    await client.request('GET http://nowhere.test/');
    assert.equal((await client.response()).status, 502);
    await client.request('GET http://127.0.0.1:1/');
    assert.equal((await client.response()).status, 502);
    await client.request(`GET http://${world.authority}/`);
    assert.equal((await client.response()).status, 200);
  });
});

describe('an answer to an absolute-form request', () => {
  it('keeps its status, and its challenges where the caller has a connection of his own', async () => {
    await using world = await startForward({
      handler: () => ({
        status: 401,
        fields: [
          ['WWW-Authenticate', 'Negotiate'],
          ['WWW-Authenticate', 'NTLM'],
          ['WWW-Authenticate', 'Basic realm="x"'],
        ],
      }),
    });
    const answer = await world.ask('/');
    assert.equal(answer.status, 401);
    assert.deepEqual(answer.all('www-authenticate'), ['Negotiate', 'NTLM', 'Basic realm="x"']);
    assert.equal(answer.field('proxy-support'), 'Session-Based-Authentication');
    await world.ask('/');
    // A connection that was asked for such a login serves no second request (R19).
    assert.equal(world.upstream.journal.sockets.length, 2);
  });

  it('of 407 is no answer of an origin (E18)', async () => {
    await using world = await startForward({
      handler: () => ({ status: 407, fields: [['Proxy-Authenticate', 'Basic realm="x"']] }),
    });
    const answer = await world.ask('/');
    assert.equal(answer.status, 502);
    assert.equal(answer.field('proxy-authenticate'), undefined);
  });

  it('may switch to a WebSocket, and to nothing else', async () => {
    await using world = await startForward({
      handler: ({ field }) =>
        field('upgrade') === undefined ? { body: '' } : { upgrade: 'websocket' },
    });
    const fields = { Connection: 'Upgrade', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' };
    await using client = await world.connect();
    await client.request(`GET http://${world.authority}/`, { ...fields, Upgrade: 'websocket' });
    assert.equal((await client.head()).status, 101);
    assert.equal((await world.ask('/', { ...fields, Upgrade: 'h2c' })).status, 200);
  });
});
