/** Callers who log in to an origin by themselves, through the forward listener and through a parent. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { logIn, testType1, testType3 } from '../support/ntlm-client.ts';
import type { RawClient } from '../support/raw-client.ts';
import { Gate, until } from '../support/waiting.ts';
import { ask, marks, type ParentSetup, type ParentWorld, startParent } from './parent-world.ts';

const LOGINS = {
  alice: { domain: 'LAB', user: 'alice', password: 'alice-secret' },
  bob: { domain: 'LAB', user: 'bob', password: 'bob-secret' },
} as const;

type Who = keyof typeof LOGINS;

/** Each way to an NTLM origin, by its listener. */
const WAYS: Readonly<
  Record<string, { setup: ParentSetup; target: (world: ParentWorld) => string }>
> = {
  directly: {
    setup: { listener: "allow: ['127.0.0.1:*']" },
    target: ({ origin }) => `http://127.0.0.1:${origin.port}`,
  },
  'through a parent': {
    setup: {},
    target: () => 'http://app.test',
  },
  'through a parent that asks for nothing': {
    setup: { auth: 'off', parent: { scheme: 'none' } },
    target: () => 'http://app.test',
  },
};

async function own(client: RawClient, who: Who, url: string): Promise<string | undefined> {
  const host = new URL(url).host;
  const fields = { Host: host, ...marks(undefined, who) };
  return (await logIn(client, LOGINS[who], url, fields)).field('X-User');
}

