/** Field lines on their way through: what stays byte for byte, what ends here, what is added. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import type { Fields } from '../support/strict-http.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorld, type World, type WorldSetup } from './http-world.ts';

/** Sends one request with these lines as they are, and answers the lines that the upstream saw. */
async function seen(world: World, lines: readonly string[], client?: RawClient): Promise<Fields> {
  await using own = client ?? (await world.connect());
  const fields = lines.map((line) => `${line}\r\n`).join('');
  await own.send(`GET / HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n`);
  const { status } = await own.response();
  assert.equal(status, 200);
  return world.upstream.requests.at(-1)?.fields ?? [];
}

const ADDED = /^(?:host|via|x-forwarded-|forwarded$)/i;
const others = (fields: Fields): string[] =>
  fields.filter(([name]) => !ADDED.test(name)).map(([name, value]) => `${name}: ${value}`);
const named = (fields: Fields, pattern: RegExp): string[] =>
  fields.filter(([name]) => pattern.test(name)).map(([name, value]) => `${name}: ${value}`);

describe('fields of a request', () => {
  it('keep order, case and value, also when they are repeated', async () => {
    await using world = await startWorld();
    const lines = [
      'uSer-agEnt: A/1 (b; c)',
      'X-Many: 1',
      'Cookie: a=1; b="2"',
      'x-many: 2',
      'Accept: */*;q=0.1,text/html',
      'X-Latin: caf\xe9',
      'X-Many: 3',
      'Range: bytes=0-',
      'X_Under.Score: 1',
      'Max-Forwards: 3',
    ];
    assert.deepEqual(others(await seen(world, lines)), lines);
  });

  it('that are hop-by-hop, or named by Connection, end here', async () => {
    await using world = await startWorld();
    const fields = await seen(world, [
      'Connection: keep-alive, X-Hop, x-other-hop',
      'X-Hop: 1',
      'X-OTHER-HOP: 2',
      'X-Hop: 3',
      'Keep-Alive: timeout=5',
      'Proxy-Connection: keep-alive',
      'TE: trailers',
      'Trailer: X-T',
      'Upgrade: h2c',
      'HTTP2-Settings: AAA',
      'Proxy-Authorization: Basic eDp5',
      'X-End: goes on',
    ]);
    assert.deepEqual(others(fields), ['X-End: goes on']);
  });

  it('that decide who asks or how much cannot be named by Connection (B3)', async () => {
    await using world = await startWorld();
    for (const name of ['host', 'content-length', 'authorization', 'x-remote-user', 'Origin']) {
      await using client = await world.connect();
      await client.request('GET /', { Connection: name });
      assert.equal((await client.response()).status, 400, name);
    }
    assert.equal(world.upstream.requests.length, 0);
  });

  it('that claim an identity are removed in every spelling (B2, R30)', async () => {
    await using world = await startWorld({
      listener: 'identityHeaders: [X-Remote-User, X-Caller]',
    });
    const fields = await seen(world, [
      'X-Remote-User: root',
      'x-remote-user: root',
      'X_Remote_User: root',
      'X.Remote.User: root',
      'x_remote-user: root',
      'X-Remote-User : root'.replace(' :', ':'),
      'X-Caller: root',
      'x_CALLER: root',
      'X-Remote-Users: stays',
    ]);
    assert.deepEqual(others(fields), ['X-Remote-Users: stays']);
  });

  it("keep the caller's Authorization, except where we log in ourselves (R30)", async () => {
    const basic = 'Authorization: Basic eDp5';
    await using open = await startWorld();
    assert.deepEqual(named(await seen(open, [basic]), /^authorization$/i), [basic]);
    await using login = await startWorld({ login: true });
    for (let nth = 0; nth < 2; nth += 1) await seen(login, [basic]);
    const sent = login.upstream.requests.flatMap(({ fields }) => named(fields, /^authorization$/i));
    assert.ok(sent.every((line) => line.startsWith('Authorization: NTLM ')));
    assert.equal(sent.length, 2);
  });

  it("of a caller's own NTLM or Negotiate login are refused with 403", async () => {
    await using world = await startWorld();
    for (const scheme of ['NTLM TlRMTVNTUAAB', 'negotiate YII=', 'Kerberos x', 'NTLM']) {
      const { status, field } = await world.daemon.ask('GET /', { Authorization: scheme });
      assert.equal(status, 403);
      assert.match(field('proxy-status') ?? '', /caller-credentials-refused/);
    }
    assert.equal(world.upstream.requests.length, 0);
  });

  it("have the Host of the upstream, or the caller's with host: client", async () => {
    await using own = await startWorld();
    assert.deepEqual(named(await seen(own, []), /^host$/i), [
      `Host: 127.0.0.1:${own.upstream.port}`,
    ]);
    await using client = await startWorld({ upstreamKeys: 'host: client' });
    assert.deepEqual(named(await seen(client, []), /^host$/i), ['Host: localhost']);
  });

  it('end with Via; a request that comes back is 508 (D18)', async () => {
    await using world = await startWorld();
    const via = named(await seen(world, ['Via: 1.0 fred, 1.1 p.example']), /^via$/i);
    assert.equal(via[0], 'Via: 1.0 fred, 1.1 p.example');
    assert.match(via[1] ?? '', /^Via: 1\.1 sidekerb-[0-9a-f]{12}$/);
    for (const value of [via[1]?.slice(5) ?? '', `1.1 x, ${via[1]?.slice(5) ?? ''}, 1.1 y`]) {
      const { status, field } = await world.daemon.ask('GET /', { Via: value });
      assert.equal(status, 508);
      assert.match(field('proxy-status') ?? '', /proxy_loop_detected/);
    }
    assert.equal(world.upstream.requests.length, 1);
  });
});

