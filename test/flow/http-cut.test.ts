/** Upstreams that die or break off: the caller never takes a part for the whole. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorld, type World } from './http-world.ts';

const HEADS = {
  counted: 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf',
  chunked: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
  'within a chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf',
} as const;

/** One request whose answer breaks off; the error that the caller's socket ends with. */
async function brokenOff(world: World, version = '1.1'): Promise<Error | undefined> {
  await using client = await world.connect();
  await client.send(`GET / HTTP/${version}\r\nHost: localhost\r\n\r\n`);
  const { status } = await client.head();
  assert.equal(status, 200);
  await client.gone();
  return client.closed;
}

describe('an answer that breaks off', () => {
  for (const [name, raw] of Object.entries(HEADS)) {
    for (const after of ['fin', 'reset'] as const) {
      it(`(${name}, ${after}) ends the connection of the caller with RST (C18, E3)`, async () => {
        await using world = await startWorld({ handler: () => ({ raw, after }) });
        const error = await brokenOff(world);
        assert.match(error?.message ?? '', /ECONNRESET/);
        const again = await world.daemon.metrics();
        assert.equal(again.sum('sidekerb_errors_total', { reason: 'upstream-closed' }), 1);
      });
    }
  }

  for (const version of ['1.1', '1.0']) {
    it(`that lasts until close, and is reset, is no clean end for HTTP/${version} (E3)`, async () => {
      const raw = 'HTTP/1.1 200 OK\r\n\r\nhalf';
      await using world = await startWorld({ handler: () => ({ raw, after: 'reset' }) });
      assert.match((await brokenOff(world, version))?.message ?? '', /ECONNRESET/);
    });
  }

  it('within its head, or before it, is 502 with Proxy-Status', async () => {
    for (const raw of ['', 'HTTP/1.1 200 OK\r\nContent-Le']) {
      for (const after of ['fin', 'reset'] as const) {
        await using world = await startWorld({ handler: () => ({ raw, after }) });
        await using client = await world.connect();
        await client.request('GET /');
        const { status, field } = await client.response();
        assert.equal(status, 502);
        assert.match(field('proxy-status') ?? '', /details="upstream-closed"/);
      }
    }
  });

  it('on a unix socket ends the connection, and the daemon lives on', async () => {
    const path = `${temporaryFolder()}/cut.sock`;
    await using world = await startWorld({
      listen: `'unix:${path}'`,
      handler: ({ target }) => (target === '/' ? { raw: HEADS.counted, after: 'fin' } : {}),
    });
    for (let nth = 0; nth < 2; nth += 1) {
      await using client = await RawClient.connect({ socketPath: path });
      await client.request('GET /');
      await client.head();
      assert.equal((await client.untilEnd()).toString(), 'half');
    }
    await world.upstream.saw(({ sockets }) => sockets.length === 2, 'two sockets');
    await using client = await RawClient.connect({ socketPath: path });
    await client.request('GET /whole');
    assert.equal((await client.response()).status, 200);
  });

  it('in its chunk framing is no clean end either (E3)', async () => {
    const raw = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n';
    await using world = await startWorld({ handler: () => ({ raw }) });
    await using client = await world.connect();
    await client.request('GET /');
    await assert.rejects(client.response());
    await client.gone();
  });
});

describe('bytes behind an answer', () => {
  it('cost the upstream its socket; the answer is delivered, nothing is spliced in (E4)', async () => {
    const extra = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';
    for (const framing of ['counted', 'chunked'] as const) {
      await using world = await startWorld({ handler: () => ({ body: 'ok', framing, extra }) });
      await using client = await world.connect();
      for (let nth = 0; nth < 3; nth += 1) {
        await client.request('GET /');
        assert.equal((await client.response()).body.toString(), 'ok');
      }
      assert.equal(client.buffered, 0);
      assert.equal(world.upstream.journal.sockets.length, 3);
    }
  });

  it('that come while the socket is idle end it (E11, R40)', async () => {
    await using world = await startWorld({
      upstream: { idle: { unsolicited: { after: 1, bytes: 'HTTP/1.1 200 OK\r\n\r\n' } } },
    });
    await using client = await world.connect();
    await client.request('GET /');
    assert.equal((await client.response()).status, 200);
    await world.upstream.saw(({ sockets }) => sockets[0]?.open === false, 'its socket closed');
    await client.request('GET /');
    assert.equal((await client.response()).status, 200);
    assert.equal(world.upstream.journal.sockets.length, 2);
  });
});
