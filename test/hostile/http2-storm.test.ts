/**
 * Callers and upstreams that break off at every moment, on a few HTTP/2 connections at once: the daemon
 * lives, nothing is left of it in any gauge, and every upstream socket carried whole requests of one user.
 */

import assert from 'node:assert/strict';
import { constants } from 'node:http2';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { startWorld, type World } from '../flow/http-world.ts';
import type { H2Client } from '../support/h2-client.ts';
import { CUT_SHORT, MALFORMED, shapes } from '../support/response-shapes.ts';
import { within } from '../support/waiting.ts';
import { randomNumbers } from '../property/interleavings.ts';

const WHOLE =
  'counted chunked close close-delimited trailers trailers-forbidden extra no-content not-modified';
const PATHS = [
  ...`${WHOLE} interim/many status-600 proxy-auth big big`.split(' '),
  ...Object.keys(MALFORMED).map((name) => `malformed/${name}`),
  ...Object.keys(CUT_SHORT).map((name) => `cut/${name}`),
];
const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS', 'TRACE'];
const CODES = [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL];

type Chance = ReturnType<typeof randomNumbers>;

const pick = <T>(all: readonly T[], chance: Chance): T => {
  const one = all[chance(all.length)];
  if (one === undefined) throw new Error('nothing to pick from');
  return one;
};

async function turns(count: number): Promise<void> {
  for (let nth = 0; nth < count; nth += 1) await nextTurn();
}

/** One stream; whoever does not break it off reads it to its end. */
async function runStream(client: H2Client, chance: Chance): Promise<void> {
  const hasBody = chance(2) === 0;
  const head = { ':method': pick(METHODS, chance), ':path': `/${pick(PATHS, chance)}` };
  const fields = chance(3) === 0 ? { ...head, te: 'trailers' } : head;
  const stream = client.open(fields, { ends: !hasBody });
  const closed = Promise.withResolvers<undefined>();
  stream.once('close', () => closed.resolve(undefined));
  if (hasBody) stream.write(Buffer.alloc(chance(200_000), 'x'));
  if (chance(5) > 0) stream.resume();
  await turns(chance(30));
  if (chance(4) === 0) {
    // Node's client does not always close such a stream.
    stream.close(pick(CODES, chance));
    return;
  }
  if (hasBody) stream.end('rest');
  stream.resume();
  await within(closed.promise, `end of ${head[':method']} ${head[':path']}`, 20_000);
}

async function runConnection(world: World, chance: Chance): Promise<void> {
  await using client = await world.connectHttp2();
  const streams: Promise<void>[] = [];
  for (let nth = 0; nth < 40 && !client.session.closed; nth += 1) {
    streams.push(runStream(client, chance));
    if (chance(4) === 0) await turns(5);
  }
  if (chance(3) === 0) client.session.destroy();
  await Promise.all(streams);
}

for (const login of [false, true]) {
  const where = login ? 'logged-in sockets' : 'open sockets';
  test(`a storm of broken streams leaves nothing behind (${where})`, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`seed ${seed}`);
    const chance = randomNumbers(seed);
    await using world = await startWorld({
      login,
      listener: 'http2: true',
      handler: (request) =>
        request.target === '/big' ? { body: Buffer.alloc(400_000, 'b') } : shapes(request),
    });
    for (let round = 0; round < 3; round += 1) {
      await Promise.all([1, 2, 3].map(() => runConnection(world, chance)));
    }
    await world.daemon.measured(
      (seen) =>
        seen.sum('sidekerb_downstream_connections', { listener: 'main' }) === 0 &&
        seen.sum('sidekerb_upstream_connections', { state: 'active' }) === 0 &&
        seen.sum('sidekerb_pool_waiters') === 0,
      'nothing in work',
    );
    await using client = await world.connectHttp2();
    assert.notEqual((await client.ask('GET /counted')).status, 0);
  });
}
