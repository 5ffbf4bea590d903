/** A connection that stands for one stream of many: it carries one request, whatever comes behind. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { noLog } from '../../../src/log/log.ts';
import { createAnswerWriter } from '../../../src/proxy/error-response.ts';
import { RelayContext, SharedRequestHead, type RelayDeps } from '../../../src/relay/context.ts';
import { type Dispatcher, Downstream } from '../../../src/relay/downstream.ts';
import type { ForwardingWriter } from '../../../src/relay/plan.ts';
import { createSocketPair } from '../../../src/transport/socket-pair.ts';
import { createReadBuffers, Transport } from '../../../src/transport/transport.ts';
import { RequestFields } from '../../../src/wire/request-fields.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const NOTHING = (): undefined => undefined;
const OBSERVER = {
  finished: NOTHING,
  answeredLocally: NOTHING,
  tunnelOpened: NOTHING,
  tunnelClosed: NOTHING,
  closed: NOTHING,
};

/** What a connection says to two requests in one write, each of which is redirected. */
async function answersToTwo(multiplexed: boolean): Promise<{ text: string; asked: number }> {
  const clock = new FakeClock();
  const context = new RelayContext({
    clock,
    deadlines: clock.deadlines,
    pool: {} as unknown as RelayDeps['pool'],
    answers: createAnswerWriter(() => 0),
    log: noLog,
    via: { line11: Buffer.alloc(0), line10: Buffer.alloc(0) },
    responseLimits: { maxBytes: 1000, maxFields: 10 },
  });
  let asked = 0;
  const dispatcher: Dispatcher = {
    dispatch: () => {
      asked += 1;
      return { kind: 'redirect', location: '/there' };
    },
  };
  const settings = { headMs: 1000, idleMs: 1000, bodyMs: 1000, limits: context.responseLimits };
  const heads = new SharedRequestHead(new RequestFields([]));
  const [near, far] = createSocketPair();
  const owner = { received: () => true, drained: NOTHING, ended: NOTHING, closed: NOTHING };
  const transport = new Transport(owner, createReadBuffers());
  transport.attachEvents(far);
  const deps = { context, heads, dispatcher, observer: OBSERVER, settings, multiplexed };
  // Not asked for by a redirect.
  const forwarding = {} as unknown as ForwardingWriter;
  const connection = new Downstream(deps, transport, '127.0.0.1', forwarding);
  let text = '';
  near.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
  near.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2));
  near.end();
  await once(near, 'end');
  connection.destroy();
  return { text, asked };
}

test('a second request on it is never read', async () => {
  const { text, asked } = await answersToTwo(true);
  assert.equal(asked, 1);
  assert.equal(text.match(/^HTTP\/1\.1 308/gm)?.length, 1);
  assert.match(text, /Connection: close/i);
});

test('on a connection of its own it is', async () => {
  assert.equal((await answersToTwo(false)).asked, 2);
});
