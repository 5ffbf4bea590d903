/**
 * A caller who closes his side in the middle of a request that stands behind another one: the first is
 * answered whole, the cut one never counts as complete, and the connection ends with it.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import { Gate } from '../support/waiting.ts';
import { stalled, startWorld, type World } from './http-world.ts';

const FIRST = 'GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n';
const POST = 'POST /cut HTTP/1.1\r\nHost: localhost\r\n';

/** What is left of the second request. */
const CUTS = {
  'a request line': 'GET /cu',
  'a head': 'GET /cut HTTP/1.1\r\nHost: loc',
  'a counted body': `${POST}Content-Length: 10\r\n\r\nhalf`,
  'a body of which nothing came': `${POST}Content-Length: 10\r\n\r\n`,
  'a chunked body': `${POST}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`,
  'a chunk': `${POST}Transfer-Encoding: chunked\r\n\r\n64\r\nhalf`,
} as const;

const BODY = Buffer.alloc(300_000, 'x');

interface Setup {
  readonly gate: Gate;
  /** The upstream ends its connection behind the first answer: the second needs another one. */
  readonly lost?: boolean;
}

const start = ({ gate, lost = false }: Setup): Promise<World> =>
  startWorld({
    handler: async ({ target }) => {
      if (target !== '/first') return {};
      await gate.pass();
      return lost ? { body: BODY, after: 'fin' } : { body: BODY };
    },
  });

/** The first answer whole, then the end; nothing that was cut was executed. */
async function assertOver(world: World, client: RawClient): Promise<void> {
  const answer = await client.response();
  assert.equal(answer.status, 200);
  assert.equal(answer.body.length, BODY.length);
  await client.gone();
  await world.daemon.measured(
    (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
    'the connection is over',
  );
  await world.upstream.saw(
    ({ sockets }) =>
      sockets.every(
        ({ open, requests }) => !open || requests.every(({ target }) => target !== '/cut'),
      ),
    'no request waits for the rest of its body',
  );
  const cut = world.upstream.requests.filter(({ target }) => target === '/cut');
  assert.deepEqual(
    cut.filter(({ bodyComplete }) => bodyComplete),
    [],
  );
}

describe('a caller who closes his side', () => {
  for (const [what, bytes] of Object.entries(CUTS)) {
    test(`within ${what}, behind a request that is in work`, async () => {
      const gate = new Gate();
      await using world = await start({ gate });
      await using client = await world.connect();
      await client.send(FIRST + bytes);
      client.endWriting();
      await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the first');
      // The end of the caller is here before the answer is.
      await stalled(() => client.socket.bytesWritten);
      gate.open();
      await assertOver(world, client);
    });

    test(`within ${what}, when the second needs a connection of its own`, async () => {
      const gate = new Gate();
      await using world = await start({ gate, lost: true });
      await using client = await world.connect();
      await client.send(FIRST);
      await world.upstream.saw(({ sockets }) => sockets[0]?.requests.length === 1, 'the first');
      await client.send(bytes);
      client.endWriting();
      await stalled(() => client.socket.bytesWritten);
      gate.open();
      await assertOver(world, client);
    });

    test(`within ${what}, when the first is answered`, async () => {
      const gate = new Gate();
      gate.open();
      await using world = await start({ gate });
      await using client = await world.connect();
      await client.send(FIRST + bytes);
      client.endWriting();
      await assertOver(world, client);
    });
  }
});
