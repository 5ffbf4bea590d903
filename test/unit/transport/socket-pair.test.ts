/** Two ends of a connection inside the process: as TCP has it, and nothing within the call that sends. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createSocketPair, type SocketEnd } from '../../../src/transport/socket-pair.ts';

function collect(end: SocketEnd): { text: string } {
  const got = { text: '' };
  end.on('data', (bytes: Buffer) => (got.text += bytes.toString('latin1')));
  return got;
}

describe('a socket pair', () => {
  it('brings bytes in order, in another turn, as they were when they were sent', async () => {
    const [near, far] = createSocketPair();
    const got = collect(far);
    const lent = Buffer.from('abc');
    near.write(lent);
    lent.fill('x');
    near.write('def');
    assert.equal(got.text, '');
    await nextTurn();
    assert.equal(got.text, 'abcdef');
  });

  it('has two directions that end by themselves', async () => {
    const [near, far] = createSocketPair();
    const [there, back] = [collect(far), collect(near)];
    near.end('question');
    await once(far, 'end');
    assert.equal(there.text, 'question');
    assert.equal(near.destroyed, false);
    far.end('answer');
    await once(near, 'end');
    assert.equal(back.text, 'answer');
  });

  it('stops the sender while nobody reads, and lets him go on', async () => {
    const [near, far] = createSocketPair();
    let sent = 0;
    const pump = async (): Promise<void> => {
      for (; sent < 100; sent += 1) {
        if (!near.write(Buffer.alloc(16 * 1024))) await once(near, 'drain');
      }
      near.end();
    };
    const pumped = pump();
    for (let turn = 0; turn < 50; turn += 1) await nextTurn();
    assert.ok(sent < 20, `${sent} pieces were taken`);
    let length = 0;
    far.on('data', (bytes: Buffer) => (length += bytes.length));
    await pumped;
    await once(far, 'end');
    assert.equal(length, 100 * 16 * 1024);
  });

  it('tells the other end of a cut, whoever of them reads', async () => {
    for (const cut of ['destroy', 'resetAndDestroy'] as const) {
      const [near, far] = createSocketPair();
      near.write('half');
      await nextTurn();
      near[cut]();
      const [error] = (await once(far, 'error')) as [NodeJS.ErrnoException];
      assert.equal(error.code, 'ECONNRESET');
      assert.ok(far.destroyed);
    }
  });

  it('closed after its end is no cut: what was sent still arrives', async () => {
    const [near, far] = createSocketPair();
    near.write('whole');
    near.destroySoon();
    await once(near, 'close');
    const got = collect(far);
    await once(far, 'end');
    assert.equal(got.text, 'whole');
    assert.equal(far.destroyed, false);
    // Nobody is there any more, which holds nobody up.
    for (let nth = 0; nth < 20; nth += 1) far.write(Buffer.alloc(64 * 1024));
    far.end();
    await once(far, 'finish');
  });

  it('lets a sender go who waits when the reader leaves', async () => {
    const [near, far] = createSocketPair();
    while (near.write(Buffer.alloc(64 * 1024))) await nextTurn();
    far.destroy();
    await assert.rejects(once(near, 'close'), /gone/);
    assert.ok(near.destroyed);
  });
});
