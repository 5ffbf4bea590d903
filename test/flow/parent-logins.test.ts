/** A parent's 407 in every shape that one was reported to have, over absolute-form and CONNECT. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ScriptedParentOptions } from '../support/scripted-parent.ts';
import { ask, marks, type ParentWorld, startParent } from './parent-world.ts';

const BODIES: Readonly<Record<string, Partial<ScriptedParentOptions>>> = {
  'no body': { challengeBody: { kind: 'none' } },
  'a counted body': { challengeBody: { kind: 'counted', bytes: 3000 } },
  'a chunked body': { challengeBody: { kind: 'chunked', bytes: 3000 } },
  'a body of 60 KB': { challengeBody: { kind: 'counted', bytes: 60_000 } },
  'a chunked body of 60 KB': { challengeBody: { kind: 'chunked', bytes: 60_000 } },
};

const TEXTS: Readonly<Record<string, Partial<ScriptedParentOptions>>> = {
  'an unusual reason phrase': { challengeReason: 'authenticationrequired, said "Zürich"' },
  'no reason phrase': { challengeReason: '' },
  'fields in lower case': { challengeText: 'ntlm' },
  'repeated fields': { challengeText: 'basic-first-lines' },
  'a comma-joined field': { challengeText: 'comma-list' },
  'a comma-joined field with empty members': { challengeText: 'basic-first-comma-list' },
  'each byte by itself': { splitEveryByte: true },
};

const CLOSES: Readonly<Record<string, Partial<ScriptedParentOptions>>> = {
  'close after it': { login: { first: 'challenge-close' } },
  'close without a word after it': { login: { first: 'challenge-fin' } },
};

/** One request over absolute-form, then one in a tunnel. */
async function passes(world: ParentWorld): Promise<void> {
  const answer = await world.ask('GET http://app.test/a', marks('pat'));
  assert.equal(answer.status, 200);
  await using tunnel = await world.tunnel();
  await tunnel.request('GET /t', { Host: 'app.test' });
  assert.equal((await tunnel.response()).status, 200);
}

/** Methods and targets that reached the origin, without the HEAD that settles a first login. */
const executed = (world: ParentWorld): string[] =>
  world.origin.requests
    .filter(({ method }) => method !== 'HEAD')
    .map(({ method, target }) => `${method} ${target}`);

describe('a 407 with', () => {
  for (const [title, parent] of Object.entries({ ...BODIES, ...TEXTS })) {
    test(`${title} is answered on its own connection`, async () => {
      await using world = await startParent({ parent });
      await passes(world);
      for (const { type1, type3 } of world.parent.journal.sockets) {
        assert.deepEqual([type1, type3], [1, 1]);
      }
      assert.deepEqual(executed(world).toSorted(), ['GET /a', 'GET /t']);
    });
  }

  for (const [title, parent] of Object.entries(CLOSES)) {
    test(`a ${title}: the login begins without asking, so nothing is lost`, async () => {
      await using world = await startParent({ parent });
      await passes(world);
      assert.equal(world.parent.count('type3'), 2);
    });
  }

  test('R34 a body that is too large to drain ends a tunnel, and is not sent to HEAD', async () => {
    await using world = await startParent({
      parent: { challengeBody: { kind: 'counted', bytes: 200_000 } },
    });
    await using client = await world.daemon.connect();
    await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
    assert.equal((await client.response('CONNECT')).status, 502);
    await world.parent.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
    for (const line of ['GET http://app.test/a', 'POST http://app.test/a']) {
      assert.equal((await world.ask(line)).status, 200, line);
    }
    assert.deepEqual(executed(world), ['GET /a', 'POST /a']);
  });

  test('R34 a body without framing ends the connection, and with it the login', async () => {
    await using world = await startParent({
      parent: { challengeBody: { kind: 'close', bytes: 300 } },
    });
    const answer = await world.ask('GET http://app.test/a');
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /handshake-failed/);
    assert.equal(world.parent.count('type3'), 0);
    assert.equal(world.origin.requests.length, 0);
  });

  test('R34 a body without end is given up within the limit', async () => {
    await using world = await startParent({
      parent: { challengeBody: { kind: 'endless' } },
    });
    await using client = await world.daemon.connect();
    await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
    assert.equal((await client.response('CONNECT')).status, 502);
    await world.parent.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
  });
});

