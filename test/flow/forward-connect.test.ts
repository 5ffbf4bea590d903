/** CONNECT: a tunnel to the target itself, of bytes that nobody looks at. */

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import { until, within } from '../support/waiting.ts';
import { stalled } from './http-world.ts';
import { type ForwardSetup, type ForwardWorld, startForward } from './forward-world.ts';

/** A server of plain bytes, whose connections a test holds in its hands. */
class Peer {
  readonly sockets: Socket[] = [];
  readonly #server: Server;

  constructor(connected: (socket: Socket) => void) {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.sockets.push(socket);
      socket.on('error', () => undefined);
      connected(socket);
    });
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get authority(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async first(): Promise<Socket> {
    await until(() => this.sockets.length > 0, 'a connection of the tunnel');
    const [socket] = this.sockets;
    assert.ok(socket !== undefined);
    return socket;
  }

  [Symbol.dispose](): void {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
  }
}

const peer = (connected: (socket: Socket) => void = () => undefined): Promise<Peer> =>
  new Peer(connected).listen();

async function open(world: ForwardWorld, authority: string, early = ''): Promise<RawClient> {
  const client = await world.connect();
  await client.send(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n${early}`);
  const head = await client.head();
  assert.equal(head.status, 200);
  return client;
}

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

for (const engine of ['handle', 'public'] as const) {
  const start = (setup: ForwardSetup = {}): Promise<ForwardWorld> =>
    startForward({ engine, ...setup });

  describe(`a tunnel (engine ${engine})`, () => {
    it('is answered by 200 without any field', async () => {
      await using world = await start();
      using target = await peer();
      await using client = await open(world, target.authority);
      (await target.first()).end('x');
      assert.equal((await client.untilEnd()).toString(), 'x');
      await using other = await world.connect();
      await other.send(`CONNECT ${target.authority} HTTP/1.1\r\nHost: x\r\n\r\n`);
      assert.deepEqual((await other.head()).fields, []);
    });

    it('keeps bytes that come early on either side', async () => {
      await using world = await start();
      using target = await peer((socket) => socket.write('hello of the server'));
      await using client = await open(world, target.authority, 'hello of the caller');
      const socket = await target.first();
      let seen = '';
      socket.on('data', (bytes) => (seen += bytes.toString()));
      assert.equal((await client.bytes(19)).toString(), 'hello of the server');
      await until(() => seen === 'hello of the caller', 'the early bytes of the caller');
    });

    it('keeps more early bytes than are held at a time', async () => {
      await using world = await start();
      const digest = createHash('sha256');
      let length = 0;
      using target = await peer((socket) =>
        socket.on('data', (bytes) => {
          length += bytes.length;
          digest.update(bytes);
        }),
      );
      const body = randomBytes(300_000);
      await using client = await world.connect();
      await client.send(
        Buffer.concat([
          Buffer.from(`CONNECT ${target.authority} HTTP/1.1\r\nHost: x\r\n\r\n`),
          body,
        ]),
      );
      assert.equal((await client.head()).status, 200);
      await until(() => length === body.length, 'all early bytes');
      assert.equal(digest.digest('hex'), hash(body));
    });

    it('passes a half-close on, and the other half goes on', async () => {
      await using world = await start();
      using target = await peer((socket) =>
        socket.on('end', () => {
          socket.write('after your end');
          socket.end();
        }),
      );
      await using client = await open(world, target.authority);
      (await target.first()).resume();
      client.endWriting();
      assert.equal((await client.untilEnd()).toString(), 'after your end');
      await world.daemon.measured(
        (metrics) => metrics.sum('sidekerb_tunnels') === 0,
        'the end of the tunnel',
      );
    });

    it('passes the half-close of the target on', async () => {
      await using world = await start();
      using target = await peer((socket) => socket.end('bye'));
      await using client = await open(world, target.authority);
      const socket = await target.first();
      let seen = '';
      socket.on('data', (bytes) => (seen += bytes.toString()));
      assert.equal((await client.untilEnd()).toString(), 'bye');
      await client.send('still here');
      await until(() => seen === 'still here', 'bytes after the half-close');
    });

    it('carries a flow in both directions at once, byte for byte', async () => {
      await using world = await start();
      const up = randomBytes(12 * 1024 * 1024);
      const down = randomBytes(12 * 1024 * 1024);
      const digest = createHash('sha256');
      let length = 0;
      using target = await peer((socket) => {
        socket.on('data', (bytes) => {
          length += bytes.length;
          digest.update(bytes);
        });
        socket.write(down);
      });
      await using client = await open(world, target.authority);
      const [received] = await Promise.all([client.bytes(down.length, 20_000), client.send(up)]);
      assert.equal(hash(received), hash(down));
      await until(() => length === up.length, 'the whole upload', 20_000);
      assert.equal(digest.digest('hex'), hash(up));
    });

    it('keeps the bytes of many flows apart, more than there are bulk buffers', async () => {
      await using world = await start();
      using target = await peer((socket) => socket.pipe(socket));
      const flow = async (nth: number): Promise<void> => {
        await using client = await open(world, target.authority);
        const sent = Buffer.alloc(2 * 1024 * 1024, `${nth} ${'x'.repeat(nth)}`);
        const [received] = await Promise.all([
          client.bytes(sent.length, 30_000),
          client.send(sent),
        ]);
        assert.ok(received.equals(sent), `flow ${nth}`);
      };
      await Promise.all(Array.from({ length: 40 }, (_, nth) => flow(nth)));
    });

    it('stops reading one side when the other does not read', async () => {
      await using world = await start();
      let written = 0;
      using target = await peer((socket) => {
        const piece = Buffer.alloc(256 * 1024);
        const pump = (): void => {
          while (socket.write(piece)) written += piece.length;
          written += piece.length;
        };
        socket.on('drain', pump);
        pump();
      });
      await using client = await world.connect();
      client.socket.pause();
      await client.send(`CONNECT ${target.authority} HTTP/1.1\r\nHost: x\r\n\r\n`);
      await target.first();
      await stalled(() => written);
      // Buffers of two kernels on each side, and one read of the daemon.
      assert.ok(written < 64 * 1024 * 1024, String(written));
    });

    it('ends when the target breaks, and when the caller does', async () => {
      await using world = await start();
      using target = await peer();
      await using client = await open(world, target.authority);
      (await target.first()).resetAndDestroy();
      // A cut must not look like an end (RFC 9293 3.5.2).
      await assert.rejects(client.untilEnd(), { code: 'ECONNRESET' });
      await using second = await open(world, target.authority);
      await until(() => target.sockets.length === 2, 'the second connection');
      const [, socket] = target.sockets;
      assert.ok(socket !== undefined);
      const broken = once(socket, 'error');
      second.reset();
      const [error] = await within(broken, 'its end');
      assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET');
    });

    it('is no connection for anything else, and is counted', async () => {
      await using world = await start();
      await using client = await world.tunnel();
      await client.send('GET /inside HTTP/1.1\r\nHost: a\r\n\r\n');
      assert.equal((await client.response()).status, 200);
      assert.equal((await world.ask('/outside')).status, 200);
      await using again = await world.tunnel();
      await again.send('GET /again HTTP/1.1\r\nHost: a\r\n\r\n');
      assert.equal((await again.response()).status, 200);
      const paths = world.upstream.journal.sockets.map(({ requests }) =>
        requests.map(({ target }) => target).join(' '),
      );
      assert.deepEqual(paths.toSorted(), ['/again', '/inside', '/outside']);
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_tunnels', { listener: 'egress' }), 2);
      client.endWriting();
      again.endWriting();
      await Promise.all([client.untilEnd(), again.untilEnd()]);
      await world.daemon.measured(
        (text) =>
          text.sum('sidekerb_tunnels') === 0 &&
          text.sum('sidekerb_requests_total', { upstream: 'direct', class: '2xx' }) === 3,
        'two tunnels and a request',
      );
      assert.equal(
        metrics.sum('sidekerb_upstream_connections', { upstream: 'direct', state: 'active' }),
        2,
      );
    });
  });
}

describe('a silent tunnel', () => {
  it('ends after tunnelIdle, and a byte of either side puts that off', async () => {
    await using world = await startForward({ listener: 'timeouts: { tunnelIdle: 300ms }' });
    using target = await peer();
    const opened = performance.now();
    await using client = await open(world, target.authority);
    const socket = await target.first();
    socket.resume();
    let sent = 0;
    let lastAt = opened;
    // Bytes of each side in turn, for longer than the limit.
    while (performance.now() - opened < 700) {
      await until(() => performance.now() - lastAt > 100, 'a pause');
      lastAt = performance.now();
      sent += 1;
      if (sent % 2 === 0) await client.send('x');
      else socket.write('y');
    }
    const got = await client.untilEnd();
    assert.equal(got.toString(), 'y'.repeat(Math.ceil(sent / 2)));
    const silentMs = performance.now() - lastAt;
    assert.ok(silentMs >= 250 && silentMs < 2000, String(silentMs));
  });
});

describe('a CONNECT that leads nowhere', () => {
  const rows: readonly (readonly [target: string, status: number, code: string])[] = [
    ['127.0.0.1:1', 502, 'connect-failed'],
    ['nowhere.test:443', 502, 'connect-failed'],
    ['example.com:22', 403, 'target-denied'],
    ['localhost:443', 403, 'target-denied'],
    ['inside.test:443', 403, 'target-denied'],
  ];
  for (const [target, status, code] of rows) {
    it(`to ${target} is ${status}, and the connection closes`, async () => {
      await using world = await startForward({
        allow: "['127.0.0.1:1', '*:443']",
        names: { 'inside.test': ['10.0.0.1', '127.0.0.1'] },
      });
      await using client = await world.connect();
      await client.send(
        `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\nGET / HTTP/1.1\r\n\r\n`,
      );
      const answer = await client.response('GET');
      assert.equal(answer.status, status);
      assert.equal(answer.field('connection'), 'close');
      assert.match(answer.field('proxy-status') ?? '', new RegExp(code));
      assert.equal((await client.untilEnd()).length, 0);
      assert.equal(world.upstream.journal.sockets.length, 0);
    });
  }

  it('whose caller leaves meanwhile leaves nothing behind', async () => {
    await using world = await startForward();
    using target = await peer();
    await using client = await world.connect();
    await client.send(`CONNECT ${target.authority} HTTP/1.1\r\nHost: x\r\n\r\n`);
    client.reset();
    await world.daemon.measured(
      (metrics) =>
        metrics.sum('sidekerb_downstream_connections') === 0 &&
        metrics.sum('sidekerb_upstream_connections') === 0 &&
        metrics.sum('sidekerb_tunnels') === 0,
      'nothing open',
    );
  });
});
