/** Slow readers and slow senders on either side: the other side is stopped, nothing is piled up or lost. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { SocketEngine } from '../../src/server/raw-socket.ts';
import type { RawClient } from '../support/raw-client.ts';
import type { UpstreamWire } from '../support/upstream-options.ts';
import { Gate } from '../support/waiting.ts';
import { stalled, startWorld } from './http-world.ts';

/** Far more than the kernel keeps for four ends of two loopback connections (4 to 6 MiB each). */
const TOTAL = 96 << 20;
const KERNEL = 48 << 20;
const PIECE = Buffer.alloc(1 << 16, 'abcdefgh');

/** SHA-256 of the whole body. */
function expectedDigest(): string {
  const hash = createHash('sha256');
  for (let at = 0; at < TOTAL; at += PIECE.length) hash.update(PIECE);
  return hash.digest('hex');
}

/** Reads `TOTAL` bytes and answers their digest. */
async function digest(client: RawClient): Promise<string> {
  const hash = createHash('sha256');
  for (let length = 0; length < TOTAL;) {
    const piece = await client.some(Math.min(1 << 20, TOTAL - length));
    assert.ok(piece, `cut after ${length} bytes`);
    hash.update(piece);
    length += piece.length;
  }
  return hash.digest('hex');
}

const LISTENERS = ['handle', 'public'].flatMap((engine) =>
  ['http2: false', 'http2: true'].map((listener) => [engine as SocketEngine, listener] as const),
);

for (const [engine, listener] of LISTENERS) {
  describe(`back-pressure (engine ${engine}, ${listener})`, () => {
    it('stops the upstream while the caller does not read (G3)', async () => {
      let written = 0;
      const run = async (wire: UpstreamWire): Promise<'keep'> => {
        await wire.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`);
        for (; written < TOTAL; written += PIECE.length) await wire.write(PIECE);
        return 'keep';
      };
      await using world = await startWorld({ engine, listener, handler: () => ({ run }) });
      await using client = await world.connect();
      await client.request('GET /');
      await client.head();
      await stalled(() => written);
      assert.ok(written < KERNEL, `${written} bytes were taken from the upstream`);
      assert.equal(await digest(client), expectedDigest());
    });

    it('stops the caller while the upstream does not read (G3)', async () => {
      const gate = new Gate();
      await using world = await startWorld({
        engine,
        listener,
        upstream: { body: { pace: (received) => (received > 0 ? gate.pass() : undefined) } },
      });
      await using client = await world.connect();
      await client.request('POST /', { 'Content-Length': String(TOTAL) });
      const pump = async (): Promise<void> => {
        for (let at = 0; at < TOTAL; at += PIECE.length) await client.send(PIECE);
      };
      const pumped = pump();
      await stalled(() => client.socket.bytesWritten);
      assert.ok(client.socket.bytesWritten < KERNEL, 'the caller was stopped');
      gate.open();
      await pumped;
      const { bodySha256 } = (await client.response()).json() as { bodySha256: string };
      assert.equal(bodySha256, expectedDigest());
    });
  });
}
