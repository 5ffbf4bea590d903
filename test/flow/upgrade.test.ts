/** Protocol switches: WebSocket over the upstream socket of the principal, and all that is none. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import type { UpstreamWire } from '../support/upstream-options.ts';
import { Gate } from '../support/waiting.ts';
import { stalled, startWorld, type World } from './http-world.ts';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = createHash('sha1')
  .update(`${KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
  .digest('base64');
const FIELDS = {
  Connection: 'keep-alive, Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Key': KEY,
  'Sec-WebSocket-Version': '13',
} as const;

/** A masked frame of a client, the mask being zeros. */
const frame = (opcode: number, payload: string): Buffer =>
  Buffer.concat([
    Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]),
    Buffer.from(payload, 'latin1'),
  ]);
const echoed = (opcode: number, payload: string): string =>
  Buffer.concat([
    Buffer.from([0x80 | opcode, payload.length]),
    Buffer.from(payload, 'latin1'),
  ]).toString('latin1');

async function open(world: World): Promise<RawClient> {
  const client = await world.connect();
  await client.request('GET /ws', FIELDS);
  const head = await client.head();
  assert.equal(head.status, 101);
  return client;
}

const websocket = (): { upgrade: string } => ({ upgrade: 'websocket' });

for (const engine of ['handle', 'public'] as const) {
  describe(`a WebSocket (engine ${engine})`, () => {
    it('runs over the socket that is logged in, which is used for nothing else (R23)', async () => {
      await using world = await startWorld({
        engine,
        login: true,
        handler: (request) =>
          request.field('upgrade') === undefined ? { body: request.user ?? '' } : websocket(),
      });
      await using client = await world.connect();
      await client.request('GET /ws', FIELDS);
      const head = await client.head();
      assert.equal(head.status, 101);
      const fields = new Map(head.fields.map(([name, value]) => [name.toLowerCase(), value]));
      assert.deepEqual(
        [fields.get('upgrade'), fields.get('connection'), fields.get('sec-websocket-accept')],
        ['websocket', 'Upgrade', ACCEPT],
      );
      await client.send(frame(1, 'hello'));
      assert.equal((await client.bytes(7)).toString('latin1'), echoed(1, 'hello'));
      const other = await world.daemon.ask('GET /other');
      assert.equal(other.body.toString(), 'LAB\\alice');
      const paths = world.upstream.journal.sockets.map(({ requests }) =>
        requests
          .filter(({ method, status }) => method === 'GET' && status < 400)
          .map(({ target }) => target),
      );
      assert.deepEqual(
        paths.filter((path) => path.length > 0),
        [['/ws'], ['/other']],
      );
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_tunnels', { listener: 'main' }), 1);
    });

    it('goes onto a warm socket too', async () => {
      await using world = await startWorld({
        engine,
        login: true,
        handler: ({ field }) => (field('upgrade') === undefined ? {} : websocket()),
      });
      assert.equal((await world.daemon.ask('GET /')).status, 200);
      await using client = await open(world);
      await client.send(frame(2, 'x'));
      assert.equal((await client.bytes(3)).toString('latin1'), echoed(2, 'x'));
      assert.equal(world.upstream.journal.sockets.length, 1);
    });

    it('ends from the side of the caller, and from the side of the upstream', async () => {
      await using world = await startWorld({ engine, handler: websocket });
      for (const side of ['caller', 'upstream', 'reset'] as const) {
        await using client = await open(world);
        if (side === 'caller') {
          client.endWriting();
          assert.equal((await client.untilEnd()).length, 0);
        } else if (side === 'upstream') {
          await client.send(frame(8, '\x03\xe8'));
          assert.equal((await client.untilEnd()).toString('latin1'), echoed(8, '\x03\xe8'));
          client.endWriting();
        } else {
          client.reset();
        }
        await world.upstream.saw(({ sockets }) => sockets.every((socket) => !socket.open), side);
      }
      await world.daemon.measured(
        (metrics) =>
          metrics.sum('sidekerb_tunnels') === 0 &&
          metrics.sum('sidekerb_downstream_connections') === 0 &&
          metrics.sum('sidekerb_requests_total', { class: '1xx', upstream: 'origin' }) === 3,
        'three tunnels that ended',
      );
    });

    it('may be half closed: the other half goes on', async () => {
      const run = async (wire: UpstreamWire): Promise<'fin'> => {
        await wire.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
        );
        let got = '';
        for (;;) {
          const piece = await wire.some(100);
          if (piece === undefined) break;
          got += piece.toString('latin1');
        }
        await wire.write(`after your end: ${got}`);
        return 'fin';
      };
      await using world = await startWorld({ engine, handler: () => ({ run }) });
      await using client = await open(world);
      await client.send('bye');
      client.endWriting();
      assert.equal((await client.untilEnd()).toString(), 'after your end: bye');
    });

    it('takes bytes that are early on either side', async () => {
      const gate = new Gate();
      const run = async (wire: UpstreamWire): Promise<'fin'> => {
        await gate.pass();
        await wire.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nearly answer',
        );
        const got = await wire.some(100);
        await wire.write(`, got ${got?.toString('latin1') ?? ''}`);
        return 'fin';
      };
      await using world = await startWorld({ engine, handler: () => ({ run }) });
      await using client = await world.connect();
      const lines = Object.entries(FIELDS).map(([name, value]) => `${name}: ${value}\r\n`);
      await client.send(
        `GET /ws HTTP/1.1\r\nHost: localhost\r\n${lines.join('')}\r\nearly question`,
      );
      gate.open();
      assert.equal((await client.head()).status, 101);
      const rest = (await client.untilEnd()).toString('latin1');
      assert.equal(rest, 'early answer, got early question');
    });

    it('is stopped at a side that does not read (G3)', async () => {
      let written = 0;
      const run = async (wire: UpstreamWire): Promise<'fin'> => {
        await wire.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
        );
        const piece = Buffer.alloc(1 << 16);
        for (; written < 96 << 20; written += piece.length) await wire.write(piece);
        return 'fin';
      };
      await using world = await startWorld({ engine, handler: () => ({ run }) });
      await using client = await open(world);
      await stalled(() => written);
      assert.ok(written < 48 << 20, `${written} bytes were taken`);
      let length = 0;
      for (;;) {
        const piece = await client.some(1 << 20);
        if (piece === undefined) break;
        length += piece.length;
      }
      assert.equal(length, 96 << 20);
    });
  });
}

