/** CONNECT through a parent: what it refuses, early bytes of both sides, half-close, and what is kept. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { fieldValues } from '../support/strict-http.ts';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';
import { Gate, until } from '../support/waiting.ts';
import { patterned } from './login-world.ts';
import { ask, marks, type ParentWorld, startParent } from './parent-world.ts';

/** An origin that speaks first, or what comes back as it came. */
const ECHO: ScriptedUpstreamOptions = {
  handler: () => ({
    run: async (wire) => {
      for (let bytes = await wire.some(65536); bytes; bytes = await wire.some(65536)) {
        await wire.write(bytes);
      }
      return 'fin';
    },
  }),
};

const noneOpen = (world: ParentWorld): Promise<void> =>
  world.daemon
    .measured((metrics) => metrics.sum('sidekerb_upstream_connections') === 0, 'no socket')
    .then(() => until(() => world.parent.openSockets === 0, 'all closed at the parent'));

describe('a CONNECT that the parent refuses', () => {
  for (const status of [403, 502, 500, 404, 302]) {
    for (const auth of ['off', undefined] as const) {
      const title = `R23 with ${status} ${auth === 'off' ? 'as nobody' : 'as pat'}`;
      test(`${title} is 502, ends the caller's connection, and leaves none`, async () => {
        await using world = await startParent({
          ...(auth === undefined ? {} : { auth }),
          parent: {
            ...(auth === 'off' ? { scheme: 'none' } : {}),
            intercept: ({ method }) =>
              method === 'CONNECT' ? { status, body: 'no such luck' } : undefined,
          },
        });
        for (const round of [1, 2]) {
          await using client = await world.daemon.connect();
          await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
          const answer = await client.response('CONNECT');
          assert.equal(answer.status, 502);
          const said = answer.field('Proxy-Status') ?? '';
          assert.match(said, /connect-refused-by-parent/);
          assert.match(said, new RegExp(`received-status=${status}`), `round ${round}`);
          assert.equal(answer.field('Connection'), 'close');
          assert.ok(!answer.body.includes('luck'));
          await client.gone();
        }
        await noneOpen(world);
        for (const { requests } of world.parent.journal.sockets) {
          const methods = new Set(requests.map(({ method }) => method));
          assert.deepEqual([...methods], ['CONNECT']);
        }
      });
    }
  }

  test('R23 lets nothing of what the caller sent behind it be a request', async () => {
    await using world = await startParent({
      parent: {
        intercept: ({ method }) => (method === 'CONNECT' ? { status: 403, body: 'x' } : undefined),
      },
    });
    await using client = await world.daemon.connect();
    await client.send(
      'CONNECT app.test:443 HTTP/1.1\r\nHost: app.test:443\r\n\r\n' +
        'GET http://app.test/hidden HTTP/1.1\r\nHost: app.test\r\n\r\n',
    );
    assert.equal((await client.response('CONNECT')).status, 502);
    await client.gone();
    assert.equal(world.origin.requests.length, 0);
  });

  test('R23 is not counted against the credential that it let in', async () => {
    await using world = await startParent({
      guard: 'rejections: 1',
      parent: {
        intercept: ({ method }) => (method === 'CONNECT' ? { status: 403, body: 'x' } : undefined),
      },
    });
    for (let n = 0; n < 4; n += 1) {
      await using client = await world.daemon.connect();
      await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
      const answer = await client.response('CONNECT');
      assert.match(answer.field('Proxy-Status') ?? '', /connect-refused-by-parent/, String(n));
    }
    assert.equal((await world.ask('GET http://app.test/x', marks('pat'))).status, 200);
  });

  test('R23 for a login to the origin behind it is 502, and no token of that is sent', async () => {
    const certificate = testCertificate({ names: ['app.test'] });
    await using world = await startParent({
      origin: { scheme: 'ntlm', tls: { certificate } },
      upstreams: {
        app: `{ url: 'https://app.test', auth: { principal: alice, schemes: [ntlm] }, tls: { ca: '${certificate.caFile}' } }`,
      },
      listener: 'via: [corp], origins: [app]',
      parent: { intercept: () => ({ status: 403, body: 'x' }) },
    });
    const answer = await world.ask('GET http://app.test/x', marks(undefined, 'alice'));
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /connect-refused-by-parent/);
    assert.equal(world.origin.journal.sockets.length, 0);
    await noneOpen(world);
  });
});

