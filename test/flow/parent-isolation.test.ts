/** Which requests may share a connection to a parent, and which credentials go where. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fieldValues } from '../support/strict-http.ts';
import { testCertificate } from '../support/certificates.ts';
import { identitiesOf } from '../support/daemon.ts';
import { until } from '../support/waiting.ts';
import { ask, marks, type ParentWorld, startParent } from './parent-world.ts';

const APP = `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`;

/** Targets that each socket of the parent was asked for, without legs of logins. */
const served = (world: ParentWorld): string[][] =>
  world.parent.journal.sockets.map(({ requests }) => [
    ...new Set(requests.filter(({ method }) => method === 'GET').map(({ target }) => target)),
  ]);

describe('connections to a parent', () => {
  test('R7 of two principals, and of nobody, are never shared', async () => {
    await using world = await startParent({
      parent: { open: ({ target }) => target.includes('/open/') },
      upstreams: {
        second: `{ proxy: '$parent', auth: { principal: eve, schemes: [ntlm] } }`,
        plain: `{ proxy: '$parent' }`,
      },
      listeners: [
        '{ name: second, listen: 127.0.0.1:0, mode: forward, via: [second] }',
        '{ name: plain, listen: 127.0.0.1:0, mode: forward, via: [plain] }',
        '{ name: again, listen: 127.0.0.1:0, mode: forward, via: [corp] }',
      ],
    });
    const who = { egress: 'pat', second: 'eve', plain: 'anonymous', again: 'pat' };
    const callers = Object.entries(who).flatMap(([listener, name]) => [
      { listener, name },
      { listener, name },
    ]);
    await Promise.all(
      callers.map(async ({ listener, name }) => {
        await using client = await world.daemon.connect(listener);
        for (let n = 0; n < 10; n += 1) {
          const path = name === 'anonymous' ? '/open/x' : '/x';
          const answer = await ask(client, `GET http://app.test${path}`, marks(name));
          assert.equal(answer.status, 200);
        }
      }),
    );
    const users = new Set(identitiesOf(world.parent.journal).map((list) => list.join()));
    assert.deepEqual([...users].toSorted(), ['', 'LAB\\eve', 'LAB\\pat']);
  });

  test('R7 by Basic are one principal’s too, and never of NTLM or nobody', async () => {
    const by = (name: string): string =>
      `{ proxy: '$parent', auth: { principal: ${name}, schemes: [basic], dangerousPlaintextBasic: true } }`;
    await using world = await startParent({
      parent: {
        takesBasic: true,
        challengeText: 'basic-first-lines',
        open: ({ target }) => target.includes('/open/'),
      },
      upstreams: { one: by('pat'), two: by('eve'), plain: `{ proxy: '$parent' }` },
      listeners: ['one', 'two', 'plain'].map(
        (name) => `{ name: ${name}, listen: 127.0.0.1:0, mode: forward, via: [${name}] }`,
      ),
    });
    const who = { egress: 'pat', one: 'pat', two: 'eve', plain: 'anonymous' };
    for (let round = 0; round < 3; round += 1) {
      for (const [listener, name] of Object.entries(who)) {
        const path = name === 'anonymous' ? '/open/x' : '/x';
        const line = `GET http://app.test${path}`;
        assert.equal((await world.ask(line, marks(name), '', listener)).status, 200, listener);
      }
    }
    const kinds = world.parent.journal.sockets.map(({ requests, logins }) => {
      const tokens = new Set(
        requests.map(({ token }) => (token.startsWith('type') ? 'ntlm' : token)),
      );
      return `${[...new Set(logins)].join()} ${tokens.has('basic') ? 'basic' : [...tokens].join()}`;
    });
    for (const wanted of ['LAB\\pat basic', 'LAB\\eve basic', ' none']) {
      assert.ok(kinds.includes(wanted), `${wanted} in ${kinds.join('; ')}`);
    }
    for (const { requests, logins, type3 } of world.parent.journal.sockets) {
      assert.ok(new Set(logins).size <= 1);
      const basics = requests.filter(({ token }) => token === 'basic').length;
      assert.ok(basics === 0 || type3 === 0);
    }
    for (const { fields } of world.origin.requests) {
      assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
    }
  });

  test('R7 for tunnels are one for each, whoever asks', async () => {
    await using world = await startParent();
    for (let n = 0; n < 3; n += 1) {
      await using tunnel = await world.tunnel();
      await tunnel.request('GET /t', { Host: 'app.test' });
      assert.equal((await tunnel.response()).status, 200);
    }
    assert.equal((await world.ask('GET http://app.test/a', marks('pat'))).status, 200);
    assert.equal(world.parent.journal.sockets.length, 4);
    for (const { requests } of world.parent.journal.sockets) {
      const methods = new Set(requests.map(({ method }) => method));
      assert.ok(!methods.has('CONNECT') || methods.size === 1);
    }
  });

  test('D11 without a login at the origin serve any origin', async () => {
    await using world = await startParent();
    await using client = await world.daemon.connect();
    for (const host of ['app.test', 'other.test', 'app.test']) {
      const answer = await ask(client, `GET http://${host}/x`, marks('pat'));
      assert.equal(answer.status, 200);
    }
    assert.deepEqual(served(world), [['http://app.test/x', 'http://other.test/x']]);
    assert.deepEqual(
      world.origin.requests.map(({ fields }) => fieldValues(fields, 'host').join()),
      // By socket of the origin; the first is the HEAD that settles the login.
      ['app.test', 'app.test', 'app.test', 'other.test'],
    );
  });

  test('R8 with a login at the origin serve that origin only', async () => {
    await using world = await startParent({
      origin: { scheme: 'ntlm' },
      upstreams: {
        app: APP,
        other: `{ url: 'http://other.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app, other]',
    });
    await using client = await world.daemon.connect();
    for (const host of ['app.test', 'other.test', 'app.test', 'other.test']) {
      const answer = await ask(client, `GET http://${host}/x`, marks('pat', 'alice'));
      assert.equal(answer.status, 200);
      assert.equal(answer.field('X-User'), 'LAB\\alice');
    }
    assert.deepEqual(served(world), [['http://app.test/x'], ['http://other.test/x']]);
    assert.equal(world.parent.count('type3'), 2);
    assert.equal(world.origin.count('type3'), 2);
  });

  test('both logins on one connection: the second request needs neither', async () => {
    await using world = await startParent({
      origin: { scheme: 'ntlm' },
      upstreams: { app: APP },
      listener: 'via: [corp], origins: [app]',
    });
    await using client = await world.daemon.connect();
    for (const path of ['/1', '/2', '/3']) {
      const answer = await ask(client, `GET http://app.test${path}`, marks('pat', 'alice'));
      assert.equal(answer.status, 200);
    }
    const [socket, ...others] = world.parent.journal.sockets;
    assert.deepEqual(others, []);
    assert.deepEqual(socket?.logins, ['LAB\\pat']);
    for (const { target, fields } of socket?.requests.slice(-2) ?? []) {
      assert.match(target, /[23]$/);
      assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
      assert.deepEqual(fieldValues(fields, 'authorization'), []);
    }
  });

  test('R15 R50 of a principal that is flushed are closed, those in use on their return', async () => {
    const opened = Promise.withResolvers<undefined>();
    await using world = await startParent({
      origin: {
        handler: async ({ target }) => {
          if (target === '/slow') await opened.promise;
          return { body: 'x' };
        },
      },
    });
    await world.prove();
    await using slow = await world.daemon.connect();
    await slow.request('GET http://app.test/slow', { Host: 'app.test', ...marks('pat') });
    await world.origin.saw(
      ({ sockets }) => sockets.some(({ requests }) => requests.some((r) => r.target === '/slow')),
      'the slow request',
    );
    assert.equal((await world.ask('GET http://app.test/x', marks('pat'))).status, 200);
    await until(() => world.parent.openSockets === 2, 'one in use, one idle');
    const flushed = await world.daemon.admin('POST /api/principals/pat/flush');
    assert.equal(flushed.status, 200);
    await until(() => world.parent.openSockets === 1, 'the idle one is closed');
    const before = world.parent.journal.sockets.length;
    assert.equal((await world.ask('GET http://app.test/y', marks('pat'))).status, 200);
    assert.equal(world.parent.journal.sockets.length, before + 1);
    opened.resolve(undefined);
    assert.equal((await slow.response()).status, 200);
    await until(() => world.parent.openSockets === 1, 'the used one is closed');
  });

  test('R50 of a parent that is drained are closed, whichever upstream they are counted for', async () => {
    await using world = await startParent({
      upstreams: { app: APP },
      origin: { scheme: 'ntlm' },
      listener: 'via: [corp], origins: [app]',
    });
    await world.prove();
    for (const [host, who] of [
      ['app.test', 'alice'],
      ['other.test', undefined],
    ] as const) {
      await world.ask(`GET http://${host}/x`, marks('pat', who));
    }
    await until(() => world.parent.openSockets === 2, 'one of the origin, one of the parent');
    assert.equal((await world.daemon.admin('POST /api/pools/corp/drain')).status, 200);
    await until(() => world.parent.openSockets === 0, 'both are closed');
  });

  test('a name with two origins is the one whose port was asked for', async () => {
    await using world = await startParent({
      upstreams: {
        secure: `{ url: 'https://app.test', auth: { principal: bob, schemes: [ntlm] } }`,
        app: APP,
      },
      origin: { scheme: 'ntlm' },
      listener: 'via: [corp], origins: [secure, app]',
    });
    const answer = await world.ask('GET http://app.test/x', marks('pat', 'alice'));
    assert.equal(answer.status, 200);
    assert.equal(answer.field('X-User'), 'LAB\\alice');
  });

  test('R15 of a principal whose password changes are closed', async () => {
    await using world = await startParent();
    await world.prove();
    assert.equal((await world.ask('GET http://app.test/x', marks('pat'))).status, 200);
    assert.equal(world.parent.openSockets, 1);
    await world.daemon.reload((text) => text, { PAT: 'another' });
    await until(() => world.parent.openSockets === 0, 'closed');
    const answer = await world.ask('GET http://app.test/x', marks('pat'));
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /credential-rejected/);
  });
});

describe('credentials', () => {
  test('R25 R26 of ours are in no CONNECT for the origin, and not in a tunnel for the parent', async () => {
    const certificate = testCertificate({ names: ['app.test'] });
    await using world = await startParent({
      origin: { scheme: 'ntlm', tls: { certificate } },
      upstreams: {
        app: `{ url: 'https://app.test', auth: { principal: alice, schemes: [ntlm] }, tls: { ca: '${certificate.caFile}' } }`,
      },
      listener: 'via: [corp], origins: [app]',
    });
    await using client = await world.daemon.connect();
    for (const path of ['/1', '/2']) {
      const answer = await ask(client, `GET http://app.test${path}`, marks(undefined, 'alice'));
      assert.equal(answer.status, 200);
      assert.equal(answer.field('X-User'), 'LAB\\alice');
    }
    for (const { method, fields } of world.parent.requests) {
      assert.equal(method, 'CONNECT');
      assert.deepEqual(fieldValues(fields, 'authorization'), []);
      assert.equal(fieldValues(fields, 'proxy-authorization').length, 1);
    }
    for (const { fields } of world.origin.requests) {
      assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
    }
    const [, second] = world.origin.requests.filter(({ method }) => method === 'GET');
    assert.deepEqual(fieldValues(second?.fields ?? [], 'authorization'), []);
    assert.equal(world.parent.journal.sockets.length, 1);
  });

  test('R26 a 407 out of a tunnel, and of an origin reached directly, is 502 and not answered', async () => {
    const asProxy = { status: 407, fields: [['Proxy-Authenticate', 'NTLM']] as const };
    const certificate = testCertificate({ names: ['app.test', 'localhost'] });
    const settings = `tls: { ca: '${certificate.caFile}' }`;
    await using world = await startParent({
      origin: { tls: { certificate }, handler: () => asProxy },
      upstreams: {
        app: `{ url: 'https://app.test', ${settings} }`,
        local: `{ url: '$origin', ${settings} }`,
      },
      listener: 'via: [corp], origins: [app]',
      listeners: [
        '{ name: direct, listen: 127.0.0.1:0, mode: reverse, routes: [ { path: /, upstream: local } ] }',
      ],
    });
    const answers = [
      await world.ask('GET http://app.test/x'),
      await world.ask('GET /x', { Host: world.daemon.authority('direct') }, '', 'direct'),
    ];
    for (const answer of answers) {
      assert.equal(answer.status, 502);
      assert.match(answer.field('Proxy-Status') ?? '', /proxy-auth-from-origin/);
      assert.deepEqual(answer.all('Proxy-Authenticate'), []);
    }
    for (const { fields } of world.origin.requests) {
      assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
    }
    assert.equal(world.origin.requests.length, 2);
  });

  test('R30 a caller’s Proxy-Authorization goes nowhere, his Authorization to the origin', async () => {
    await using world = await startParent();
    const own = { Authorization: 'Basic YTpi', 'Proxy-Authorization': 'Basic Yzpk' };
    for (const n of [1, 2]) {
      const answer = await world.ask('GET http://app.test/x', { ...own, ...marks('pat') });
      assert.equal(answer.status, 200, String(n));
    }
    const { client } = await world.connect('app.test:443', own);
    await using tunnel = client;
    assert.equal((await tunnel.head()).status, 200);
    for (const { method, fields } of world.parent.requests) {
      const values = fieldValues(fields, 'proxy-authorization');
      assert.ok(values.every((value) => value.startsWith('NTLM ')));
      const basic = fieldValues(fields, 'authorization');
      assert.deepEqual(basic, method === 'GET' ? ['Basic YTpi'] : []);
    }
  });
});