describe('a tunnel', () => {
  it('that is silent ends after tunnelIdle, and bytes keep it', async () => {
    await using world = await startWorld({
      handler: websocket,
      listener: 'timeouts: { tunnelIdle: 300ms, idle: 1m }',
    });
    await using client = await open(world);
    const start = performance.now();
    while (performance.now() - start < 600) {
      await client.send(frame(1, 'a'));
      await client.bytes(3);
    }
    await client.gone();
    await world.upstream.saw(
      ({ sockets }) => sockets.every(({ open: isOpen }) => !isOpen),
      'the end',
    );
  });
});

describe('an upgrade', () => {
  const refused = async (
    raw: string,
    fields: Readonly<Record<string, string>> = FIELDS,
  ): Promise<void> => {
    await using world = await startWorld({ handler: () => ({ raw }) });
    const { status, field } = await world.daemon.ask('GET /ws', fields);
    assert.equal(status, 502);
    assert.match(field('proxy-status') ?? '', /details="upgrade-failed"/);
    await world.upstream.saw(
      ({ sockets }) => sockets.every(({ open: isOpen }) => !isOpen),
      'the end',
    );
  };
  const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\n';

  it('that nobody asked for is 502 (E8)', async () => {
    await refused(`${SWITCH}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, {});
  });

  it('to another protocol than the one asked for is 502 (E8)', async () => {
    await refused(`${SWITCH}Connection: Upgrade\r\nUpgrade: tea\r\n\r\n`);
    await refused(`${SWITCH}Connection: Upgrade\r\nUpgrade: websocket, tea\r\n\r\n`);
    await refused(`${SWITCH}Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: tea\r\n\r\n`);
  });

  it('whose 101 has not both fields is 502 (E8)', async () => {
    await refused(`${SWITCH}Upgrade: websocket\r\n\r\n`);
    await refused(`${SWITCH}Connection: Upgrade\r\n\r\n`);
  });

  it('that the upstream refuses is its plain answer, and the connections go on', async () => {
    await using world = await startWorld({
      handler: () => ({ status: 403, body: 'no sockets here' }),
    });
    await using client = await world.connect();
    for (let nth = 0; nth < 2; nth += 1) {
      await client.request('GET /ws', FIELDS);
      const { status, body, field } = await client.response();
      assert.deepEqual(
        [status, body.toString(), field('connection')],
        [403, 'no sockets here', undefined],
      );
    }
    assert.equal(world.upstream.journal.sockets.length, 1);
  });

  const plain: [
    title: string,
    line: string,
    fields: Readonly<Record<string, string>>,
    body?: string,
  ][] = [
    [
      'to h2c',
      'GET /',
      { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABk' },
    ],
    ['to a protocol that the route does not list', 'GET /', { ...FIELDS, Upgrade: 'irc' }],
    ['to one of several protocols', 'GET /', { ...FIELDS, Upgrade: 'websocket, irc' }],
    ['without Connection: Upgrade', 'GET /', { ...FIELDS, Connection: 'keep-alive' }],
    ['with a method other than GET', 'POST /', { ...FIELDS, 'Content-Length': '0' }],
    ['with a body', 'GET /', { ...FIELDS, 'Content-Length': '2' }, 'ab'],
  ];
  for (const [title, line, fields, body] of plain) {
    it(`${title} is served as a plain request (C25)`, async () => {
      await using world = await startWorld();
      const { status } = await world.daemon.ask(line, fields, body);
      assert.equal(status, 200);
      const names = world.upstream.requests[0]?.fields.map(([name]) => name.toLowerCase()) ?? [];
      assert.ok(!names.includes('upgrade') && !names.includes('http2-settings'));
      assert.ok(!names.includes('connection'));
    });
  }

  it('of another kind works where the route lists it, and websocket then does not', async () => {
    await using world = await startWorld({
      route: 'upgrade: [tea]',
      handler: ({ field }) =>
        field('upgrade') === undefined ? { body: 'plain' } : { upgrade: 'tea' },
    });
    await using client = await world.connect();
    await client.request('GET /', { Connection: 'upgrade', Upgrade: 'TEA' });
    assert.equal((await client.head()).status, 101);
    await client.send('cup');
    assert.equal((await client.bytes(3)).toString(), 'cup');
    assert.equal((await world.daemon.ask('GET /', FIELDS)).body.toString(), 'plain');
  });
});