const OWN = [
  'X-Forwarded-For: 127.0.0.1',
  'X-Forwarded-Proto: http',
  'X-Forwarded-Host: localhost',
];
const FORWARDED = 'Forwarded: for=127.0.0.1;proto=http;host="localhost"';
const CLAIMS = [
  'X-Forwarded-For: 192.0.2.1',
  'X-Forwarded-Proto: https',
  'X-Forwarded-Host: a.example',
  'X-Forwarded-Port: 444',
  'X_Forwarded_For: 192.0.2.2',
  'X-Real-IP: 192.0.2.3',
  'x_real_ip: 192.0.2.4',
  'Forwarded: for=192.0.2.5',
];
const FORWARDING = /^x[-_.]forwarded|^forwarded$|^x[-_.]real/i;

describe('forwarding fields', () => {
  const rows: [title: string, listener: string, becomes: readonly string[]][] = [
    ['of an untrusted caller are replaced', 'forwarded: {}', OWN],
    ['may be Forwarded alone', 'forwarded: { send: forwarded }', [FORWARDED]],
    ['may be both', 'forwarded: { send: both }', [...OWN, FORWARDED]],
    ['may be none', 'forwarded: { send: none }', []],
    [
      'of a trusted caller are appended to',
      'forwarded: { trust: [127.0.0.0/8] }',
      [...CLAIMS.slice(1), 'X-Forwarded-For: 192.0.2.1, 127.0.0.1'],
    ],
    [
      'of a trusted caller are appended to in Forwarded',
      "forwarded: { trust: ['127.0.0.1'], send: forwarded }",
      [
        ...CLAIMS.slice(0, -1),
        'Forwarded: for=192.0.2.5, for=127.0.0.1;proto=http;host="localhost"',
      ],
    ],
    [
      'of a trusted caller stay with send: none',
      'forwarded: { trust: [127.0.0.1], send: none }',
      CLAIMS,
    ],
    [
      'of a caller outside of the trusted range are replaced',
      'forwarded: { trust: [10.0.0.0/8] }',
      OWN,
    ],
  ];
  for (const [title, listener, becomes] of rows) {
    it(title, async () => {
      await using world = await startWorld({ listener });
      assert.deepEqual(named(await seen(world, CLAIMS), FORWARDING), becomes);
    });
  }

  it('of a trusted caller who sends none are ours', async () => {
    await using world = await startWorld({
      listener: 'forwarded: { trust: [127.0.0.1], send: both }',
    });
    assert.deepEqual(named(await seen(world, []), FORWARDING), [...OWN, FORWARDED]);
  });

  it('of a unix socket name nobody, and nobody there is trusted', async () => {
    const path = `${temporaryFolder()}/fields.sock`;
    const listener = 'forwarded: { trust: [127.0.0.0/8], send: both }';
    await using world = await startWorld({ listen: `'unix:${path}'`, listener });
    const client = await RawClient.connect({ socketPath: path });
    assert.deepEqual(named(await seen(world, CLAIMS, client), FORWARDING), [
      'X-Forwarded-For: unknown',
      ...OWN.slice(1),
      'Forwarded: for=unknown;proto=http;host="localhost"',
    ]);
  });
});

