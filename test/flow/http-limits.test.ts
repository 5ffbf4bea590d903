/** Limits and deadlines on both sides, and the answers that tell of them. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RawResponse } from '../support/raw-client.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Gate } from '../support/waiting.ts';
import { startWorld } from './http-world.ts';

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n';

function assertRefused(answer: RawResponse, status: number, code: string): void {
  assert.equal(answer.status, status);
  assert.match(answer.field('proxy-status') ?? '', new RegExp(`^sidekerb; .*details="${code}"$`));
}

describe('a deadline', () => {
  it('for a head is 408, and not before its time (G1)', async () => {
    await using world = await startWorld({ listener: 'timeouts: { head: 200ms, idle: 1m }' });
    await using client = await world.connect();
    const before = performance.now();
    await client.send(GET);
    const answer = await client.response();
    assertRefused(answer, 408, 'request-timeout');
    assert.ok(performance.now() - before >= 190);
    assert.equal((await client.untilEnd()).length, 0);
  });

  it('for a head does not start again with each byte (G1)', async () => {
    await using world = await startWorld({ listener: 'timeouts: { head: 300ms, idle: 1m }' });
    await using client = await world.connect();
    const state = { answered: false };
    const answer = client.response().finally(() => (state.answered = true));
    const drip = async (): Promise<void> => {
      await client.send(`${GET}X-Slow: `);
      while (!state.answered) await client.send('x', 'every-byte');
    };
    const [response] = await Promise.all([answer, drip()]);
    assertRefused(response, 408, 'request-timeout');
  });

  it('for a body is 408 while nothing comes, and ends the upstream request (G2)', async () => {
    await using world = await startWorld({ listener: 'timeouts: { body: 200ms }' });
    await using client = await world.connect();
    await client.send(`${POST}half`);
    assertRefused(await client.response(), 408, 'request-timeout');
    assert.equal((await client.untilEnd()).length, 0);
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its socket closed');
  });

  it('between requests closes the connection without a word', async () => {
    await using world = await startWorld({ listener: 'timeouts: { idle: 200ms }' });
    await using client = await world.connect();
    await client.send(`${GET}\r\n`);
    assert.equal((await client.response()).status, 200);
    assert.equal((await client.untilEnd()).length, 0);
    await using silent = await startWorld({ listener: 'timeouts: { head: 200ms }' });
    await using mute = await silent.connect();
    assert.equal((await mute.untilEnd()).length, 0);
  });

  it('for an answer is 504; the request is not tried again (R42)', async () => {
    const gate = new Gate();
    await using world = await startWorld({
      route: 'timeouts: { response: 200ms }',
      handler: async ({ target }) => {
        if (target === '/slow') await gate.pass();
        return {};
      },
    });
    await using client = await world.connect();
    await client.request('GET /');
    assert.equal((await client.response()).status, 200);
    await client.request('GET /slow');
    assertRefused(await client.response(), 504, 'response-timeout');
    await client.request('GET /');
    assert.equal((await client.response()).status, 200, 'the connection goes on');
    gate.open();
    assert.deepEqual(
      world.upstream.requests.map(({ target }) => target),
      ['/', '/slow', '/'],
    );
  });

  it('for the next byte of an answer cuts it off', async () => {
    await using world = await startWorld({
      route: 'timeouts: { idle: 200ms }',
      handler: () => ({
        run: async (wire) => {
          await wire.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
          await wire.gone;
          return 'reset';
        },
      }),
    });
    await using client = await world.connect();
    await client.request('GET /');
    assert.equal((await client.head()).status, 200);
    await client.gone();
    assert.match((await client.closed)?.message ?? '', /ECONNRESET/);
  });

  for (const how of ['Connection: close', 'a half-closed connection'] as const) {
    it(`ends a caller that does not read the rest of a last answer (${how}, G3)`, async () => {
      await using world = await startWorld({
        listener: 'timeouts: { idle: 300ms }',
        handler: () => ({ body: Buffer.alloc(24 << 20) }),
      });
      await using client = await world.connect();
      await client.send(`${GET}${how === 'Connection: close' ? `${how}\r\n` : ''}\r\n`);
      if (how !== 'Connection: close') client.endWriting();
      while (!/"status":200/.test(world.daemon.logText)) {
        await client.some(1 << 14);
        await nextTurn();
      }
      await world.daemon.measured(
        (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
        'no connection',
      );
    });
  }

  it('for a connection to the upstream gives 502 at once where nobody listens', async () => {
    await using world = await startWorld();
    await world.upstream.close();
    assertRefused(await world.daemon.ask('GET /'), 502, 'connect-failed');
  });
});

describe('a limit', () => {
  const LIMITS = 'limits: { head: 1KiB, headers: 10 }';
  const headOf = (bytes: number): string => {
    const start = `${GET}X-Fill: `;
    return `${start}${'x'.repeat(bytes - start.length - 4)}\r\n\r\n`;
  };

  it('on the size of a head is 431 above it and nothing at it', async () => {
    await using world = await startWorld({ listener: LIMITS });
    await using client = await world.connect();
    await client.send(headOf(1024));
    assert.equal((await client.response()).status, 200);
    await client.send(headOf(1025));
    assertRefused(await client.response(), 431, 'request-head-too-large');
    assert.equal((await client.untilEnd()).length, 0);
  });

  it('on the number of fields is 431 above it and nothing at it', async () => {
    await using world = await startWorld({ listener: LIMITS });
    await using client = await world.connect();
    await client.send(`${GET}${'A: 1\r\n'.repeat(9)}\r\n`);
    assert.equal((await client.response()).status, 200);
    await client.send(`${GET}${'A: 1\r\n'.repeat(10)}\r\n`);
    assertRefused(await client.response(), 431, 'request-head-too-large');
  });

  it('on a head is known before its end comes (G5)', async () => {
    await using world = await startWorld({ listener: LIMITS });
    await using client = await world.connect();
    await client.send(`${GET}X-Fill: ${'x'.repeat(2000)}`);
    assertRefused(await client.response(), 431, 'request-head-too-large');
  });

  it('per caller is 429 with Retry-After, and ends with his other connections (G4)', async () => {
    await using world = await startWorld({ listener: 'limits: { perClient: 2 }' });
    await using first = await world.connect();
    await using second = await world.connect();
    for (const client of [first, second]) {
      await client.send(`${GET}\r\n`);
      assert.equal((await client.response()).status, 200);
    }
    await using third = await world.connect();
    const answer = await third.response();
    assertRefused(answer, 429, 'client-limit');
    assert.equal(answer.field('retry-after'), '1');
    assert.equal((await third.untilEnd()).length, 0);
    first.endWriting();
    await first.gone();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections') === 1,
      'one connection',
    );
    await using fourth = await world.connect();
    await fourth.send(`${GET}\r\n`);
    assert.equal((await fourth.response()).status, 200);
  });

  it('on connections in all is 503 with Retry-After (G4)', async () => {
    await using world = await startWorld({ top: 'limits: { connections: 1 }' });
    await using first = await world.connect();
    await first.send(`${GET}\r\n`);
    assert.equal((await first.response()).status, 200);
    await using second = await world.connect();
    const answer = await second.response();
    assertRefused(answer, 503, 'connection-limit');
    assert.equal(answer.field('retry-after'), '1');
    await first.send(`${GET}\r\n`);
    assert.equal((await first.response()).status, 200);
  });

  it('on connections counts those that are served, not those being turned away (G4)', async () => {
    await using world = await startWorld({ top: 'limits: { connections: 1 }' });
    await using first = await world.connect();
    await first.send(`${GET}\r\n`);
    assert.equal((await first.response()).status, 200);
    // Refused, and still there: it has not ended its side.
    await using second = await world.connect();
    assertRefused(await second.response(), 503, 'connection-limit');
    first.endWriting();
    await first.gone();
    await using third = await world.connect();
    await third.send(`${GET}\r\n`);
    assert.equal((await third.response()).status, 200);
  });
});

describe('an error answer', () => {
  it('is text or JSON by Accept, and has no body for HEAD', async () => {
    await using world = await startWorld({ route: 'path: /crm/' });
    const text = await world.daemon.ask('GET /none');
    assert.match(text.field('content-type') ?? '', /^text\/plain/);
    assert.match(text.body.toString(), /^404 no-route\n/);
    const json = await world.daemon.ask('GET /none', { Accept: 'application/json' });
    assert.equal((json.json() as { error: string }).error, 'no-route');
    const head = await world.daemon.ask('HEAD /none', { Accept: 'application/json' });
    assert.deepEqual(
      [head.body.length, head.field('content-length')],
      [0, String(json.body.length)],
    );
  });

  it('of the upstream side is JSON by Accept too, and keeps the connection', async () => {
    await using world = await startWorld({
      handler: ({ target }) => (target === '/bad' ? { raw: 'garbage\r\n\r\n' } : { body: 'ok' }),
    });
    await using client = await world.connect();
    for (const method of ['GET', 'HEAD']) {
      await client.request(`${method} /bad`, { Accept: 'application/json' });
      const answer = await client.response(method);
      assertRefused(answer, 502, 'response-malformed');
      assert.equal(answer.field('content-type'), 'application/json');
      assert.equal(answer.field('connection'), undefined);
    }
    await client.request('GET /good');
    assert.equal((await client.response()).status, 200);
  });
});
