import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { until } from '../../support/waiting.ts';
import { eventBatch } from '../../../src/relay/event-batch.ts';

/** Sockets whose peers have written one byte each, which lies in the kernel. */
async function readySockets(count: number): Promise<Socket[]> {
  let accepted = 0;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.resume().end('x');
    accepted += 1;
    if (accepted === count) server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').pause());
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  await until(() => accepted === count, 'all were accepted');
  return sockets;
}

/** The batch in which the byte of a socket is delivered. */
function delivered(socket: Socket): Promise<number> {
  socket.on('error', () => undefined);
  return new Promise((resolve) => {
    socket.once('data', () => {
      resolve(eventBatch());
      socket.destroy();
    });
    socket.resume();
  });
}

test('sockets that are ready together are of one batch', async () => {
  const sockets = await readySockets(2);
  await after(1);
  const [first, second] = await Promise.all(sockets.map(delivered));
  assert.equal(first, second);
});

test('what is delivered right after a timer is of another batch than the timer', async () => {
  const [socket] = await readySockets(1);
  assert.ok(socket !== undefined);
  await after(1);
  const inTimer = eventBatch();
  assert.notEqual(await delivered(socket), inTimer);
});
