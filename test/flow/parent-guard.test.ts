/** Wrong passwords at a parent, callers' own ones, and 407s that nothing of ours answers. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import type { RawResponse } from '../support/raw-client.ts';
import type { ScriptedParentOptions } from '../support/scripted-parent.ts';
import { fieldValues } from '../support/strict-http.ts';
import {
  type Fields,
  marks,
  type ParentSetup,
  type ParentWorld,
  startParent,
} from './parent-world.ts';

const PROXY_STATUS = 'Proxy-Status';

async function connectAnswer(world: ParentWorld, fields: Fields = {}): Promise<RawResponse> {
  await using client = await world.daemon.connect();
  await client.request('CONNECT app.test:443', { Host: 'app.test:443', ...fields });
  return await client.response('CONNECT');
}

const KINDS = {
  'absolute-form': (world: ParentWorld) => world.ask('GET http://app.test/x'),
  'a POST in absolute-form': (world: ParentWorld) =>
    world.ask('POST http://app.test/x', { 'Content-Length': '3' }, 'abc'),
  CONNECT: (world: ParentWorld) => connectAnswer(world),
} as const;

describe('a wrong password at a parent', () => {
  for (const [title, one] of Object.entries(KINDS)) {
    for (const rejections of [1, 3]) {
      test(`with ${title} is tried ${rejections} times, then 503`, async () => {
        await using world = await startParent({
          pat: 'wrong',
          guard: `rejections: ${rejections}`,
        });
        for (let n = 0; n < rejections; n += 1) {
          const answer = await one(world);
          assert.equal(answer.status, 502);
          assert.match(
            answer.field(PROXY_STATUS) ?? '',
            /received-status=407.*credential-rejected/,
          );
        }
        for (let n = 0; n < 3; n += 1) {
          const answer = await one(world);
          assert.equal(answer.status, 503);
          assert.match(answer.field(PROXY_STATUS) ?? '', /guard-open/);
          assert.ok(Number(answer.field('Retry-After')) > 0);
        }
        assert.equal(world.parent.count('type3'), rejections);
        assert.equal(world.origin.requests.length, 0);
        await world.daemon.measured(
          (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
          'no socket',
        );
        const state = { principal: 'pat', upstream: 'corp' };
        assert.ok((await world.daemon.metrics()).sum('sidekerb_guard_state', state) > 0);
        assert.ok(!world.daemon.logText.includes('wrong'));
      });
    }
  }

  test('by Basic is sent no oftener than the limit either', async () => {
    await using world = await startParent({
      pat: 'wrong',
      auth: 'principal: pat, schemes: [basic], dangerousPlaintextBasic: true',
      parent: { takesBasic: true, challengeText: 'basic-only' },
    });
    const statuses: number[] = [];
    for (let n = 0; n < 6; n += 1) {
      statuses.push((await (n % 2 === 0 ? KINDS['absolute-form'] : KINDS.CONNECT)(world)).status);
    }
    assert.deepEqual(statuses, [502, 502, 502, 503, 503, 503]);
    const sent = world.parent.requests.filter(({ token }) => token === 'basic');
    assert.equal(sent.length, 3);
    assert.equal(world.origin.requests.length, 0);
  });

  test('by 30 requests at once is sent no oftener', async () => {
    await using world = await startParent({ pat: 'wrong' });
    const kinds = Object.values(KINDS);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => kinds.map((one) => one(world))).flat(),
    );
    assert.ok(answers.every(({ status }) => status === 502 || status === 503));
    assert.ok(world.parent.count('type3') <= 3);
  });

  test('keeps the origin’s login from being made, and its account clean', async () => {
    const certificate = testCertificate({ names: ['app.test'] });
    for (const secure of [false, true]) {
      const url = secure ? 'https://app.test' : 'http://app.test';
      const tls = secure ? `, tls: { ca: '${certificate.caFile}' }` : '';
      await using world = await startParent({
        pat: 'wrong',
        guard: 'rejections: 1',
        origin: { scheme: 'ntlm', ...(secure ? { tls: { certificate } } : {}) },
        upstreams: {
          app: `{ url: '${url}', auth: { principal: alice, schemes: [ntlm] }${tls} }`,
        },
        listener: 'via: [corp], origins: [app]',
      });
      for (const n of [1, 2, 3]) {
        const answer = await world.ask('GET http://app.test/x');
        assert.equal(answer.status, n === 1 ? 502 : 503);
      }
      assert.equal(world.parent.count('type3'), 1);
      assert.equal(world.origin.requests.length, 0);
      // The same account elsewhere was never in doubt, and no login of it is still counted as under way.
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_guard_state', { principal: 'alice' }), 0);
    }
  });

  test('that a parent answers without a verdict is not sent for ever', async () => {
    for (const status of [400, 500]) {
      for (const one of Object.values(KINDS)) {
        await using world = await startParent({
          pat: 'wrong',
          parent: { login: { type3: 'ok' }, intercept: () => ({ status, body: 'x' }) },
        });
        const statuses: number[] = [];
        for (let n = 0; n < 6; n += 1) statuses.push((await one(world)).status);
        assert.ok(world.parent.count('type3') <= 3, statuses.join());
        assert.equal(statuses.at(-1), 503);
      }
    }
  });

  test('found out by a leg for the origin counts at the parent alone', async () => {
    await using world = await startParent({
      guard: 'rejections: 20',
      origin: { scheme: 'ntlm' },
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app]',
      // Says nothing of the login, and forgets it.
      parent: {
        forgetAfter: 1,
        intercept: ({ method }) => (method === 'HEAD' ? { status: 500 } : undefined),
      },
    });
    for (let n = 0; n < 5; n += 1) {
      const answer = await world.ask('GET http://app.test/x');
      assert.equal(answer.status, 502);
      assert.match(answer.field(PROXY_STATUS) ?? '', /received-status=407/);
    }
    assert.equal(world.origin.requests.length, 0);
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_guard_state', { principal: 'alice' }), 0);
    assert.ok(metrics.sum('sidekerb_handshakes_total', { hop: 'proxy', result: 'ok' }) > 0);
  });

  test('of the origin, behind a parent that let us in, is the origin’s', async () => {
    await using world = await startParent({
      origin: { scheme: 'ntlm', accounts: { 'LAB\\alice': 'another' } },
      upstreams: {
        app: `{ url: 'http://app.test', auth: { principal: alice, schemes: [ntlm] } }`,
      },
      listener: 'via: [corp], origins: [app]',
    });
    for (let n = 0; n < 5; n += 1) {
      const answer = await world.ask('GET http://app.test/x');
      assert.equal(answer.status, n < 3 ? 502 : 503, String(n));
      if (n < 3) assert.match(answer.field(PROXY_STATUS) ?? '', /received-status=401/);
    }
    assert.equal(world.origin.count('type3'), 3);
    assert.equal((await world.ask('GET http://other.test/x', marks('pat'))).status, 401);
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_guard_state', { principal: 'pat' }), 0);
  });
});

describe('a 407 that nothing of ours answers', () => {
  const PARENTS: Readonly<Record<string, Partial<ScriptedParentOptions>>> = {
    'without a scheme of ours': { scheme: 'basic-only' },
    'without any field': {
      open: () => true,
      intercept: () => ({ status: 407, body: 'who?' }),
    },
    'of a parent without auth': {},
  };
  for (const [title, parent] of Object.entries(PARENTS)) {
    for (const [kind, one] of Object.entries(KINDS)) {
      test(`${title} is 502 over ${kind}`, async () => {
        const auth = title === 'of a parent without auth' ? { auth: 'off' } : {};
        await using world = await startParent({ parent, ...auth });
        for (const n of [1, 2]) {
          const answer = await one(world);
          assert.equal(answer.status, 502, String(n));
          assert.match(answer.field(PROXY_STATUS) ?? '', /received-status=407.*parent-auth/);
          assert.deepEqual(answer.all('Proxy-Authenticate'), []);
        }
        assert.equal(world.parent.count('type3'), 0);
        assert.equal(world.origin.requests.length, 0);
        await world.daemon.measured(
          (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
          'no socket',
        );
      });
    }
  }
});

const CALLERS = `via: [corp], clients: [ { basic: { pass: true, realm: PROXY } } ], principal: [ { when: {}, use: caller } ]`;

const basic = (who: string): Record<string, string> => ({
  'Proxy-Authorization': `Basic ${Buffer.from(who).toString('base64')}`,
});

const PAT = 'LAB\\pat:pat-secret';
const EVE = 'LAB\\eve:eve-secret';

describe('callers who are the parent’s own users', () => {
  const start = (): Promise<ParentWorld> =>
    startParent({ auth: 'schemes: [ntlm]', listener: CALLERS });

  test('R7 each get connections of their own', async () => {
    await using world = await start();
    await Promise.all(
      [PAT, EVE, PAT, EVE].map(async (who) => {
        const name = who.slice(4, 7);
        for (let n = 0; n < 10; n += 1) {
          const answer = await world.ask('GET http://app.test/x', {
            ...basic(who),
            ...marks(name),
          });
          assert.equal(answer.status, 200);
        }
        await using client = await world.daemon.connect();
        await client.request('CONNECT app.test:443', { Host: 'app.test:443', ...basic(who) });
        assert.equal((await client.head()).status, 200);
      }),
    );
    for (const { logins } of world.parent.journal.sockets) assert.equal(new Set(logins).size, 1);
  });

  test('R53 are told apart on one connection', async () => {
    await using world = await start();
    await using client = await world.daemon.connect();
    for (const who of [PAT, EVE, PAT, EVE]) {
      const fields = { Host: 'app.test', ...basic(who), ...marks(who.slice(4, 7)) };
      await client.request('GET http://app.test/x', fields);
      assert.equal((await client.response()).status, 200);
    }
    assert.deepEqual(
      world.parent.journal.sockets.map(({ logins }) => logins.join()),
      ['LAB\\pat', 'LAB\\eve'],
    );
  });

  test('R30 leave their password at the listener', async () => {
    await using world = await start();
    assert.equal((await world.ask('GET http://app.test/x', basic(PAT))).status, 200);
    for (const { fields } of [...world.parent.requests, ...world.origin.requests]) {
      assert.ok(!fieldValues(fields, 'proxy-authorization').some((one) => /basic/i.test(one)));
    }
    for (const { fields } of world.origin.requests) {
      assert.deepEqual(fieldValues(fields, 'proxy-authorization'), []);
    }
    assert.ok(!world.daemon.logText.includes('pat-secret'));
  });

  test('are asked for it, and again when it was wrong', async () => {
    await using world = await start();
    const challenge = 'Basic realm="PROXY", charset="UTF-8"';
    assert.equal((await world.ask('GET http://app.test/x', basic(PAT))).status, 200);
    const answers = [
      await world.ask('GET http://app.test/x'),
      await connectAnswer(world),
      await world.ask('GET http://app.test/x', basic('LAB\\pat:wrong')),
      await connectAnswer(world, basic('LAB\\pat:wrong')),
    ];
    for (const [n, answer] of answers.entries()) {
      assert.equal(answer.status, 407, String(n));
      assert.deepEqual(answer.all('Proxy-Authenticate'), [challenge]);
      assert.deepEqual(answer.all('WWW-Authenticate'), []);
    }
    assert.equal((await world.ask('GET http://app.test/x', basic(PAT))).status, 200);
    assert.ok(!world.daemon.logText.includes('wrong'));
  });

  test('R46 leave no secret in logs, metrics and admin pages', async () => {
    await using world = await start();
    for (const who of [PAT, 'LAB\\pat:canary-wrong']) {
      await world.ask('GET http://app.test/x', basic(who));
      await connectAnswer(world, basic(who)).catch(() => undefined);
    }
    const pages = ['/metrics', '/api/status', '/api/pools', '/api/config', '/'];
    const texts = await Promise.all(pages.map((page) => world.daemon.admin(`GET ${page}`)));
    const seen = [world.daemon.logText, ...texts.map(({ body }) => body.toString())].join('\n');
    assert.doesNotMatch(seen, /canary|pat-secret|TlRMTVNT/);
    assert.ok(!seen.includes(basic(PAT)['Proxy-Authorization'] ?? '-'));
  });

  test('with a wrong password lock nobody out beyond the limit', async () => {
    await using world = await start();
    const statuses: number[] = [];
    for (let n = 0; n < 6; n += 1) {
      const who = basic(`LAB\\pat:wrong${n}`);
      const one = n % 2 === 0 ? world.ask('GET http://app.test/x', who) : connectAnswer(world, who);
      statuses.push((await one).status);
    }
    assert.deepEqual(statuses, [407, 407, 407, 503, 503, 503]);
    assert.equal(world.parent.count('type3'), 3);
    assert.equal((await world.ask('GET http://app.test/x', basic(EVE))).status, 200);
  });
});

describe('a caller is himself at the parent where', () => {
  const own = 'principal: caller, schemes: [ntlm]';
  const clients = 'clients: [ { basic: { pass: true, realm: PROXY } } ]';
  const rule = 'principal: [ { when: {}, use: caller } ]';
  const WAYS: Readonly<Record<string, ParentSetup & { readonly listener: string }>> = {
    'the parent says so': { auth: own, listener: `via: [corp], ${clients}` },
    'the parent and a rule say so': { auth: own, listener: `via: [corp], ${clients}, ${rule}` },
    'the parent says so and takes Basic': {
      auth: `principal: caller, schemes: [basic], dangerousPlaintextBasic: true`,
      listener: `via: [corp], ${clients}`,
      parent: { takesBasic: true, challengeText: 'basic-only' },
    },
    'a rule says so': { auth: 'schemes: [ntlm]', listener: `via: [corp], ${clients}, ${rule}` },
  };
  const USERS = [PAT, EVE, PAT, 'LAB\\pat:wrong', EVE];

  for (const [title, setup] of Object.entries(WAYS)) {
    test(`R1 ${title}, over absolute-form and CONNECT`, async () => {
      await using world = await startParent(setup);
      for (const who of USERS) {
        const fields = { ...basic(who), ...marks(who.slice(4, 7)) };
        const answer = await world.ask('GET http://app.test/x', fields);
        const { client } = await world.connect('app.test:443', basic(who));
        await using tunnel = client;
        const status = who.endsWith('wrong') ? 407 : 200;
        assert.equal(answer.status, status);
        assert.equal((await tunnel.head()).status, status);
        if (status === 200)
          assert.equal(world.parent.journal.sockets.at(-1)?.logins[0], who.slice(0, 7));
      }
    });

    test(`R1 ${title}, behind a reverse route`, async () => {
      const rules = setup.listener.slice('via: [corp], '.length);
      await using world = await startParent({
        ...setup,
        upstreams: { app: "{ url: 'http://app.test', via: corp }" },
        listener: `routes: [ { path: /, upstream: app } ], ${rules}`,
        mode: 'reverse',
      });
      for (const who of USERS) {
        const answer = await world.ask('GET /x', {
          Host: world.daemon.authority(),
          Authorization: basic(who)['Proxy-Authorization'] ?? '',
          ...marks(who.slice(4, 7)),
        });
        assert.equal(answer.status, who.endsWith('wrong') ? 401 : 200);
      }
      assert.ok(world.parent.requests.length > 0);
    });
  }
});

test('a parent’s own principal serves callers who are themselves at the origin', async () => {
  await using world = await startParent({
    mode: 'reverse',
    origin: { scheme: 'ntlm' },
    upstreams: {
      app: "{ url: 'http://app.test', via: corp, auth: { schemes: [ntlm], principal: caller } }",
    },
    listener:
      'routes: [ { path: /, upstream: app } ], clients: [ { basic: { users: { env: USERS }, realm: PROXY } } ]',
  });
  for (const who of ['alice', 'bob', 'alice']) {
    const login = Buffer.from(`LAB\\${who}:${who}-secret`).toString('base64');
    const answer = await world.ask('GET /x', {
      Host: world.daemon.authority(),
      Authorization: `Basic ${login}`,
      ...marks('pat', who),
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.field('X-User'), `LAB\\${who}`);
  }
});