describe('Proxy-Connection of a parent', () => {
  test('keep-alive keeps a connection of HTTP/1.0 for the next leg', async () => {
    for (const name of ['Proxy-Connection', 'Connection']) {
      await using world = await startParent({
        parent: { challengeVersion: '1.0', challengeFields: [[name, 'Keep-Alive']] },
      });
      await passes(world);
    }
    await using bare = await startParent({ parent: { challengeVersion: '1.0' } });
    assert.equal((await bare.ask('GET http://app.test/a')).status, 502);
    assert.equal(bare.parent.count('type3'), 0);
  });

  test('close ends the login at the challenge, and the connection after an answer', async () => {
    await using world = await startParent({
      parent: { challengeFields: [['Proxy-Connection', 'close']] },
    });
    const answer = await world.ask('GET http://app.test/a');
    assert.equal(answer.status, 502);
    assert.equal(world.parent.count('type3'), 0);
    await using closing = await startParent({
      parent: {
        intercept: ({ method }) =>
          method === 'GET' ? { fields: [['Proxy-Connection', 'close']], body: 'x' } : undefined,
      },
    });
    for (const path of ['a', 'b']) {
      assert.equal((await closing.ask(`GET http://app.test/${path}`)).status, 200);
    }
    for (const { requests } of closing.parent.journal.sockets) {
      const said = requests.findIndex(({ method, status }) => method === 'GET' && status === 200);
      assert.equal(said, requests.length - 1);
    }
  });
});

describe('the first leg', () => {
  test('may be answered at once: request and tunnel go through, each once', async () => {
    await using world = await startParent({ parent: { open: () => true } });
    for (const path of ['a', 'b']) {
      assert.equal((await world.ask(`GET http://app.test/${path}`)).status, 200);
    }
    await using tunnel = await world.tunnel();
    await tunnel.request('GET /t', { Host: 'app.test' });
    assert.equal((await tunnel.response()).status, 200);
    assert.equal(world.parent.count('type3'), 0);
  });

  test('I11 may be answered at once: a POST is executed once', async () => {
    await using world = await startParent({ parent: { open: () => true } });
    const answer = await world.ask('POST http://app.test/a', { 'Content-Length': '3' }, 'abc');
    assert.equal(answer.status, 200);
    const posts = world.origin.requests.filter(({ method }) => method === 'POST');
    assert.deepEqual(
      posts.map(({ bodyLength }) => bodyLength),
      [3],
    );
  });

  test('R35 cut off is made once more on another connection, and no third time', async () => {
    for (const how of ['fin', 'reset'] as const) {
      await using world = await startParent({
        parent: { login: { type1: (id) => (id === 1 ? how : 'challenge') } },
      });
      assert.equal((await world.ask('GET http://app.test/a')).status, 200, how);
      assert.equal(world.parent.journal.sockets.length, 2);
      await using broken = await startParent({ parent: { login: { type1: how } } });
      const answer = await broken.ask('GET http://app.test/a');
      assert.equal(answer.status, 502, how);
      assert.match(answer.field('Proxy-Status') ?? '', /handshake-failed/);
      assert.equal(broken.parent.journal.sockets.length, 2);
      await using client = await broken.daemon.connect();
      await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
      assert.equal((await client.response('CONNECT')).status, 502, how);
      assert.equal(broken.parent.journal.sockets.length, 4);
    }
  });

  test('R35 whose challenge ends its connection is the end of the login', async () => {
    await using world = await startParent({ parent: { login: { type1: 'challenge-close' } } });
    const answer = await world.ask('GET http://app.test/a');
    assert.equal(answer.status, 502);
    assert.match(answer.field('Proxy-Status') ?? '', /handshake-failed/);
    assert.equal(world.parent.count('type3'), 0);
    assert.equal(world.parent.journal.sockets.length, 1);
  });

  test('R31 of a parent that always answers with a type 2 ends the login at once', async () => {
    await using world = await startParent({ parent: { login: { type3: 'challenge' } } });
    const answer = await world.ask('GET http://app.test/a');
    assert.equal(answer.status, 502);
    await using client = await world.daemon.connect();
    await client.request('CONNECT app.test:443', { Host: 'app.test:443' });
    assert.equal((await client.response('CONNECT')).status, 502);
    for (const { type1, type3 } of world.parent.journal.sockets) {
      assert.ok(type1 <= 1 && type3 <= 1);
    }
    assert.ok(world.parent.journal.sockets.length <= 2);
  });
});

describe('a login at the parent that is lost', () => {
  test('on a warm connection is made again on a fresh one', async () => {
    await using world = await startParent({ parent: { forgetAfter: 1 } });
    await using client = await world.daemon.connect();
    for (const n of [1, 2, 3, 4]) {
      const answer = await ask(client, `GET http://app.test/${n}`, marks('pat'));
      assert.equal(answer.status, 200, String(n));
    }
    const served = world.executed.filter(({ method }) => method === 'GET');
    assert.deepEqual(
      served.map(({ target }) => target),
      ['/1', '/2', '/3', '/4'],
    );
  });

  test('with each request is made again for each, which is executed once', async () => {
    await using world = await startParent({ parent: { binding: 'request' } });
    await using client = await world.daemon.connect();
    for (const n of [1, 2, 3, 4, 5]) {
      const body = 'x'.repeat(n * 100);
      const answer = await ask(
        client,
        `POST http://app.test/${n}`,
        { ...marks('pat'), 'Content-Length': String(body.length) },
        body,
      );
      assert.equal(answer.status, 200, String(n));
    }
    assert.deepEqual(
      executed(world),
      [1, 2, 3, 4, 5].map((n) => `POST /${n}`),
    );
  });
});