test('a parent that takes its time to reach a host is waited for as for an answer', async () => {
  const reached = new Gate();
  await using world = await startParent({
    corp: ', timeouts: { handshake: 200ms, response: 5s }',
    parent: {
      login: {
        beforeAnswer: async (_leg, socketId) => {
          // Another login, which is given up in the meantime.
          if (socketId === 3) await reached.pass();
        },
      },
      intercept: ({ target }) =>
        target.startsWith('dead')
          ? {
              run: async (wire) => {
                await reached.pass();
                await wire.write('HTTP/1.1 504 No answer\r\nContent-Length: 0\r\n\r\n');
                return 'fin';
              },
            }
          : undefined,
    },
  });
  await world.prove();
  const { client } = await world.connect('dead.test:443');
  await using dead = client;
  await until(() => reached.arrivals === 1, 'the parent dials');
  const late = await world.ask('GET http://app.test/x');
  assert.match(late.field('Proxy-Status') ?? '', /handshake-timeout/);
  reached.open();
  const answer = await dead.response('CONNECT');
  assert.match(answer.field('Proxy-Status') ?? '', /received-status=504/);
});

describe('a tunnel through a parent', () => {
  test('keeps what came behind the 200, before anything else of the origin', async () => {
    await using world = await startParent({
      origin: ECHO,
      parent: { behindEstablished: 'hello, ', establishedFields: 'X-Junk: 1\r\n' },
    });
    const { client } = await world.connect('app.test:443');
    await using tunnel = client;
    const head = await tunnel.head();
    assert.equal(head.status, 200);
    assert.deepEqual(fieldValues(head.fields, 'x-junk'), []);
    await tunnel.send('GET / HTTP/1.1\r\nHost: x\r\n\r\nworld');
    assert.equal((await tunnel.bytes(12)).toString(), 'hello, world');
  });

  test('E23 takes no framing field of the 200 for one', async () => {
    for (const field of ['Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n']) {
      for (const behindEstablished of ['', 'hello']) {
        await using world = await startParent({
          origin: ECHO,
          parent: { establishedFields: field, behindEstablished },
        });
        await using tunnel = await world.tunnel();
        await tunnel.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n-world');
        const expected = `${behindEstablished}-world`;
        assert.equal((await tunnel.bytes(expected.length)).toString(), expected);
      }
    }
  });

  test('keeps what the caller sent with his CONNECT', async () => {
    await using world = await startParent({ origin: ECHO });
    await using client = await world.daemon.connect();
    await client.send(
      'CONNECT app.test:443 HTTP/1.1\r\nHost: app.test:443\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nearly',
    );
    assert.equal((await client.head()).status, 200);
    assert.equal((await client.bytes(5)).toString(), 'early');
  });

  test('passes on the end of the caller, and bytes that still come after it', async () => {
    const body = patterned(700_000);
    await using world = await startParent({
      origin: {
        handler: () => ({
          run: async (wire) => {
            while ((await wire.some(65536)) !== undefined) continue;
            await wire.write(body);
            return 'fin';
          },
        }),
      },
    });
    await using tunnel = await world.tunnel();
    await tunnel.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    tunnel.endWriting();
    assert.ok((await tunnel.untilEnd()).equals(body));
    await noneOpen(world);
  });

  test('passes on the end of the origin, and bytes that the caller still sends', async () => {
    const got: Buffer[] = [];
    await using world = await startParent({
      origin: {
        handler: () => ({
          run: async (wire) => {
            await wire.write('bye');
            wire.end();
            for (let bytes = await wire.some(65536); bytes; bytes = await wire.some(65536)) {
              got.push(bytes);
            }
            return 'fin';
          },
        }),
      },
    });
    await using tunnel = await world.tunnel();
    await tunnel.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.equal((await tunnel.untilEnd()).toString(), 'bye');
    const body = patterned(300_000);
    await tunnel.send(body);
    tunnel.endWriting();
    await until(() => Buffer.concat(got).length === body.length, 'all arrived');
    assert.ok(Buffer.concat(got).equals(body));
    await noneOpen(world);
  });

  test('that breaks on one side ends on the other', async () => {
    await using world = await startParent({ origin: ECHO });
    const first = await world.tunnel();
    first.reset();
    await noneOpen(world);
    await using second = await world.tunnel();
    world.parent.drop('reset');
    await second.gone();
    await noneOpen(world);
  });

  test('of a caller who leaves during the login leaves no connection', async () => {
    const reached = Promise.withResolvers<undefined>();
    const go = Promise.withResolvers<undefined>();
    await using world = await startParent({
      parent: {
        login: {
          beforeAnswer: async () => {
            reached.resolve(undefined);
            await go.promise;
          },
        },
      },
    });
    await using client = await world.daemon.connect();
    await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
    await reached.promise;
    client.reset();
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
      'no socket',
    );
    go.resolve(undefined);
    assert.equal((await world.ask('GET http://app.test/x', marks('pat'))).status, 200);
  });

  test('goes over TLS to the parent as over TCP', async () => {
    const certificate = testCertificate();
    const inner = testCertificate({ names: ['app.test'] });
    await using world = await startParent({
      parent: { tls: { certificate } },
      corp: `, tls: { ca: '${certificate.caFile}' }`,
      origin: { tls: { certificate: inner } },
      upstreams: { app: `{ url: 'https://app.test', tls: { ca: '${inner.caFile}' } }` },
      listener: 'via: [corp], origins: [app]',
    });
    await using client = await world.daemon.connect();
    for (const n of [1, 2]) {
      const answer = await ask(client, 'GET http://app.test/x');
      assert.equal(answer.status, 200, String(n));
    }
    assert.deepEqual(
      world.parent.journal.sockets.map(({ secure, servername }) => [secure, servername]),
      [[true, 'localhost']],
    );
    assert.deepEqual(
      world.origin.journal.sockets.map(({ secure, servername }) => [secure, servername]),
      [[true, 'app.test']],
    );
  });
});

