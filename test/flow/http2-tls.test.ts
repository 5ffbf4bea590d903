/** A session on a socket whose TLS handshake chose h2: the streams, the end, and what it costs to break off. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { test } from 'node:test';
import { DeadlineWheel } from '../../src/deadlines.ts';
import { systemClock } from '../../src/clock.ts';
import type { ForwardingWriter } from '../../src/relay/plan.ts';
import { CallerSession } from '../../src/server/http2/caller-session.ts';
import { Carrier } from '../../src/server/http2/carrier.ts';
import { testCertificate } from '../support/certificates.ts';
import { answerOf, H2Client } from '../support/h2-client.ts';
import { until } from '../support/waiting.ts';
import { startWorld, type World } from './http-world.ts';

interface Front extends AsyncDisposable {
  readonly sessions: CallerSession[];
  readonly gone: CallerSession[];
  connect(): Promise<H2Client>;
}

/** TLS in front of a daemon: each stream goes to it by a connection of its own. */
async function startFront(world: World): Promise<Front> {
  const certificate = testCertificate();
  const deadlines = new DeadlineWheel(systemClock);
  deadlines.start();
  const sessions: CallerSession[] = [];
  const gone: CallerSession[] = [];
  const carrier = new Carrier();
  const serve = (socket: TLSSocket): void => {
    assert.equal(socket.alpnProtocol, 'h2');
    const session = new CallerSession(socket, {} as unknown as ForwardingWriter, {
      context: { clock: systemClock, deadlines },
      carrier,
      scheme: 'https',
      settings: { headMs: 1000, idleMs: 1000 },
      connect: (end) => {
        const daemon = connect({ port: world.daemon.address().port });
        end.pipe(daemon).pipe(end);
        end.on('error', () => daemon.resetAndDestroy());
        end.on('close', () => daemon.destroy());
        return { loggedMethod: '', refuse: () => assert.fail('nothing is refused') };
      },
      closed: (ended) => gone.push(ended),
    });
    sessions.push(session);
  };
  const { key, cert, ca } = certificate;
  const server = createServer({
    key,
    cert,
    ALPNProtocols: ['h2', 'http/1.1'],
    pauseOnConnect: true,
  });
  server.on('secureConnection', serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    sessions,
    gone,
    connect: () => H2Client.connect(`https://localhost:${port}`, 'localhost', { ca }),
    [Symbol.asyncDispose]: async () => {
      for (const session of sessions) session.destroy();
      deadlines.stop();
      server.close();
      await once(server, 'close');
    },
  };
}

test('many streams of one TLS connection are served, large bodies whole', async () => {
  await using world = await startWorld({ login: true });
  await using front = await startFront(world);
  await using client = await front.connect();
  const body = Buffer.alloc(1_000_003, 'tls');
  const digest = createHash('sha256').update(body).digest('hex');
  const answers = await Promise.all(
    ['/a', '/b', '/c'].map((path) => client.ask(`PUT ${path}`, {}, body)),
  );
  for (const { status, json } of answers) {
    assert.deepEqual([status, (json() as { bodySha256: string }).bodySha256], [200, digest]);
  }
  assert.equal(front.sessions.length, 1);
});

test('a stream that is broken off, and a drain, end as without TLS', async () => {
  await using world = await startWorld({
    handler: ({ target }) =>
      target === '/slow' ? { run: async (wire) => (await wire.gone, 'reset') } : { body: '' },
  });
  await using front = await startFront(world);
  await using client = await front.connect();
  const stream = client.open({ ':method': 'GET', ':path': '/slow' }, { ends: true });
  const answer = answerOf(stream);
  await world.upstream.saw(() => world.upstream.requests.length === 1, 'the request');
  stream.close(constants.NGHTTP2_CANCEL);
  assert.equal((await answer).status, 0);
  await world.daemon.logged(/downstream-closed/);
  for (const session of front.sessions) session.drain();
  await client.gone();
  assert.equal(client.goaway, constants.NGHTTP2_NO_ERROR);
  await until(() => front.gone.length === 1, 'the end of the session');
});
