/** Dialling ends once, whoever ends it: the peer, the deadline, the caller, or Node at once. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import type { ProxyError } from '../../../src/errors.ts';
import { createReadBuffers } from '../../../src/transport/transport.ts';
import type { UpstreamConnection } from '../../../src/upstream/connection.ts';
import { type DialDeps, dial, dialInto } from '../../../src/upstream/dial.ts';
import { SessionStore } from '../../../src/upstream/session-store.ts';
import { nothingLearned, type UpstreamTarget } from '../../../src/upstream/target.ts';
import { createTlsProfile } from '../../../src/upstream/tls-profile.ts';
import { testCertificate } from '../../support/certificates.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const CONNECT_MS = 1000;

function world(): { readonly clock: FakeClock; readonly deps: DialDeps } {
  const clock = new FakeClock();
  const { deadlines } = clock;
  const buffers = createReadBuffers();
  return { clock, deps: { clock, deadlines, buffers, sessions: new SessionStore(1) } };
}

const target = (port: number, rest: Partial<UpstreamTarget> = {}): UpstreamTarget => ({
  name: 'origin',
  scheme: 'http',
  host: '127.0.0.1',
  port,
  authority: `127.0.0.1:${port}`,
  basePath: '',
  tls: undefined,
  connectMs: CONNECT_MS,
  answerMs: CONNECT_MS,
  login: undefined,
  learned: nothingLearned(),
  ...rest,
});

/** What `dialInto` said, call by call. */
function dialled(deps: DialDeps, to: UpstreamTarget) {
  const codes: string[] = [];
  const first = Promise.withResolvers<UpstreamConnection | undefined>();
  const done = (error: ProxyError | undefined, connection: UpstreamConnection | undefined) => {
    codes.push(error?.code ?? 'connected');
    first.resolve(connection);
  };
  return { codes, first: first.promise, made: dialInto(deps, to, 'partition', done) };
}

describe('dialling', () => {
  test('brings a connection, after which abort and deadline do nothing', async (t) => {
    const server = createServer().listen(0, '127.0.0.1');
    t.after(() => server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const { clock, deps } = world();

    const { codes, first, made } = dialled(deps, target(address.port));
    const connection = await first;
    t.after(() => connection?.destroy());
    made.abort();
    clock.advance(2 * CONNECT_MS);

    assert.deepEqual(codes, ['connected']);
    assert.equal(connection?.transport.socket?.destroyed, false);
  });

  test('keeps no TLS session of a connection that ended as it was handed over', async (t) => {
    const { cert, key, ca } = testCertificate();
    const options = { cert, key, maxVersion: 'TLSv1.2' } as const;
    const server = createTlsServer(options).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const { deps } = world();
    const tls = createTlsProfile({
      ca: [ca],
      extraCa: [],
      servername: 'localhost',
      identity: undefined,
      minVersion: 'TLSv1.2',
      dangerousSkipVerify: false,
    });
    const to = target(address.port, { scheme: 'https', tls });
    for (const isKept of [false, true]) {
      const next = Promise.withResolvers<UpstreamConnection | undefined>();
      dialInto(deps, to, 'partition', (_error, connection) => {
        if (!isKept) connection?.destroy();
        next.resolve(connection);
      });
      const connection = await next.promise;
      t.after(() => connection?.destroy());
      assert.ok(connection?.binding !== undefined, 'the binding of a full handshake');
      await new Promise((resolve) => setImmediate(resolve));
      const session = deps.sessions.find('partition');
      assert.equal(session !== undefined, isKept);
      if (isKept) assert.deepEqual(session?.binding, connection.binding);
    }
  });

  test('ends inside of abort, once', () => {
    const { clock, deps } = world();
    const never = target(1, { resolve: () => new Promise(() => undefined) });

    const { codes, made } = dialled(deps, never);
    assert.deepEqual(codes, []);
    made.abort();
    assert.deepEqual(codes, ['downstream-closed']);
    made.abort();
    clock.advance(2 * CONNECT_MS);

    assert.deepEqual(codes, ['downstream-closed']);
  });

  test('ends at its deadline, after which abort does nothing', () => {
    const { clock, deps } = world();
    const never = target(1, { resolve: () => new Promise(() => undefined) });

    const { codes, made } = dialled(deps, never);
    clock.advance(2 * CONNECT_MS);
    made.abort();

    assert.deepEqual(codes, ['connect-timeout']);
  });

  test('ends once where Node throws at once, and leaves no deadline', async () => {
    const { clock, deps } = world();
    const impossible = target(65_536);

    const { codes } = dialled(deps, impossible);
    clock.advance(2 * CONNECT_MS);
    assert.deepEqual(codes, ['connect-failed']);

    const { signal } = new AbortController();
    await assert.rejects(dial(deps, impossible, 'partition', signal), {
      code: 'connect-failed',
      message: /ERR_SOCKET_BAD_PORT/,
    });
  });
});
