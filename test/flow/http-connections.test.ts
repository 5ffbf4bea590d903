/** One connection of a caller: kept, pipelined, old versions, half-closed, gone. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startWorld } from './http-world.ts';

const get = (path: string, more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;

const echo = ({ target, body }: { target: string; body: Buffer }): { body: string } => ({
  body: `${target} ${body.length}`,
});

describe('a connection of a caller', () => {
  it('carries many requests one after the other, over one socket of the upstream', async () => {
    await using world = await startWorld();
    await using client = await world.connect();
    for (let nth = 1; nth <= 20; nth += 1) {
      await client.request(`GET /${nth}`);
      const { status, body } = await client.response();
      assert.equal(status, 200);
      assert.equal((JSON.parse(body.toString()) as { nth: number }).nth, nth);
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  it('serves pipelined requests in order, one at a time, also with bodies (C23)', async () => {
    await using world = await startWorld({ handler: echo });
    await using client = await world.connect();
    const post = 'POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc';
    const chunked =
      'PUT /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n';
    await client.send(get('/a') + post + chunked + get('/d'));
    for (const expected of ['/a 0', '/b 3', '/c 5', '/d 0']) {
      assert.equal((await client.response()).body.toString(), expected);
    }
    assert.ok(world.upstream.requests.every(({ pipelined }) => !pipelined));
  });

  it('serves a pipelined request whose head comes in two halves', async () => {
    await using world = await startWorld({ handler: echo });
    await using client = await world.connect();
    const [first, second] = [get('/a'), get('/b')];
    for (const at of [1, 10, second.length - 1]) {
      await client.send(first + second.slice(0, at));
      assert.equal((await client.response()).body.toString(), '/a 0');
      await client.send(second.slice(at));
      assert.equal((await client.response()).body.toString(), '/b 0');
    }
  });
});
