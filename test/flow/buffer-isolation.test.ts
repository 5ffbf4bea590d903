/** One read buffer is never under two sockets, however its connection grew and shrank before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stalled } from './http-world.ts';
import { startWorld } from './login-world.ts';

/** More than the kernel's buffers of two connections take. */
const ANSWER = 24 * 1024 * 1024;

test('no byte of an upload reaches the answer of another caller who reads late', async () => {
  await using world = await startWorld({
    upstream: {
      handler: ({ target }) =>
        target.includes('big') ? { body: Buffer.alloc(ANSWER, 'b') } : { body: 'ok' },
    },
  });
  await world.prove('alice', 'bob');
  await using alice = await world.caller('alice');
  await alice.ask('POST', { body: Buffer.alloc(300_000, 'A') });
  // Many small messages give the large buffer back: their ends fall outside of a read.
  const fields = Object.entries({ ...alice.head(), 'Content-Length': '1' });
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  await alice.client.send(`POST ${alice.target()} HTTP/1.1\r\n${lines}\r\nA`.repeat(20));
  for (let i = 0; i < 20; i += 1) await alice.client.response('POST');

  await using bob = await world.caller('bob');
  const { socket } = bob.client;
  socket.pause();
  await bob.send('GET', { path: 'big' });
  await stalled(() => socket.bytesRead);
  for (let i = 0; i < 4; i += 1) await alice.ask('POST', { body: Buffer.alloc(70_000, 'A') });

  socket.resume();
  const { body } = await bob.client.response('GET');
  assert.equal(body.length, ANSWER);
  assert.equal(body.indexOf('A'), -1);
});
