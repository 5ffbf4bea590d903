/**
 * Hostile requests (hostile-inputs.md C, D, G10) as HTTP/2 frames through a running daemon whose upstream
 * socket is logged in: refused, or the stream reset, and nothing of it at the upstream. What a framing
 * row of HTTP/1.1 can say in HTTP/2 has its number here.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fieldValue } from '../support/strict-http.ts';
import { startWorld } from '../flow/http-world.ts';
import { FLAG, FRAME, frame, FrameClient } from '../support/h2-frames.ts';

type Fields = readonly (readonly [string, string])[];
const RESET = 'reset';

const POST: readonly [string, string] = [':method', 'POST'];
const path = (value: string): Fields => [[':path', value]];
const authority = (value: string): Fields => [[':authority', value]];

const rows: [title: string, fields: Fields, outcome: number | 'reset'][] = [
  ['C1 C4 Transfer-Encoding', [['transfer-encoding', 'chunked']], RESET],
  ['C1 both framings', [POST, ['transfer-encoding', 'chunked'], ['content-length', '0']], RESET],
  [
    'C2 two equal Content-Length',
    [
      ['content-length', '0'],
      ['content-length', '0'],
    ],
    RESET,
  ],
  ['C2 a list of Content-Length', [['content-length', '0, 0']], RESET],
  ['C3 Content-Length +3', [['content-length', '+3']], RESET],
  ['C3 Content-Length -1', [['content-length', '-1']], RESET],
  ['C3 Content-Length 2^64', [['content-length', '18446744073709551616']], RESET],
  ['C3 an empty Content-Length', [['content-length', '']], RESET],
  ['C18 a length without a body', [POST, ['content-length', '5']], RESET],
  ['C22 TRACE', [[':method', 'TRACE']], 405],
  ['C22 a method in lower case', [[':method', 'get']], 400],
  ['C22 a method of two words', [[':method', 'G ET']], RESET],
  ['C22 a method with a line break', [[':method', 'GET / HTTP/1.1\r\nx: y\r\n\r\nGET']], RESET],
  ['C25 Upgrade', [['upgrade', 'websocket']], RESET],
  ['C25 HTTP2-Settings', [['http2-settings', 'AAA']], 400],
  ['C25 :protocol', [[':protocol', 'websocket']], RESET],
  [
    'D2 two Host fields',
    [
      ['host', 'a.example'],
      ['host', 'a.example'],
    ],
    RESET,
  ],
  ['D2 Host that differs', [['host', 'a.example']], 400],
  ['D3 a list', authority('a, b'), RESET],
  ['D3 user information', authority('a@b'), RESET],
  ['D3 a slash', authority('a/b'), RESET],
  ['D3 nothing', authority(''), RESET],
  ['D3 a blank', authority('a b'), RESET],
  ['D3 port 0', authority('localhost:0'), 400],
  ['D3 port 65536', authority('localhost:65536'), 400],
  ['D3 port +80', authority('localhost:+80'), 400],
  ['D3 another host', authority('evil.example'), 421],
  ['D5 https without TLS', [[':scheme', 'https']], 400],
  ['D5 ftp', [[':scheme', 'ftp']], 400],
  ['D5 absolute-form', path('http://localhost/'), RESET],
  ['D7 a fragment', path('/1#x'), 400],
  ['D8 an asterisk with GET', path('*'), RESET],
  [
    'D8 an asterisk with OPTIONS',
    [
      [':method', 'OPTIONS'],
      [':path', '*'],
    ],
    400,
  ],
  ['D9 /..', path('/..'), 400],
  ['D9 /..%2f', path('/..%2fx'), 400],
  ['D9 /%2e%2e/', path('/%2e%2e/x'), 400],
  ['D9 /a/./b', path('/a/./b'), 400],
  ['D9 a backslash', path('/a\\b'), 400],
  ['D9 a byte of 8 bits', path('/\xe9'), 400],
  ['D9 no slash', path('x'), RESET],
  ['D9 nothing', path(''), RESET],
  ['G10 a blank in the path', path('/ HTTP/1.1'), RESET],
  ['G10 a line break in the path', path('/ HTTP/1.1\r\nx: y\r\n\r\nGET /evil'), RESET],
  ['G10 NUL in the path', path('/\0'), RESET],
  ['G10 DEL in the path', path('/\x7f'), RESET],
  ['G10 Connection', [['connection', 'close']], RESET],
  ['G10 Keep-Alive', [['keep-alive', 'timeout=5']], RESET],
  ['G10 Proxy-Connection', [['proxy-connection', 'close']], RESET],
  ['G10 TE other than trailers', [['te', 'gzip']], RESET],
  ['G10 an upper-case name', [['X-Upper', 'a']], RESET],
  ['G10 a pseudo-header field of answers', [[':status', '200']], RESET],
  ['G10 an unknown pseudo-header field', [[':evil', 'a']], RESET],
  [
    'A20 two Authorization fields',
    [
      ['authorization', 'Basic a'],
      ['authorization', 'b'],
    ],
    400,
  ],
  ['E15 more fields than the limit', Array.from({ length: 250 }, (_, i) => [`x-${i}`, 'a']), 431],
  ['D18 our own Via', [['via', 'VIA']], 508],
];

describe('a hostile HTTP/2 request', () => {
  for (const [title, fields, outcome] of rows) {
    it(`${title} is ${outcome}, and never reaches the upstream`, async () => {
      await using world = await startWorld({ login: true, listener: 'http2: true' });
      await using client = await FrameClient.connect(world.daemon.address().port);
      client.write(client.headers(1, client.request([[':path', '/warm']])));
      await client.saw(() => client.endedCleanly(1), 'the first answer');
      const via = fieldValue(world.upstream.requests.at(-1)?.fields ?? [], 'via') ?? '';
      const lines = fields.map(([name, value]) => [name, value === 'VIA' ? via : value] as const);
      client.write(client.headers(3, client.request(lines)));
      assert.equal(await client.outcome(3), outcome);
      client.write(client.headers(5, client.request([[':path', '/next']])));
      await client.saw(() => client.ended || client.endedCleanly(5), 'the next answer');
      const targets = new Set(world.upstream.requests.map(({ target }) => target));
      targets.delete('/next');
      assert.deepEqual([...targets], ['/warm']);
      assert.equal(world.upstream.journal.sockets.length, 1);
    });
  }
});

/** What nghttp2 leaves out instead of refusing the request; Node tells nobody of it. */
const dropped: [title: string, field: readonly [string, string]][] = [
  ['C15 CR LF in a value', ['x', 'a\r\nx-evil: 1']],
  ['C15 CR in a value', ['x', 'a\rb']],
  ['C15 NUL in a value', ['x', 'a\0b']],
  ['C15 a blank in a name', ['x y', 'a']],
  ['C15 a colon in a name', ['x:y', 'a']],
  ['C15 CR LF in a name', ['x\r\ny', 'a']],
  ['C15 an empty name', ['', 'a']],
];

