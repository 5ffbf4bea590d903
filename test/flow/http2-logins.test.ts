/** Requests of HTTP/2 callers on sockets that are logged in, or become it: once, whole, and nothing behind. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { startWorld } from './http-world.ts';

const KIB = 1024;
const SIZES = [0, 1, 64 * KIB, 64 * KIB + 1, 2_000_000];
const METHODS = ['POST', 'DELETE', 'GET', 'OPTIONS'];

/** Origins by how long a login lasts there. */
const ORIGINS: Readonly<Record<string, ScriptedUpstreamOptions>> = {
  'keeps logins': {},
  'asks on every request': { binding: 'request' },
  'forgets after one answer': { forgetAfter: 1 },
  'challenges before it reads': { body: { earlyChallenge: true }, forgetAfter: 1 },
};

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe('bodies of HTTP/2 callers over logins', () => {
  for (const [name, upstream] of Object.entries(ORIGINS)) {
    for (const framing of ['counted', 'chunked'] as const) {
      test(`R33 ${framing} arrive once and whole at an origin that ${name}`, async () => {
        await using world = await startWorld({ login: true, listener: 'http2: true', upstream });
        await using client = await world.connectHttp2();
        let wholes = 0;
        for (const method of METHODS) {
          for (const size of SIZES) {
            const body = Buffer.alloc(size, `${method} ${size} `);
            const fields = framing === 'counted' ? { 'content-length': size } : {};
            const { status, headers, json } = await client.ask(`${method} /`, fields, body);
            assert.deepEqual([status, headers['x-user']], [200, 'LAB\\alice'], `${method} ${size}`);
            const seen = json() as Record<string, unknown>;
            assert.deepEqual([seen['bodyLength'], seen['bodySha256']], [size, sha256(body)]);
            wholes += 1;
          }
        }
        const served = world.upstream.requests.filter(
          ({ method, status }) => status === 200 && method !== 'HEAD',
        );
        assert.equal(served.length, wholes);
      });
    }
  }

  test('R1 R16 side by side each has a socket for itself', async () => {
    await using world = await startWorld({ login: true, listener: 'http2: true' });
    await using client = await world.connectHttp2();
    const bodies = Array.from({ length: 12 }, (_, nth) => Buffer.alloc(100_000 + nth, 'x'));
    const answers = await Promise.all(bodies.map((body) => client.ask('PUT /', {}, body)));
    for (const [nth, { status, json }] of answers.entries()) {
      const { bodySha256 } = json() as { bodySha256: string };
      assert.deepEqual([status, bodySha256], [200, sha256(bodies[nth] ?? Buffer.alloc(0))]);
    }
  });
});
