/** Which socket files a listener may put its own in the place of. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { noLog } from '../../../src/log/log.ts';
import { ListenSocket } from '../../../src/server/listen-socket.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { until } from '../../support/waiting.ts';

const open = (path: string): Promise<ListenSocket> =>
  ListenSocket.open({ kind: 'unix', path }, 0o600, { engine: 'public', log: noLog });

/** Listens at `path`, tells so, and does nothing until it is woken. */
const BUSY = `
const { workerData: { path, state } } = require('node:worker_threads');
require('node:net').createServer().listen({ path, backlog: 1 }, () => {
  Atomics.store(state, 0, 1);
  Atomics.wait(state, 0, 1);
});`;

/** Connects until the system takes no more. */
async function fill(path: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (;;) {
    const socket = connect({ path });
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    if (!(await promise)) return sockets;
    sockets.push(socket);
  }
}

test('one of a program that is too busy to answer stays its own', async () => {
  const path = join(temporaryFolder(), 'busy.sock');
  const state = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(BUSY, { eval: true, workerData: { path, state } });
  await until(() => Atomics.load(state, 0) === 1, 'it listens');
  const { ino } = statSync(path);
  const sockets = await fill(path);
  try {
    const opened = open(path).then((socket) => socket.close());
    await assert.rejects(opened, { code: 'EADDRINUSE' });
    assert.equal(statSync(path).ino, ino);
  } finally {
    for (const socket of sockets) socket.destroy();
    Atomics.store(state, 0, 2);
    Atomics.notify(state, 0);
    await worker.terminate();
  }
});