describe('a malformed field of an HTTP/2 request', () => {
  for (const [title, field] of dropped) {
    it(`${title} goes nowhere, and the rest is served`, async () => {
      await using world = await startWorld({ listener: 'http2: true' });
      await using client = await FrameClient.connect(world.daemon.address().port);
      client.write(client.headers(1, client.request()));
      client.write(client.headers(3, client.request([field])));
      await client.saw(() => client.endedCleanly(1) && client.endedCleanly(3), 'two answers');
      const [plain, other] = world.upstream.requests;
      assert.deepEqual(other?.fields, plain?.fields);
      assert.equal(world.upstream.requests.length, 2);
    });
  }

  it('C15 blanks around a value are no part of it, as over HTTP/1.1', async () => {
    await using world = await startWorld({ listener: 'http2: true' });
    await using client = await FrameClient.connect(world.daemon.address().port);
    client.write(client.headers(1, client.request([['x', ' \ta b ']])));
    await client.saw(() => client.endedCleanly(1), 'an answer');
    assert.equal(fieldValue(world.upstream.requests[0]?.fields ?? [], 'x'), 'a b');
  });

  it('G10 a pseudo-header field that comes twice, or late, resets the stream', async () => {
    await using world = await startWorld({ listener: 'http2: true' });
    await using client = await FrameClient.connect(world.daemon.address().port);
    client.write(client.headers(1, [...client.request(), [':path', '/evil']]));
    client.write(client.headers(3, [['x', 'a'], ...client.request()]));
    assert.equal(await client.outcome(1), RESET);
    assert.equal(await client.outcome(3), RESET);
    assert.equal(world.upstream.requests.length, 0);
  });

  it('G10 a pseudo-header field that is missing resets the stream', async () => {
    for (const missing of [':method', ':scheme', ':path']) {
      await using world = await startWorld({ listener: 'http2: true' });
      await using client = await FrameClient.connect(world.daemon.address().port);
      const fields = client.request().filter(([name]) => name !== missing);
      client.write(client.headers(1, fields));
      assert.equal(await client.outcome(1), RESET);
      assert.equal(world.upstream.requests.length, 0);
    }
  });

  it('D1 D2 Host stands in for :authority, and one of them there must be', async () => {
    await using world = await startWorld({ listener: 'http2: true' });
    const port = world.daemon.address().port;
    await using client = await FrameClient.connect(port);
    const fields = client.request().filter(([name]) => name !== ':authority');
    client.write(client.headers(1, [...fields, ['host', `127.0.0.1:${port}`]]));
    assert.equal(await client.outcome(1), 200);
    await using nameless = await FrameClient.connect(port);
    nameless.write(nameless.headers(1, fields));
    assert.ok([400, RESET].includes(await nameless.outcome(1)));
    assert.equal(world.upstream.requests.length, 1);
  });

  it('C22 CONNECT is 405', async () => {
    await using world = await startWorld({ listener: 'http2: true' });
    await using client = await FrameClient.connect(world.daemon.address().port);
    const fields = [
      [':method', 'CONNECT'],
      [':authority', 'localhost:443'],
    ] as const;
    client.write(client.headers(1, fields, 'body'));
    assert.equal(await client.outcome(1), 405);
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  it('C18 a body longer than its length is not a whole one', async () => {
    await using world = await startWorld({ listener: 'http2: true' });
    await using client = await FrameClient.connect(world.daemon.address().port);
    const fields = client.request([
      [':method', 'POST'],
      ['content-length', '4'],
    ]);
    client.write(
      client.headers(1, fields, 'body'),
      frame(FRAME.data, FLAG.endStream, 1, 'half and more'),
    );
    assert.notEqual(await client.outcome(1), 200);
    assert.ok(world.upstream.requests.every(({ bodyComplete }) => !bodyComplete));
  });
});
