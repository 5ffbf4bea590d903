/** Requests that are sent a second time: whole, once, and only where nothing was answered (F2, R42). */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { describeRequest } from '../support/upstream-answers.ts';
import type { Handler } from '../support/upstream-options.ts';
import { startWorld } from './http-world.ts';

const BODY = Buffer.alloc(700_000, 'abcdefghijk');
const DIGEST = createHash('sha256').update(BODY).digest('hex');

/** Loses the second request of the first socket, after it was read. */
const losing: Handler = (request) =>
  request.socketId === 1 && request.nth === 2
    ? { raw: '', after: 'reset' }
    : describeRequest(request);

interface Seen {
  readonly bodyLength: number;
  readonly bodySha256: string;
}

describe('a request lost on a used socket', () => {
  const chunked = Buffer.concat([
    Buffer.from(`${BODY.length.toString(16)}\r\n`),
    BODY,
    Buffer.from('\r\n0\r\n\r\n'),
  ]);
  for (const [framing, fields, bytes] of [
    ['counted', { 'Content-Length': String(BODY.length) }, BODY],
    ['chunked', { 'Transfer-Encoding': 'chunked' }, chunked],
  ] as const) {
    it(`is sent again with its whole body, however large (${framing}, F2)`, async () => {
      await using world = await startWorld({
        handler: losing,
        upstreamKeys: 'replay: { maxBytes: 2MiB }',
      });
      await using client = await world.connect();
      await client.request('GET /warm');
      assert.equal((await client.response()).status, 200);
      await client.request('PUT /', fields, bytes);
      const answer = await client.response();
      assert.equal(answer.status, 200);
      const { bodyLength, bodySha256 } = answer.json() as Seen;
      assert.deepEqual([bodyLength, bodySha256], [BODY.length, DIGEST]);
      await client.request('GET /after');
      assert.equal((await client.response()).status, 200);
      assert.equal(world.upstream.journal.sockets.length, 2);
    });
  }

  it('is sent again with a head larger than any buffer', async () => {
    await using world = await startWorld({
      handler: losing,
      listener: 'limits: { head: 512KiB }',
      upstreamKeys: 'replay: { maxBytes: 2MiB }',
    });
    await using client = await world.connect();
    await client.request('GET /warm');
    assert.equal((await client.response()).status, 200);
    const long = 'x'.repeat(300_000);
    await client.request('PUT /', { 'X-Long': long, 'Content-Length': '5' }, 'hello');
    const { status, json } = await client.response();
    assert.deepEqual([status, (json() as Seen).bodyLength], [200, 5]);
    const values = world.upstream.requests.map(
      ({ fields }) => fields.find(([name]) => name === 'X-Long')?.[1],
    );
    assert.ok(values.slice(1).every((value) => value === long));
  });

  it('is not sent again when its body was not kept, or its method is unsafe (R42)', async () => {
    for (const line of ['PUT /', 'POST /']) {
      await using world = await startWorld({
        handler: losing,
        upstreamKeys: `replay: { maxBytes: ${line === 'PUT /' ? '1KiB' : '2MiB'} }`,
      });
      await using client = await world.connect();
      await client.request('GET /warm');
      assert.equal((await client.response()).status, 200);
      await client.request(line, { 'Content-Length': '5000' }, Buffer.alloc(5000));
      assert.equal((await client.response()).status, 502);
      assert.equal(world.upstream.journal.sockets.length, 1);
    }
  });
});
