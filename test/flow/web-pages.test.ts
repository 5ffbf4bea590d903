/** config.md, "Web pages must not use us": who is a page of another origin, as a table (D19). */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorld } from './http-world.ts';

type Fields = Readonly<Record<string, string>>;

const OWN = 'OWN';
const WS = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Key': 'x' } as const;
const NAVIGATE = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' } as const;

const rows: [title: string, line: string, fields: Fields, status: number][] = [
  ['a program without these fields', 'POST /', {}, 200],
  [
    'a page of the listener itself',
    'POST /',
    { Origin: OWN, 'Sec-Fetch-Site': 'same-origin' },
    200,
  ],
  ['an old browser on a page of the listener', 'POST /', { Origin: OWN }, 200],
  ['a page of another origin', 'GET /', { Origin: 'https://evil.example' }, 403],
  ['a page of another port', 'GET /', { Origin: 'http://127.0.0.1:1' }, 403],
  ['a page of another scheme', 'GET /', { Origin: 'https://OWN' }, 403],
  ['a sandboxed page', 'POST /', { Origin: 'null' }, 403],
  ['an empty Origin', 'POST /', { Origin: '' }, 403],
  ['two origins in one field', 'POST /', { Origin: `${OWN}, ${OWN}` }, 403],
  [
    'a form of another site without Origin',
    'POST /',
    { 'Sec-Fetch-Site': 'cross-site', ...NAVIGATE },
    403,
  ],
  ['a page of the same site only', 'GET /', { 'Sec-Fetch-Site': 'same-site' }, 403],
  [
    'an image of another site',
    'GET /',
    { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' },
    403,
  ],
  ['a value that is unknown', 'GET /', { 'Sec-Fetch-Site': 'elsewhere' }, 403],
  ['the address bar', 'GET /', { 'Sec-Fetch-Site': 'none', ...NAVIGATE }, 200],
  ['a link that a person follows', 'GET /', { 'Sec-Fetch-Site': 'cross-site', ...NAVIGATE }, 200],
  [
    'a link in a frame',
    'GET /',
    { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' },
    403,
  ],
  ['a link with HEAD', 'HEAD /', { 'Sec-Fetch-Site': 'cross-site', ...NAVIGATE }, 403],
  [
    'a link that asks for an upgrade',
    'GET /',
    { 'Sec-Fetch-Site': 'cross-site', ...NAVIGATE, ...WS },
    403,
  ],
  ['a WebSocket of another origin', 'GET /', { Origin: 'http://evil.example', ...WS }, 403],
  ['a WebSocket of a sandboxed page', 'GET /', { Origin: 'null', ...WS }, 403],
  [
    'same-origin with a foreign Origin',
    'GET /',
    { Origin: 'http://evil.example', 'Sec-Fetch-Site': 'same-origin' },
    403,
  ],
  [
    'a page under a rebound name',
    'GET /',
    { Host: 'evil.example', Origin: 'http://evil.example', 'Sec-Fetch-Site': 'same-origin' },
    421,
  ],
  ['a rebound name without fields', 'GET /', { Host: 'evil.example' }, 421],
  ['a path without a route', 'GET /none', { Origin: 'https://evil.example' }, 403],
];

/** The fields of a row, with the origin of the listener in its place. */
function filled(fields: Fields, own: string): Fields {
  const entries = Object.entries(fields).map(([name, value]) => [
    name,
    value.replaceAll('https://OWN', `https://${own}`).replaceAll(/(?<!:\/\/)OWN/g, `http://${own}`),
  ]);
  return Object.fromEntries(entries) as Fields;
}

describe('a request over HTTP/2 that comes from', () => {
  // An upgrade cannot be asked for there.
  for (const [title, line, fields, status] of rows.filter(([, , { Upgrade }]) => !Upgrade)) {
    it(`${title} is ${status} (D19)`, async () => {
      await using world = await startWorld({
        listener: 'http2: true',
        handler: () => ({ body: 'secret' }),
      });
      await using client = await world.connectHttp2();
      const { Host, ...others } = filled(fields, world.daemon.authority());
      const authority = Host === undefined ? {} : { ':authority': Host };
      const answer = await client.ask(line, { ...others, ...authority });
      assert.equal(answer.status, status);
      assert.equal(world.upstream.requests.length, status === 200 ? 1 : 0);
      assert.deepEqual(answer.all('access-control-allow-origin'), []);
      if (status === 403) assert.match(answer.all('proxy-status')[0] ?? '', /web-page-refused/);
    });
  }
});

describe('a request that comes from', () => {
  for (const [title, line, fields, status] of rows) {
    it(`${title} is ${status} (D19)`, async () => {
      await using world = await startWorld({ handler: () => ({ body: 'secret' }) });
      const answer = await world.daemon.ask(line, filled(fields, world.daemon.authority()));
      assert.equal(answer.status, status);
      assert.equal(world.upstream.requests.length, status === 200 ? 1 : 0);
      assert.equal(answer.field('access-control-allow-origin'), undefined);
      if (status === 403) assert.match(answer.field('proxy-status') ?? '', /web-page-refused/);
    });
  }

  it('a WebSocket of the own origin is let through', async () => {
    await using world = await startWorld({ handler: () => ({ upgrade: 'websocket' }) });
    await using client = await world.connect();
    const Origin = `http://${world.daemon.authority()}`;
    await client.request('GET /', { Host: world.daemon.authority(), Origin, ...WS });
    assert.equal((await client.head()).status, 101);
  });

  it('two Origin fields is 403', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    const origin = `Origin: http://${world.daemon.authority()}\r\n`;
    await client.send(
      `GET / HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\n${origin}${origin}\r\n`,
    );
    assert.equal((await client.response()).status, 403);
  });

  it('an origin that the route allows is 200, and no other (allowOrigins)', async () => {
    await using world = await startWorld({
      route: "allowOrigins: ['https://app.example', 'http://localhost:3000']",
    });
    const ask = async (fields: Fields): Promise<number> =>
      (await world.daemon.ask('POST /', fields)).status;
    assert.equal(await ask({ Origin: 'https://app.example', 'Sec-Fetch-Site': 'cross-site' }), 200);
    assert.equal(await ask({ Origin: 'https://APP.example' }), 200);
    assert.equal(await ask({ Origin: 'http://localhost:3000' }), 200);
    assert.equal(await ask({ Origin: 'https://app.example:8443' }), 403);
    assert.equal(await ask({ Origin: 'http://app.example' }), 403);
    assert.equal(await ask({ Origin: 'https://app.example.evil.example' }), 403);
    assert.equal(await ask({ 'Sec-Fetch-Site': 'cross-site' }), 403);
    assert.equal(await ask({ Origin: 'null' }), 403);
  });

  it('another origin is refused on a unix socket too', async () => {
    const path = `${temporaryFolder()}/page.sock`;
    await using world = await startWorld({ listen: `'unix:${path}'` });
    await using client = await RawClient.connect({ socketPath: path });
    await client.request('GET /', { Host: 'any.example', Origin: 'http://evil.example' });
    assert.equal((await client.response()).status, 403);
    assert.equal(world.upstream.requests.length, 0);
  });

  it('another origin, and has a body, is not read as a request after the refusal', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    const inner = 'POST /evil HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n';
    const fields = { Origin: 'null', 'Content-Length': String(inner.length) };
    await client.request('POST /', fields, inner);
    assert.equal((await client.response()).status, 403);
    assert.equal((await client.untilEnd()).length, 0);
    assert.equal(world.upstream.requests.length, 0);
  });
});