for (const [way, { setup, target }] of Object.entries(WAYS)) {
  describe(`a caller's own NTLM ${way}`, () => {
    const start = (more: ParentSetup = {}): Promise<ParentWorld> =>
      startParent({ origin: { scheme: 'ntlm' }, ...setup, ...more });

    test('lasts on the connection of the caller, and the next request needs none', async () => {
      await using world = await start();
      await using client = await world.daemon.connect();
      const url = target(world);
      assert.equal(await own(client, 'alice', `${url}/login`), 'LAB\\alice');
      for (const path of ['/1', '/2']) {
        const answer = await ask(client, `GET ${url}${path}`, marks(undefined, 'alice'));
        assert.equal(answer.status, 200);
        assert.equal(answer.field('X-User'), 'LAB\\alice');
      }
      assert.equal(world.origin.count('type3'), 1);
    });

    test('of 20 callers at once is never crossed with another', async () => {
      await using world = await start();
      const url = target(world);
      const callers = Array.from({ length: 20 }, async (_, n) => {
        const who = n % 2 === 0 ? 'alice' : 'bob';
        await using client = await world.daemon.connect();
        assert.equal(await own(client, who, `${url}/${n}`), `LAB\\${who}`);
        for (let i = 0; i < 5; i += 1) {
          const answer = await ask(client, `GET ${url}/${n}/${i}`, marks(undefined, who));
          assert.equal(answer.field('X-User'), `LAB\\${who}`);
        }
      });
      await Promise.all(callers);
      assert.equal(world.origin.journal.sockets.filter(({ type3 }) => type3 > 0).length, 20);
    });

    test('ends with the caller, and the caller with it', async () => {
      await using world = await start();
      const url = target(world);
      const server = way === 'directly' ? world.origin : world.parent;
      const first = await world.daemon.connect();
      assert.equal(await own(first, 'alice', `${url}/x`), 'LAB\\alice');
      first.endWriting();
      await first.gone();
      await world.daemon.measured(
        (metrics) => metrics.sum('sidekerb_upstream_connections', { state: 'in_use' }) === 0,
        'the pin has ended',
      );
      await until(() => world.origin.openSockets === 0, 'closed at the origin');
      await using second = await world.daemon.connect();
      assert.equal(await own(second, 'bob', `${url}/x`), 'LAB\\bob');
      server.drop('fin');
      await second.gone();
    });

    test('is asked for by a 401 whose connection is his from then on', async () => {
      await using world = await start();
      const url = target(world);
      await using client = await world.daemon.connect();
      const answer = await ask(client, `GET ${url}/x`);
      assert.equal(answer.status, 401);
      assert.deepEqual(answer.all('WWW-Authenticate'), ['NTLM']);
      assert.equal(answer.field('Proxy-Support'), 'Session-Based-Authentication');
      assert.equal(await own(client, 'alice', `${url}/x`), 'LAB\\alice');
      await using other = await world.daemon.connect();
      assert.equal((await ask(other, `GET ${url}/y`)).status, 401);
    });

    test('R32 R35 whose last message is lost is not sent again on another connection', async () => {
      for (const how of ['fin', 'reset'] as const) {
        await using world = await start({
          origin: { scheme: 'ntlm', login: { type3: how } },
          parent: { ...setup.parent, cutsWithOrigin: true },
        });
        const url = target(world);
        await using client = await world.daemon.connect();
        // A connection that others have used before.
        assert.equal((await ask(client, `GET ${url}/x`)).status, 401);
        const { host } = new URL(url);
        const asked = await ask(client, `GET ${url}/x`, {
          Host: host,
          Authorization: `NTLM ${testType1()}`,
        });
        const type2 = /NTLM (\S+)/.exec(asked.field('WWW-Authenticate') ?? '')?.[1] ?? '';
        await client.request(`GET ${url}/x`, {
          Host: host,
          Authorization: `NTLM ${testType3(LOGINS.alice, type2)}`,
        });
        const answer = await client.response();
        assert.equal(answer.status, 502);
        assert.equal(answer.field('Connection'), 'close');
        await client.gone();
        assert.equal(world.origin.count('type3'), 1);
      }
    });

    test('ends where its connection ends with an answer, which says so', async () => {
      const parent = { ...setup.parent, cutsWithOrigin: true, closesWithOrigin: true };
      await using first = await start({
        origin: { scheme: 'ntlm', login: { type1: 'challenge-close' } },
        parent,
      });
      await using client = await first.daemon.connect();
      const asked = await ask(client, `GET ${target(first)}/x`, {
        Authorization: `NTLM ${testType1()}`,
      });
      assert.equal(asked.status, 401);
      assert.equal(asked.field('Connection'), 'close');
      await client.gone();
      await using second = await start({
        origin: {
          scheme: 'ntlm',
          handler: ({ target: path }) => (path === '/last' ? { after: 'fin' } : {}),
        },
        parent,
      });
      await using other = await second.daemon.connect();
      const url = target(second);
      assert.equal(
        (await logIn(other, LOGINS.alice, url, { Host: new URL(url).host })).status,
        200,
      );
      const last = await ask(other, `GET ${url}/last`);
      assert.equal(last.status, 200);
      assert.equal(last.field('Connection'), 'close');
      await other.gone();
    });

    test('is nothing for HTTP/1.0: neither challenges nor credentials pass', async () => {
      await using world = await start();
      const url = target(world);
      const { host } = new URL(url);
      for (const kept of ['', 'Connection: keep-alive\r\n']) {
        await using asking = await world.daemon.connect();
        await asking.send(`GET ${url}/x HTTP/1.0\r\nHost: ${host}\r\n${kept}\r\n`);
        const answer = await asking.response();
        assert.equal(answer.status, 401);
        assert.deepEqual(answer.all('WWW-Authenticate'), []);
        await using sending = await world.daemon.connect();
        const line = `Authorization: NTLM ${testType1()}\r\n`;
        await sending.send(`GET ${url}/x HTTP/1.0\r\nHost: ${host}\r\n${kept}${line}\r\n`);
        assert.equal((await sending.response()).status, 403);
      }
      assert.equal(world.origin.count('type1'), 0);
    });

    test('of a caller who says close gets no challenge', async () => {
      await using world = await start();
      await using client = await world.daemon.connect();
      const answer = await ask(client, `GET ${target(world)}/x`, { Connection: 'close' });
      assert.equal(answer.status, 401);
      assert.deepEqual(answer.all('WWW-Authenticate'), []);
    });

    test('with a cut answer ends with the caller’s connection', async () => {
      await using world = await start({
        parent: { ...setup.parent, cutsWithOrigin: true },
        origin: {
          scheme: 'ntlm',
          handler: ({ target: path }) =>
            path.endsWith('/cut')
              ? { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx', after: 'reset' }
              : {},
        },
      });
      const url = target(world);
      await using client = await world.daemon.connect();
      await own(client, 'alice', `${url}/x`);
      const { host } = new URL(url);
      await client.request(`GET ${url}/cut`, { Host: host });
      await client.gone();
      await until(() => world.origin.openSockets === 0, 'closed at the origin');
    });
  });
}

describe('a parent that asks for its own login again on the caller’s connection', () => {
  test('R35 ends both: the caller’s login is not continued on another one', async () => {
    for (const forgetAfter of [2, 3, 4]) {
      await using world = await startParent({
        origin: { scheme: 'ntlm' },
        parent: { forgetAfter },
      });
      await world.prove().catch(() => undefined);
      await using client = await world.daemon.connect();
      let closed = false;
      for (let n = 0; n < 3 && !closed; n += 1) {
        const answer = await logIn(client, LOGINS.alice, 'http://app.test/x', { Host: 'app.test' });
        closed = answer.field('Connection') === 'close';
        assert.equal(answer.status, closed ? 502 : 200);
      }
      assert.ok(closed);
      await client.gone();
      await until(() => world.parent.openSockets === 0, 'closed at the parent');
    }
  });
});

describe('a caller’s own login through a parent whose principal is flushed', () => {
  test('R15 R50 goes on nowhere, whether the connection is idle or in use then', async () => {
    for (const inUse of [false, true]) {
      const gate = new Gate();
      await using world = await startParent({
        origin: {
          scheme: 'ntlm',
          handler: async ({ target }) => {
            if (target === '/slow') await gate.pass();
            return {};
          },
        },
      });
      await using client = await world.daemon.connect();
      const host = { Host: 'app.test' };
      assert.equal((await logIn(client, LOGINS.alice, 'http://app.test/x', host)).status, 200);
      if (inUse) {
        await client.request('GET http://app.test/slow', host);
        await until(() => gate.arrivals === 1, 'the request is in work');
      }
      assert.equal((await world.daemon.admin('POST /api/principals/pat/flush')).status, 200);
      gate.open();
      if (inUse) assert.equal((await client.response()).status, 200);
      const sockets = world.parent.journal.sockets.length;
      assert.equal((await ask(client, 'GET http://app.test/y')).status, 401);
      assert.equal(world.parent.journal.sockets.length, sockets + 1);
      await until(() => world.parent.openSockets === 1, 'the old one is closed');
    }
  });
});

describe('a parent without Proxy-Support', () => {
  const setup: ParentSetup = { origin: { scheme: 'ntlm' }, parent: { proxySupport: false } };

  test('RFC 4559 6: challenges of connections do not pass', async () => {
    await using world = await startParent(setup);
    await using client = await world.daemon.connect();
    const answer = await ask(client, 'GET http://app.test/x');
    assert.equal(answer.status, 401);
    assert.deepEqual(answer.all('WWW-Authenticate'), []);
    assert.equal(answer.field('Proxy-Support'), undefined);
  });

  test('RFC 4559 6: a caller who logs in all the same gets no further', async () => {
    await using world = await startParent(setup);
    await using client = await world.daemon.connect();
    const answer = await logIn(client, LOGINS.alice, 'http://app.test/x', { Host: 'app.test' });
    assert.equal(answer.status, 401);
    assert.equal(world.origin.count('type3'), 0);
  });

  test('RFC 4559 6: gets no login of ours to the origin', async () => {
    await using world = await startParent({
      ...setup,
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app]',
    });
    const answer = await world.ask('GET http://app.test/x', marks('pat', 'alice'));
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /handshake-failed/);
    assert.equal(world.origin.count('type3'), 0);
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
      'no socket',
    );
  });
});