describe('fields of an answer', () => {
  const answering = (lines: string[], more: WorldSetup = {}): Promise<World> =>
    startWorld({
      handler: () => ({
        raw: `HTTP/1.1 200 OK\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\nok`,
      }),
      ...more,
    });

  it('keep order, case and value; hop-by-hop ones end here', async () => {
    const lines = [
      'dAte: Thu, 01 Jan 2026 00:00:00 GMT',
      'Set-Cookie: a=1; Path=/',
      'X-A: 1',
      'sEt-cookie: b=2, 3',
      'Content-Length: 2',
      'x-a: 2',
      'ETag: W/"x"',
    ];
    const hop = [
      'Connection: X-Hop, keep-alive',
      'X-Hop: 1',
      'Keep-Alive: timeout=5',
      'Proxy-Connection: keep-alive',
      'Trailer: X-T',
      'Proxy-Authenticate: Basic realm="x"',
      'Persistent-Auth: true',
    ];
    const mixed = [...hop.slice(0, 3), ...lines, ...hop.slice(3)];
    await using world = await answering(mixed);
    await using client = await world.connect();
    for (let nth = 0; nth < 2; nth += 1) {
      await client.request('GET /');
      const { fields } = await client.response();
      assert.deepEqual(
        fields.map(([name, value]) => `${name}: ${value}`),
        lines,
      );
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('that name framing cannot be removed by Connection: 502', async () => {
    await using world = await answering(['Connection: content-length', 'Content-Length: 2']);
    assert.equal((await world.daemon.ask('GET /')).status, 502);
  });

  it('never hold a challenge that would tie a socket to the caller', async () => {
    const challenges = [
      'WWW-Authenticate: Negotiate',
      'WWW-Authenticate: NTLM, Basic realm="a b"',
      'WWW-Authenticate: Digest realm="x", nonce="y"',
    ];
    const handler: WorldSetup['handler'] = () => ({
      status: 401,
      fields: challenges.map((line) => ['WWW-Authenticate', line.slice(18)] as const),
      body: 'no',
    });
    await using world = await startWorld({ handler });
    const { status, all, body } = await world.daemon.ask('GET /');
    assert.deepEqual([status, body.toString()], [401, 'no']);
    assert.deepEqual(all('www-authenticate').toSorted(), [
      'Basic realm="a b"',
      'Digest realm="x", nonce="y"',
    ]);
  });

  it('and its status line are passed on, whatever they say (E13)', async () => {
    for (const [line, status, reason] of [
      ['299 My Reason', 299, 'My Reason'],
      ['600 Beyond', 600, 'Beyond'],
      ['999 ', 999, ''],
      ['200 caf\xe9', 200, 'caf\xe9'],
    ] as const) {
      await using world = await startWorld({
        handler: () => ({ raw: `HTTP/1.1 ${line}\r\nContent-Length: 2\r\n\r\nok` }),
      });
      const answer = await world.daemon.ask('GET /');
      assert.deepEqual(
        [answer.status, answer.reason, answer.body.toString()],
        [status, reason, 'ok'],
      );
    }
  });

  it('of an HTTP/1.0 upstream come as HTTP/1.1 (E17)', async () => {
    await using world = await startWorld({
      handler: () => ({ version: '1.0', body: 'old', framing: 'close', silent: true }),
    });
    const { version, body, field } = await world.daemon.ask('GET /');
    assert.deepEqual(
      [version, body.toString(), field('transfer-encoding')],
      ['1.1', 'old', 'chunked'],
    );
  });
});
