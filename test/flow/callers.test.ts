/** Callers of three kinds on one listener, each mapped to a principal, request by request. */
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { JwksReply } from '../support/jwks-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { Gate, until } from '../support/waiting.ts';
import { logIn } from '../support/ntlm-client.ts';
import { ACCOUNTS } from '../support/upstream-options.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';
import {
  AUDIENCE,
  goodClaims,
  ISSUER,
  jwks,
  macToken,
  signingKey,
  signToken,
} from '../support/tokens.ts';
import {
  basic,
  bearer,
  CallersWorld,
  type Fields,
  reasonOf,
  tokenOf,
  userFile,
  WAYS,
} from './callers-world.ts';

const CHALLENGES = ['Bearer realm="sidekerb"', 'Basic realm="LAB", charset="UTF-8"'];

describe('callers of three kinds', () => {
  test('R1 R53 on shared connections, each request is its own caller’s', async () => {
    await using world = await CallersWorld.ready();
    const ways = Object.values(WAYS);
    const work = Array.from({ length: 6 }, async (_, lane) => {
      await using client = await world.connect();
      for (let i = 0; i < 40; i += 1) {
        const user = (i * 7 + lane) % 3 === 0 ? 'bob' : 'alice';
        const fields = ways[(i + lane) % ways.length]?.(user) ?? {};
        const answer = await world.on(client, { ...fields, [MARKER_FIELD]: `LAB\\${user}` });
        assert.equal(answer.status, 200);
        assert.equal(answer.field('X-User'), `LAB\\${user}`);
      }
    });
    await Promise.all(work);
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_inbound_auth_total', { result: 'ok' }), 240);
  });

  test('who is mapped to nobody gets 403, and no connection is opened for him', async () => {
    await using world = await CallersWorld.ready();
    for (const [kind, way] of Object.entries(WAYS)) {
      const answer = await world.ask(way('carol'));
      assert.equal(answer.status, 403, kind);
      assert.equal(reasonOf(answer), 'no-principal', kind);
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  test('who brings nothing is asked in every scheme that helps', async () => {
    await using world = await CallersWorld.ready();
    const answer = await world.ask();
    assert.equal(answer.status, 401);
    assert.deepEqual(answer.all('WWW-Authenticate'), CHALLENGES);
  });

  test('alice then bob by the field of the proxy, with one Authorization, are two', async () => {
    await using world = await CallersWorld.start({
      clients: `header: { name: X-Remote-User, from: [127.0.0.1] }, basic: { users: { env: USERS } }`,
    });
    await using client = await world.connect();
    for (const user of ['alice', 'bob', 'alice']) {
      const fields = { 'X-Remote-User': user, ...basic('carol', 'carol-gate') };
      const answer = await world.on(client, fields);
      assert.equal(answer.field('X-User'), `LAB\\${user}`);
    }
  });

  test('two fields of the proxy, in any spelling, are 400, whoever sent them', async () => {
    await using world = await CallersWorld.ready();
    for (const second of ['X-Remote-User', 'x_remote_user', 'X.REMOTE.USER']) {
      await using client = await world.connect();
      const head = `GET /x HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\nX-Remote-User: alice\r\n`;
      const lines = Object.entries(basic('bob', 'bob-gate')).map(([n, v]) => `${n}: ${v}\r\n`);
      await client.send(`${head}${lines.join('')}${second}: bob\r\n\r\n`);
      assert.equal((await client.response()).status, 400, second);
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });

  test('R30 what the check has used up is seen by no upstream', async () => {
    await using world = await CallersWorld.ready({
      routes: '{ upstream: origin }, { path: /plain/, upstream: plain }',
      upstream: { open: ({ target }) => target.startsWith('/plain/') },
    });
    for (const way of Object.values(WAYS)) {
      assert.equal((await world.ask(way('alice'))).status, 200);
      assert.equal((await world.ask(way('alice'), 'GET /plain/x')).status, 200);
    }
    for (const { fields } of world.upstream.requests) {
      const sent = JSON.stringify(fields);
      assert.doesNotMatch(sent, /Bearer|Basic|X-Remote-User/i);
    }
  });

  test('R30 the Authorization of a caller whom the proxy names goes on to an open origin', async () => {
    await using world = await CallersWorld.start({
      clients: 'header: { name: X-Remote-User, from: [127.0.0.1] }',
      routes: '{ upstream: plain }',
      upstream: { scheme: 'none' },
    });
    const answer = await world.ask({ 'X-Remote-User': 'alice', Authorization: 'Bearer own' });
    assert.equal(answer.status, 200);
    assert.match(JSON.stringify(world.upstream.requests[0]?.fields), /Bearer own/);
  });
});

/** Tokens that a sound issuer would never have made for this listener, or not for now. */
const forged = (): [what: string, token: string][] => {
  const key = signingKey();
  const now = Date.now();
  const claims = (more: Record<string, unknown>): object => goodClaims(now, more);
  const stranger = signingKey({ nth: 1 });
  const good = tokenOf('alice');
  const [head = '', body = '', signature = ''] = good.split('.');
  const other = Buffer.from(JSON.stringify(claims({ sub: 'bob' }))).toString('base64url');
  return [
    ['signed by another key', signToken(stranger, claims({}))],
    ['of another payload', `${head}.${other}.${signature}`],
    ['without a signature', `${head}.${body}.`],
    ['of alg none', signToken(key, claims({}), { alg: 'none' })],
    ['signed with the public key as a secret', macToken(JSON.stringify(key.jwk), claims({}), 'k1')],
    ['of a kid that is a path', signToken(stranger, claims({}), { kid: '../../dev/null' })],
    ['of a kid that is a URL', signToken(stranger, claims({}), { kid: 'http://127.0.0.1/k' })],
    ['of a kid of the prototype', signToken(stranger, claims({}), { kid: '__proto__' })],
    ['with a jku', signToken(stranger, claims({}), { jku: 'http://127.0.0.1/k' })],
    ['that has expired', signToken(key, claims({ exp: Math.floor(now / 1000) - 1 }))],
    ['that is not valid yet', signToken(key, claims({ nbf: Math.floor(now / 1000) + 60 }))],
    ['of another audience', signToken(key, claims({ aud: 'other' }))],
    ['of another issuer', signToken(key, claims({ iss: 'https://evil.example/' }))],
    ['without an end', signToken(key, claims({ exp: undefined }))],
    ['that is none', 'opaque'],
    ['that is empty', ''],
  ];
};

describe('a token that does not hold', () => {
  for (const [what, token] of forged()) {
    test(`gets 401 and nothing else: ${what}`, async () => {
      await using world = await CallersWorld.ready();
      const answer = await world.ask(bearer(token));
      assert.equal(answer.status, 401);
      assert.equal(reasonOf(answer), 'caller-token-refused');
      const [first = '', second] = answer.all('WWW-Authenticate');
      assert.match(first, /^Bearer realm="sidekerb", error="invalid_token", error_description="/);
      assert.equal(second, CHALLENGES[1]);
      assert.equal(world.upstream.journal.sockets.length, 0);
      const refused = { client: 'jwt', result: 'refused' };
      const metrics = await world.daemon.metrics();
      assert.equal(metrics.sum('sidekerb_inbound_auth_total', refused), 1);
    });
  }

  test('is refused on the connection of one that does, and that one goes on', async () => {
    await using world = await CallersWorld.ready();
    const good = bearer(tokenOf('alice'));
    for (const [, token] of forged()) {
      await using client = await world.connect();
      assert.equal((await world.on(client, good)).status, 200);
      assert.equal((await world.on(client, bearer(token))).status, 401);
      assert.equal((await world.ask(good)).status, 200);
    }
  });
});

describe('the keys of an issuer', () => {
  test('R48 that are gone take their tokens with them on the next request', async () => {
    const old = signingKey();
    const fresh = signingKey({ kid: 'k2', nth: 1 });
    await using world = await CallersWorld.ready();
    await using client = await world.connect();
    const token = bearer(tokenOf('alice'));
    assert.equal((await world.on(client, token)).status, 200);
    world.idp.serve(jwks(fresh));
    // A token of the new key makes the daemon look again.
    const next = signToken(fresh, goodClaims(Date.now()));
    assert.equal((await world.ask(bearer(next))).status, 200);
    assert.equal(world.idp.fetches, 2);
    assert.equal((await world.on(client, token)).status, 401);
    assert.equal(old.kid, 'k1');
  });

  test('R48 of another content under the old name take their tokens with them', async () => {
    await using world = await CallersWorld.ready();
    await using client = await world.connect();
    const token = bearer(tokenOf('alice'));
    assert.equal((await world.on(client, token)).status, 200);
    const changed = signingKey({ nth: 1 });
    const fresh = signingKey({ kid: 'k2', nth: 2 });
    world.idp.serve(jwks(changed, fresh));
    assert.equal((await world.ask(bearer(signToken(fresh, goodClaims(Date.now()))))).status, 200);
    assert.equal((await world.on(client, token)).status, 401);
    assert.equal((await world.ask(bearer(signToken(changed, goodClaims(Date.now()))))).status, 200);
  });

  test('are asked for once, however many tokens name unknown ones', async () => {
    await using world = await CallersWorld.ready();
    const stranger = signingKey({ nth: 1 });
    const flood = Array.from({ length: 60 }, async (_, i) => {
      const token = signToken(stranger, goodClaims(Date.now()), { kid: `unknown-${i}` });
      return (await world.ask(bearer(token))).status;
    });
    assert.deepEqual(new Set(await Promise.all(flood)), new Set([401]));
    assert.equal(world.idp.fetches, 2);
    assert.equal((await world.ask(WAYS['jwt']?.('alice'))).status, 200);
  });

  test('that cannot be had at the start are 503 until they can, and other kinds go on', async () => {
    await using world = await CallersWorld.start({ keys: '<html>not today</html>' });
    await world.daemon.measured(
      (metrics) => metrics.sum('sidekerb_jwks_refreshes_total', { result: 'failed' }) > 0,
      'a refresh failed',
    );
    const early = await world.ask(WAYS['jwt']?.('alice'));
    assert.equal(early.status, 503);
    assert.equal(reasonOf(early), 'jwks-unavailable');
    assert.match(early.field('Retry-After') ?? '', /^\d+$/);
    assert.equal((await world.ask(WAYS['basic']?.('alice'))).status, 200);
    const unready = await world.daemon.admin('GET /readyz');
    assert.equal(unready.status, 503);
    assert.match(
      unready.body.toString(),
      /the keys of https:\/\/idp\.example\/ are not loaded yet/,
    );
    assert.match(unready.body.toString(), /the key set is not JSON/);
    world.idp.serve(jwks(signingKey()));
    await world.becomesReady();
    assert.equal((await world.ask(WAYS['jwt']?.('alice'))).status, 200);
    assert.equal((await world.daemon.admin('GET /readyz')).status, 200);
    const failed = { client: 'jwt', result: 'failed' };
    assert.equal((await world.daemon.metrics()).sum('sidekerb_inbound_auth_total', failed), 1);
  });

  for (const what of ['hangs up', 'answers 500', 'redirects', 'answers late'] as const) {
    test(`are waited for by nobody while their server ${what} at the start, and come by themselves`, async () => {
      const gate = new Gate();
      const good: JwksReply = { kind: 'body', body: jwks(signingKey()) };
      const headers = { Location: 'http://127.0.0.1:1/' };
      const replies: Record<typeof what, JwksReply> = {
        'hangs up': { kind: 'hang-up' },
        'answers 500': { kind: 'status', status: 500 },
        redirects: { kind: 'status', status: 302, headers },
        'answers late': { kind: 'held', gate, next: good },
      };
      await using world = await CallersWorld.start({ reply: replies[what] });
      await until(() => world.idp.fetches > 0, 'the first fetch');
      const early = await world.ask(WAYS['jwt']?.('alice'));
      assert.deepEqual([early.status, reasonOf(early)], [503, 'jwks-unavailable']);
      assert.equal((await world.ask(WAYS['header']?.('alice'))).status, 200);
      assert.equal((await world.daemon.admin('GET /readyz')).status, 503);
      gate.open();
      world.idp.reply = good;
      await world.becomesReady();
      assert.equal((await world.ask(WAYS['jwt']?.('alice'))).status, 200);
      assert.equal((await world.daemon.admin('GET /readyz')).status, 200);
    });
  }

  test('are those of before when other settings of the client change, whatever the server does', async () => {
    await using world = await CallersWorld.ready();
    world.idp.reply = { kind: 'hang-up' };
    const token = bearer(tokenOf('alice', { aud: 'other' }));
    assert.equal((await world.ask(token)).status, 401);
    const { result } = await world.daemon.reload((text) =>
      text.replace('audience: api', 'audience: other'),
    );
    assert.equal(result, 'ok');
    assert.equal((await world.ask(token)).status, 200);
    assert.equal((await world.daemon.admin('GET /readyz')).status, 200);
    assert.equal(
      (await world.ask(bearer(tokenOf('alice')))).status,
      401,
      'for the audience of before',
    );
  });

  for (const [readiness, status] of [
    ['normal', 200],
    ['strict', 503],
  ] as const) {
    test(`that fail later are told, and ${readiness} readiness says ${status}`, async () => {
      await using world = await CallersWorld.ready({ readiness });
      world.idp.reply = { kind: 'status', status: 500 };
      const stranger = signToken(signingKey({ kid: 'k9' }), goodClaims(Date.now()));
      assert.equal((await world.ask(bearer(stranger))).status, 401);
      const ready = await world.daemon.admin('GET /readyz');
      assert.equal(ready.status, status);
      assert.match(
        ready.body.toString(),
        /keys of https:\/\/idp\.example\/ cannot be loaded: .*500/,
      );
      assert.equal((await world.ask(WAYS['jwt']?.('alice'))).status, 200, 'the old keys stay');
    });
  }
});

describe('the keys of an issuer in a file', () => {
  async function withFile(): Promise<{ world: CallersWorld; file: string }> {
    const file = join(mkdtempSync(join(temporaryFolder(), 'jwks-')), 'keys.json');
    writeFileSync(file, jwks(signingKey()));
    const clients = `{ jwt: { issuer: '${ISSUER}', audience: ${AUDIENCE}, jwks: '${file}' } }`;
    return { world: await CallersWorld.start({ clients }), file };
  }

  test('R48 count from the start, and a changed file from the reload on', async () => {
    const { world, file } = await withFile();
    await using running = world;
    await using client = await running.connect();
    const old = bearer(tokenOf('alice'));
    assert.equal((await running.on(client, old)).status, 200);
    const changed = signingKey({ nth: 1 });
    writeFileSync(file, jwks(changed));
    assert.equal((await running.on(client, old)).status, 200);
    assert.equal((await running.daemon.reload()).result, 'ok');
    assert.equal((await running.on(client, old)).status, 401);
    const fresh = bearer(signToken(changed, goodClaims(Date.now())));
    assert.equal((await running.ask(fresh)).status, 200);
  });

  test('are watched', async () => {
    const { world, file } = await withFile();
    await using running = world;
    const fresh = bearer(signToken(signingKey({ nth: 1 }), goodClaims(Date.now())));
    assert.equal((await running.ask(fresh)).status, 401);
    writeFileSync(file, jwks(signingKey({ nth: 1 })));
    await running.daemon.measured(
      (metrics) => metrics.sum('sidekerb_config_reloads_total', { result: 'ok' }) > 0,
      'the file was read again',
    );
    assert.equal((await running.ask(fresh)).status, 200);
    assert.equal((await running.ask(bearer(tokenOf('alice')))).status, 401);
  });

  test('I10 stay as they were when the file becomes rubbish', async () => {
    const { world, file } = await withFile();
    await using running = world;
    writeFileSync(file, '{"keys": [');
    const { result, faults } = await running.daemon.reload();
    assert.equal(result, 'failed');
    assert.match(faults[0]?.message ?? '', /the key set is not JSON/);
    assert.equal((await running.ask(bearer(tokenOf('alice')))).status, 200);
  });

  test('keep what was verified over a reload that changes nothing of theirs', async () => {
    const { world } = await withFile();
    await using running = world;
    const fields = bearer(tokenOf('alice'));
    assert.equal((await running.ask(fields)).status, 200);
    await running.daemon.reload((text) => `${text}\nlog: { access: false }\n`);
    assert.equal((await running.ask(fields)).status, 200);
    const metrics = await running.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_cache_hits_total', { cache: 'jwt' }), 1);
  });
});

describe('a cache of tokens', () => {
  for (const mode of ['lru', 'fifo', 'fixed', 'off']) {
    test(`in mode ${mode} decides as every other`, async () => {
      await using world = await CallersWorld.ready({ jwt: `cache: { mode: ${mode}, max: 2 }` });
      const tokens = ['alice', 'bob', 'carol', 'alice'].map((user) => bearer(tokenOf(user)));
      const forgery = bearer(`${tokenOf('bob').slice(0, -8)}AAAAAAAA`);
      await using client = await world.connect();
      const statuses: number[] = [];
      for (const fields of [...tokens, ...tokens]) {
        await using own = await world.connect();
        statuses.push((await world.on(own, fields)).status);
        const shared = await world.on(client, fields);
        statuses.push(shared.status);
        if (shared.status === 403) break;
      }
      assert.deepEqual(statuses, [200, 200, 200, 200, 403, 403]);
      assert.equal((await world.ask(forgery)).status, 401);
      const metrics = await world.daemon.metrics();
      const hits = metrics.sum('sidekerb_cache_hits_total', { cache: 'jwt', issuer: ISSUER });
      assert.equal(hits > 0, mode !== 'off');
    });
  }

  test('shows requests and hits of all looks, those of a connection’s own memo too', async () => {
    await using world = await CallersWorld.ready();
    await using client = await world.connect();
    const fields = bearer(tokenOf('alice'));
    for (let i = 0; i < 10; i += 1) assert.equal((await world.on(client, fields)).status, 200);
    assert.equal((await world.ask(fields)).status, 200);
    const metrics = await world.daemon.metrics();
    const cache = { cache: 'jwt', issuer: ISSUER };
    assert.equal(metrics.sum('sidekerb_cache_requests_total', cache), 11);
    assert.equal(metrics.sum('sidekerb_cache_hits_total', cache), 10);
    assert.equal(metrics.sum('sidekerb_cache_entries', cache), 1);
    const digests = { cache: 'identity_digest' };
    const requests = metrics.sum('sidekerb_cache_requests_total', digests);
    assert.ok(requests > 0 && metrics.sum('sidekerb_cache_hits_total', digests) <= requests);
  });
});

describe('the users of a file', () => {
  test('are known by the right password, right after a wrong one and before', async () => {
    await using world = await CallersWorld.ready();
    await using client = await world.connect();
    assert.equal((await world.on(client, basic('alice', 'alice-gate'))).status, 200);
    const wrong = await world.on(client, basic('alice', 'alice-Gate'));
    assert.equal(wrong.status, 401);
    assert.deepEqual(wrong.all('WWW-Authenticate'), CHALLENGES);
    assert.equal((await world.ask(basic('alice', 'alice-gate'))).status, 200);
    assert.equal((await world.ask(basic('nobody', 'alice-gate'))).status, 401);
  });

  test('R49 whose password was changed are asked on the next request', async () => {
    await using world = await CallersWorld.ready();
    await using client = await world.connect();
    assert.equal((await world.on(client, basic('alice', 'alice-gate'))).status, 200);
    const { result } = await world.daemon.reload(undefined, {
      USERS: userFile({ alice: 'new-gate' }),
    });
    assert.equal(result, 'ok');
    assert.equal((await world.ask(basic('alice', 'new-gate'))).status, 200);
    assert.equal((await world.on(client, basic('alice', 'alice-gate'))).status, 401);
    assert.equal((await world.ask(basic('bob', 'bob-gate'))).status, 401);
  });

  test('keep what was verified over a reload that changes nothing of theirs', async () => {
    await using world = await CallersWorld.ready();
    const hits = async (): Promise<number> =>
      (await world.daemon.metrics()).sum('sidekerb_cache_hits_total', { cache: 'basic' });
    assert.equal((await world.ask(basic('alice', 'alice-gate'))).status, 200);
    assert.equal(await hits(), 0);
    await world.daemon.reload((text) => `${text}\nlog: { access: false }\n`);
    assert.equal((await world.ask(basic('alice', 'alice-gate'))).status, 200);
    assert.equal(await hits(), 1);
  });

  test('R46 leave no password, hash or token in what the daemon tells', async () => {
    await using world = await CallersWorld.ready();
    const token = tokenOf('alice');
    await world.ask(bearer(token));
    await world.ask(bearer(`${token}x`));
    await world.ask(basic('alice', 'alice-gate'));
    await world.ask(basic('alice', 'CANARY-wrong'));
    const pages = ['/metrics', '/', '/api/status', '/api/pools', '/api/config', '/readyz'];
    const texts = [world.daemon.logText];
    for (const path of pages) texts.push((await world.daemon.admin(`GET ${path}`)).body.toString());
    const [, body = '', signature = ''] = token.split('.');
    for (const secret of ['alice-gate', 'CANARY', '$2b$', body, signature]) {
      assert.ok(!texts.some((text) => text.includes(secret)), secret);
    }
  });
});

describe('an upstream that is told who calls', () => {
  const ROUTES =
    '{ upstream: plain, forwardIdentity: X-Caller }, { path: /untold/, upstream: plain }';
  const open = { routes: ROUTES, upstream: { scheme: 'none' } } as const;
  const spoofed: Fields = { 'x-caller': 'admin', X_Caller: 'admin', 'X.Caller': 'admin' };

  test('hears the name of each, and never what a caller wrote himself', async () => {
    await using world = await CallersWorld.ready({
      ...open,
      rules: ['jwt', 'basic', 'header']
        .map((one) => `{ when: { client: ${one} }, use: alice }`)
        .join(),
    });
    const name = 'CORP\\zoë 100%';
    const users = userFile({ [name]: 'x' });
    await world.daemon.reload(undefined, { USERS: users });
    const asked: [Fields, string][] = [
      [bearer(tokenOf('alice')), 'alice'],
      [basic(name, 'x'), 'CORP\\zo%C3%AB 100%25'],
      [{ 'X-Remote-User': 'bob' }, 'bob'],
    ];
    for (const [fields] of asked)
      assert.equal((await world.ask({ ...spoofed, ...fields })).status, 200);
    assert.equal(
      (await world.ask({ ...spoofed, ...bearer(tokenOf('bob')) }, 'GET /untold/x')).status,
      200,
    );
    const told = world.upstream.requests.map(({ fields }) =>
      fields.flatMap(([field, value]) => (/^x[-_.]caller$/i.test(field) ? [value] : [])),
    );
    assert.deepEqual(told, [...asked.map(([, value]) => [value]), []]);
  });

  test('R30 hears nothing that a caller of another listener wrote under that name', async () => {
    await using world = await CallersWorld.ready({
      ...open,
      listener: `
  - name: other
    listen: '127.0.0.1:0'
    routes: [{ upstream: plain }]`,
    });
    const { port } = world.daemon.address('other');
    await using client = await world.daemon.connect('other');
    const fields = { Host: `127.0.0.1:${port}`, ...spoofed, 'X-Remote-User': 'admin' };
    await client.request('GET /x', fields);
    assert.equal((await client.response()).status, 200);
    assert.doesNotMatch(JSON.stringify(world.upstream.requests[0]?.fields), /admin/);
  });

  test('is never told a name that nobody has verified', async () => {
    await using world = await CallersWorld.start({
      ...open,
      clients: 'basic: { pass: true }',
      rules: '{ when: { client: basic }, use: self }',
    });
    assert.equal((await world.ask({ ...spoofed, ...basic('admin', 'x') })).status, 200);
    const sent = JSON.stringify(world.upstream.requests.map(({ fields }) => fields));
    assert.doesNotMatch(sent, /x[-_.]caller|admin/i);
  });

  test('B1 is never told a name that would be two, or none', async () => {
    await using world = await CallersWorld.ready(open);
    for (const sub of ['a"b', 'a,b', 'a\r\nX-Evil: 1', 'a\u0085', 'a\u2028', 'a\u007f']) {
      const answer = await world.ask(bearer(tokenOf(sub)));
      assert.equal(answer.status, 403, JSON.stringify(sub));
      assert.equal(reasonOf(answer), 'caller-name-refused');
    }
    assert.equal(world.upstream.journal.sockets.length, 0);
  });
});

describe('a caller’s own login', () => {
  test('R1 belongs to the caller who made it, also where all share a principal and a connection', async () => {
    await using world = await CallersWorld.start({
      rules: '{ when: { client: header }, use: alice }',
      clients: 'header: { name: X-Remote-User, from: [127.0.0.1] }',
      routes: '{ upstream: origin, challenge: pass }',
    });
    await using client = await world.connect();
    const carol = { Host: world.daemon.authority(), 'X-Remote-User': 'carol' };
    const login = { domain: 'LAB', user: 'bob', password: ACCOUNTS['LAB\\bob'] };
    assert.equal((await logIn(client, login, '/x', carol)).field('X-User'), 'LAB\\bob');
    assert.equal((await world.on(client, carol)).field('X-User'), 'LAB\\bob');
    assert.equal((await world.on(client, { 'X-Remote-User': 'dave' })).status, 401);
  });
});

describe('a web page of another origin', () => {
  const page: Fields = { Origin: 'https://app.example', 'Sec-Fetch-Site': 'cross-site' };

  test('may bring a token, which no browser sends by itself, where all callers do', async () => {
    await using world = await CallersWorld.ready({ clients: '{ JWT }' });
    assert.equal((await world.ask({ ...page, ...bearer(tokenOf('alice')) })).status, 200);
    assert.equal((await world.ask(page)).status, 401);
  });

  test('is refused where callers may be known by what a browser sends', async () => {
    await using world = await CallersWorld.ready();
    const answer = await world.ask({ ...page, ...bearer(tokenOf('alice')) });
    assert.deepEqual([answer.status, reasonOf(answer)], [403, 'web-page-refused']);
  });
});

describe('the URL of a key set', () => {
  test('R46 may have a key in its query, which nobody is shown', async () => {
    await using world = await CallersWorld.ready();
    await world.daemon.reload((text) => text.replace(/\/keys'/, "/keys?key=CANARY'"));
    await until(() => world.idp.fetches > 1, 'the keys are loaded from it');
    world.idp.reply = { kind: 'status', status: 500 };
    await world.daemon.reload((text) => text.replace('CANARY', 'CANARY2'));
    await world.daemon.logged(/could not be (refreshed|loaded)/);
    const pages = await Promise.all(
      ['/', '/metrics', '/readyz', '/api/status', '/api/pools', '/api/config'].map((path) =>
        world.daemon.admin(`GET ${path}`),
      ),
    );
    const config = pages.at(-1)?.body.toString() ?? '';
    assert.ok(config.includes(`"jwks":"${world.idp.url.href}?…"`), config);
    const texts = [world.daemon.logText, ...pages.map(({ body }) => body.toString())];
    assert.deepEqual(
      texts.filter((text) => text.includes('CANARY')),
      [],
    );
  });
});

describe('a forward listener', () => {
  test('reads tokens from Proxy-Authorization, asks with 407, and leaves Authorization alone', async () => {
    await using world = await CallersWorld.ready({ upstream: { scheme: 'none' } });
    const { port } = new URL(world.upstream.url);
    await world.daemon.reload((text) =>
      text
        .replace(/clients: \[(\{ jwt: .*? \} \}).*\n/, 'clients: [$1]\n')
        .replace(
          / {4}principal: .*\n/,
          '    principal: [{ when: { subject: alice }, use: alice }]\n',
        )
        .replace(/ {4}routes: .*\n/, `    mode: forward\n    allow: ['127.0.0.1:${port}']\n`),
    );
    const line = `GET http://127.0.0.1:${port}/x`;
    const asked = await world.ask({ Authorization: 'Bearer own' }, line);
    assert.equal(asked.status, 407);
    assert.deepEqual(asked.all('Proxy-Authenticate'), [CHALLENGES[0]]);
    const token = `Bearer ${tokenOf('alice', { aud: [AUDIENCE, 'more'] })}`;
    const fields = { 'Proxy-Authorization': token, Authorization: 'Bearer own' };
    assert.equal((await world.ask(fields, line)).status, 200);
    const sent = JSON.stringify(world.upstream.requests[0]?.fields);
    assert.match(sent, /"Authorization","Bearer own"/);
    assert.doesNotMatch(sent, /Proxy-Authorization/i);
  });
});