describe('a caller’s tokens where the daemon logs in', () => {
  test('are refused', async () => {
    await using world = await startParent({
      origin: { scheme: 'ntlm' },
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app]',
    });
    for (const scheme of ['NTLM', 'Negotiate']) {
      const answer = await world.ask('GET http://app.test/x', {
        Authorization: `${scheme} ${testType1()}`,
      });
      assert.equal(answer.status, 403);
    }
    assert.equal(world.origin.requests.length, 0);
  });

  test('a login in two pieces over two connections is refused by the origin', async () => {
    await using world = await startParent({ origin: { scheme: 'ntlm' } });
    await using first = await world.daemon.connect();
    const asked = await ask(first, 'GET http://app.test/x', {
      Authorization: `NTLM ${testType1()}`,
    });
    const type2 = /NTLM (\S+)/.exec(asked.field('WWW-Authenticate') ?? '')?.[1] ?? '';
    assert.notEqual(type2, '');
    await using second = await world.daemon.connect();
    const answer = await ask(second, 'GET http://app.test/x', {
      Authorization: `NTLM ${testType3(LOGINS.alice, type2)}`,
    });
    assert.equal(answer.status, 401);
    // What the oracles take for a fault is what this caller did.
    assert.equal(world.origin.journal.sockets.filter(({ strayType3 }) => strayType3 > 0).length, 1);
    for (const socket of world.origin.journal.sockets) socket.strayType3 = 0;
  });
});
