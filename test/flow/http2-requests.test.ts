/** Requests of HTTP/2 callers as the upstream sees them, and answers as the callers do. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startWorld } from './http-world.ts';

const HTTP2 = 'http2: true';

describe('a request over HTTP/2', () => {
  it('reaches the upstream as HTTP/1.1, and its answer comes back', async () => {
    await using world = await startWorld({ listener: HTTP2 });
    await using client = await world.connectHttp2();
    const { status, rstCode, json } = await client.ask('GET /a?b=c');
    assert.deepEqual([status, rstCode], [200, 0]);
    const seen = json() as Record<string, unknown>;
    assert.deepEqual([seen['method'], seen['target']], ['GET', '/a?b=c']);
  });
});
