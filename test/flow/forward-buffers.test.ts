/**
 * Read buffers that go along with a write which cannot end yet: nobody else reads into them meanwhile,
 * and each comes back once. Slow readers on all sides, many flows, every byte compared.
 */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { until } from '../support/waiting.ts';
import { stalled } from './http-world.ts';
import { startForward } from './forward-world.ts';

const FLOWS = 6;
/** More than the kernel's buffers of two connections take. */
const BYTES = 12 * 1024 * 1024;

/** Bytes of one flow: each of its blocks says which it is. */
function pattern(flow: number): Buffer {
  const bytes = Buffer.alloc(BYTES, flow);
  for (let at = 0; at < BYTES; at += 4096) bytes.writeUInt32BE(at, at);
  return bytes;
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const flows = Array.from({ length: FLOWS }, (_, flow) => flow);
const hashes = flows.map((flow) => sha256(pattern(flow)));

for (const engine of ['handle', 'public'] as const) {
  describe(`flows that wait for their readers (engine ${engine})`, () => {
    it('down tunnels arrive as they were sent', async () => {
      await using world = await startForward({ engine });
      let written = 0;
      let next = 0;
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        const bytes = pattern(next);
        next += 1;
        socket.end(bytes, () => (written += 1));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const authority = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const clients = await Promise.all(flows.map(() => world.connect()));
      for (const client of clients) {
        client.socket.pause();
        await client.send(`CONNECT ${authority} HTTP/1.1\r\nHost: x\r\n\r\n`);
      }
      await until(() => next === FLOWS, 'all tunnels');
      await stalled(() => clients.reduce((sum, { socket }) => sum + socket.bytesRead, 0));
      const received = await Promise.all(
        clients.map(async (client) => {
          assert.equal((await client.head()).status, 200);
          const digest = createHash('sha256');
          for (let left = BYTES; left > 0;) {
            const bytes = await client.some(left);
            assert.ok(bytes !== undefined);
            left -= bytes.length;
            digest.update(bytes);
          }
          return digest.digest('hex');
        }),
      );
      assert.deepEqual(received.toSorted(), hashes.toSorted());
      assert.equal(written, FLOWS);
      for (const client of clients) client.socket.destroy();
      server.close();
    });

    it('up tunnels arrive as they were sent', async () => {
      await using world = await startForward({ engine });
      const sockets: Socket[] = [];
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.pause();
        sockets.push(socket);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const authority = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const clients = await Promise.all(flows.map(() => world.tunnel(authority)));
      const sent = clients.map((client, flow) => client.send(pattern(flow)));
      await until(() => sockets.length === FLOWS, 'all tunnels');
      await stalled(() => clients.reduce((sum, { socket }) => sum + socket.bytesWritten, 0));
      const received = sockets.map(async (socket) => {
        const digest = createHash('sha256');
        let length = 0;
        socket.on('data', (bytes) => {
          length += bytes.length;
          digest.update(bytes);
        });
        socket.resume();
        await until(() => length === BYTES, 'a whole flow', 10_000);
        return digest.digest('hex');
      });
      const all = await Promise.all(received);
      await Promise.all(sent);
      assert.deepEqual(all.toSorted(), hashes.toSorted());
      for (const client of clients) client.socket.destroy();
      server.close();
    });

    it('of request bodies arrive as they were sent', async () => {
      const turns = async (): Promise<void> => {
        for (let turn = 0; turn < 4; turn += 1) await nextTurn();
      };
      await using world = await startForward({ engine, upstream: { body: { pace: turns } } });
      const answers = await Promise.all(
        flows.map(async (flow) => {
          await using client = await world.connect();
          const fields = { 'Content-Length': String(BYTES) };
          await client.request(`PUT http://${world.authority}/`, fields, pattern(flow));
          const { bodySha256 } = (await client.response('PUT', 10_000)).json() as {
            bodySha256: string;
          };
          return bodySha256;
        }),
      );
      assert.deepEqual(answers, hashes);
    });
  });
}
