/**
 * Hostile requests (hostile-inputs.md C, D) through a running daemon whose upstream socket is logged
 * in: the right refusal, the connection closed, and nothing of it at the upstream.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startWorld } from '../flow/http-world.ts';

const HOST = 'Host: localhost\r\n';
const SMUGGLED = 'GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n';
const POST = `POST / HTTP/1.1\r\n${HOST}`;

const rows: [title: string, bytes: string, status: number][] = [
  [
    'C1 Content-Length and Transfer-Encoding',
    `${POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  [
    'C1 Transfer-Encoding and Content-Length',
    `${POST}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
    400,
  ],
  ['C2 two equal Content-Length', `${POST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`, 400],
  ['C2 a list of Content-Length', `${POST}Content-Length: 3, 3\r\n\r\nabc`, 400],
  ['C3 Content-Length +3', `${POST}Content-Length: +3\r\n\r\nabc`, 400],
  ['C3 Content-Length 2^64', `${POST}Content-Length: 18446744073709551616\r\n\r\nabc`, 400],
  [
    'C4 chunked twice',
    `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  ['C4 xchunked', `${POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`, 501],
  ['C5 gzip, chunked', `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 501],
  [
    'C6 chunked in HTTP/1.0',
    `POST / HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  ['C7 chunked with a tab', `${POST}Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n`, 400],
  ['C8 a blank before the colon', `${POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`, 400],
  ['C14 obs-fold', `GET / HTTP/1.1\r\n${HOST}X: a\r\n b\r\n\r\n`, 400],
  ['C15 bare LF', `GET / HTTP/1.1\n${HOST}\r\n`, 400],
  ['C15 bare CR in a value', `GET / HTTP/1.1\r\n${HOST}X: a\rb\r\n\r\n`, 400],
  ['C15 NUL in a value', `GET / HTTP/1.1\r\n${HOST}X: a\0b\r\n\r\n`, 400],
  ['C15 no colon', `GET / HTTP/1.1\r\n${HOST}nonsense\r\n\r\n`, 400],
  ['C17 HEAD with a body', `HEAD / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabc`, 400],
  ['C20 HTTP/2.0', `GET / HTTP/2.0\r\n${HOST}\r\n`, 505],
  ['C20 HTTP/1.2', `GET / HTTP/1.2\r\n${HOST}\r\n`, 505],
  ['C20 HTTP/0.9', 'GET /\r\n\r\n', 400],
  ['C21 the HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['C22 TRACE', `TRACE / HTTP/1.1\r\n${HOST}\r\n`, 405],
  ['C22 CONNECT', `CONNECT localhost:443 HTTP/1.1\r\n${HOST}\r\n`, 405],
  ['D1 no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ['D2 two Host fields', `GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
  ['D5 absolute-form', `GET http://localhost/ HTTP/1.1\r\n${HOST}\r\n`, 400],
  [
    'B3 Connection names Content-Length',
    `${POST}Connection: content-length\r\nContent-Length: 3\r\n\r\nabc`,
    400,
  ],
];

describe('a hostile request', () => {
  for (const [title, bytes, status] of rows) {
    it(`${title} is ${status}, closes, and never reaches the upstream`, async () => {
      await using world = await startWorld({ login: true });
      await using client = await world.connect();
      await client.request('GET /warm');
      assert.equal((await client.response()).status, 200);
      await client.send(bytes + SMUGGLED);
      const answer = await client.response(bytes.startsWith('HEAD') ? 'HEAD' : 'GET');
      assert.deepEqual([answer.status, answer.field('connection')], [status, 'close']);
      client.endWriting();
      await client.gone();
      const targets = new Set(world.upstream.requests.map(({ target }) => target));
      assert.deepEqual([...targets], ['/warm']);
    });
  }
});

const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n\r\n`;
const bodies: [title: string, body: string][] = [
  ['C10 an extension of 20 KB', `1;${'x'.repeat(20_000)}\r\na\r\n0\r\n\r\n`],
  ['C11 0x3', '0x3\r\nabc\r\n0\r\n\r\n'],
  ['C11 17 digits', `${'0'.repeat(16)}3\r\nabc\r\n0\r\n\r\n`],
  ['C11 -3', '-3\r\nabc\r\n0\r\n\r\n'],
  ['C11 no digits', '\r\nabc\r\n0\r\n\r\n'],
  ['C12 bare LF', '3\nabc\n0\n\n'],
  ['C12 no CRLF behind the data', '3\r\nabcX0\r\n\r\n'],
  ['C13 Content-Length as a trailer', '3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n'],
  ['C13 Authorization as a trailer', '3\r\nabc\r\n0\r\nAuthorization: x\r\n\r\n'],
];

describe('a hostile chunked body', () => {
  for (const [title, body] of bodies) {
    for (const late of [false, true]) {
      const when = late ? 'after its head' : 'with its head';
      it(`${title}, ${when}, is 400, closes, and costs the upstream its socket`, async () => {
        await using world = await startWorld({
          login: true,
          upstream: { handler: ({ target }) => ({ body: target }) },
        });
        await using client = await world.connect();
        await client.request('GET /warm');
        assert.equal((await client.response()).status, 200);
        await client.send(CHUNKED + (late ? '' : body + SMUGGLED));
        if (late) {
          const arrived = (): boolean => world.upstream.requests.length > 2;
          await world.upstream.saw(arrived, 'the head');
          await client.send(body + SMUGGLED);
        }
        const { status } = await client.response();
        assert.equal(status, 400);
        client.endWriting();
        await client.gone();
        const served = world.upstream.requests.filter(({ bodyComplete }) => bodyComplete);
        assert.ok(served.every(({ target }) => target === '/warm'));
        assert.ok(world.upstream.requests.every(({ target }) => target !== '/evil'));
      });
    }
  }

  it('C9 C13 extensions and harmless trailers end here', async () => {
    await using world = await startWorld({ login: true });
    await using client = await world.connect();
    await client.send(`${CHUNKED}3;a=b\r\nabc\r\n0;c\r\nX-T: 1\r\n\r\n`);
    assert.equal((await client.response()).status, 200);
    const post = world.upstream.requests.at(-1);
    assert.deepEqual([post?.bodyLength, post?.trailers], [3, []]);
  });
});

describe('a request in pieces', () => {
  const HEADS = [
    `GET /a?b=c HTTP/1.1\r\n${HOST}X-Long: ${'y'.repeat(60)}\r\n\r\n`,
    `\r\n\r\nGET / HTTP/1.0\r\n${HOST}Connection: keep-alive\r\n\r\n`,
    `PUT /b HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n2;x\r\nhi\r\n0\r\nA: b\r\n\r\n`,
    `POST /c HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\nhi`,
  ];
  for (const engine of ['handle', 'public'] as const) {
    it(`is the same request wherever it is split (engine ${engine})`, async () => {
      await using world = await startWorld({ engine });
      await using client = await world.connect();
      for (const message of HEADS) {
        const method = /[A-Z]+/.exec(message)?.[0] ?? '';
        for (let at = 1; at < message.length; at += 1) {
          await client.send(message, [at]);
          const answer = (await client.response(method)).json() as Record<string, unknown>;
          const length = message.includes('hi') ? 2 : 0;
          assert.deepEqual([answer['method'], answer['bodyLength']], [method, length]);
        }
        await client.send(message, 'every-byte');
        assert.equal((await client.response(method)).status, 200);
      }
      assert.equal(world.upstream.journal.sockets.length, 1);
    });
  }
});