describe('TLS to an origin inside a CONNECT', () => {
  test('with a wrong certificate is 502, and no token is sent', async () => {
    const certificate = testCertificate({ names: ['app.test'] });
    const stranger = testCertificate({ names: ['stranger.test'] });
    for (const [shown, trusted] of [
      [certificate, stranger],
      [stranger, stranger],
    ] as const) {
      await using world = await startParent({
        origin: { scheme: 'ntlm', tls: { certificate: shown } },
        upstreams: {
          app: `{ url: 'https://app.test', auth: { principal: alice, schemes: [ntlm] }, tls: { ca: '${trusted.caFile}' } }`,
        },
        listener: 'via: [corp], origins: [app]',
      });
      const answer = await world.ask('GET http://app.test/x');
      assert.equal(answer.status, 502);
      assert.match(answer.field('Proxy-Status') ?? '', /tls-failed/);
      assert.equal(world.origin.requests.length, 0);
      assert.equal(world.origin.count('type1'), 0);
      // An origin that waits for a greeting does not see that the tunnel is gone.
      world.origin.drop('reset');
      await noneOpen(world);
    }
  });

  test('with bytes before it begins is 502', async () => {
    const certificate = testCertificate({ names: ['app.test'] });
    await using world = await startParent({
      origin: { tls: { certificate } },
      parent: { behindEstablished: 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' },
      upstreams: { app: `{ url: 'https://app.test', tls: { ca: '${certificate.caFile}' } }` },
      listener: 'via: [corp], origins: [app]',
    });
    const answer = await world.ask('GET http://app.test/x');
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /tls-failed/);
    // An origin that waits for a greeting does not see that the tunnel is gone.
    world.origin.drop('reset');
    await noneOpen(world);
  });
});
