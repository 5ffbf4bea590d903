/** Callers who bring a user name and a password of their own, in front of a scripted NTLM origin. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';
import { MARKER_FIELD } from '../support/upstream-journal.ts';
import type { ScriptedUpstreamOptions } from '../support/upstream-options.ts';

const CHALLENGE = 'Basic realm="LAB", charset="UTF-8"';

interface Setup {
  readonly upstream?: ScriptedUpstreamOptions;
  /** Further keys of the listener; default: everybody is his own principal. */
  readonly listener?: string;
  readonly guard?: string;
}

class World implements AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon) {
    this.upstream = upstream;
    this.daemon = daemon;
  }

  static async start(setup: Setup = {}): Promise<World> {
    const upstream = await startScriptedUpstream({
      open: ({ target }) => target.startsWith('/plain/'),
      ...setup.upstream,
    });
    try {
      const config = configText(upstream.url, setup);
      return new World(upstream, await startDaemon({ config, secrets: { SVC: 'bob-secret' } }));
    } catch (error) {
      await upstream.close();
      throw error;
    }
  }

  connect(): Promise<RawClient> {
    return this.daemon.connect();
  }

  /** One request on a connection of its own; `who` is `user:password`. */
  async ask(who: string | undefined, fields: Fields = {}, line = 'GET /x'): Promise<RawResponse> {
    await using client = await this.connect();
    return await this.on(client, who, fields, line);
  }

  async on(
    client: RawClient,
    who: string | undefined,
    fields: Fields = {},
    line = 'GET /x',
  ): Promise<RawResponse> {
    const own = who === undefined ? {} : { Authorization: basic(who) };
    await client.request(line, { Host: this.daemon.authority(), ...own, ...fields });
    return await client.response(line.split(' ')[0] ?? '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

type Fields = Readonly<Record<string, string>>;

const basic = (who: string | Uint8Array): string => `Basic ${Buffer.from(who).toString('base64')}`;

const configText = (url: string, { listener, guard }: Setup): string =>
  `version: 1
admin: { listen: '127.0.0.1:0' }
principals:
  caller: { from: client${guard === undefined ? '' : `, guard: { ${guard} }`} }
  svc: { username: 'LAB\\bob', password: { env: SVC } }
upstreams:
  origin: { url: '${url}', auth: { schemes: [ntlm] } }
  plain: { url: '${url}' }
listeners:
  - name: api
    listen: '127.0.0.1:0'
    ${listener ?? 'clients: [basic: { pass: true, realm: LAB }], principal: [{ when: {}, use: caller }]'}
    routes: [{ upstream: origin }, { path: /plain/, upstream: plain }]
`.replace(/^ {4}(clients:.*), (principal:.*)$/m, '    $1\n    $2');

const ALICE = 'LAB\\alice:alice-secret';
const BOB = 'LAB\\bob:bob-secret';

describe('a Basic caller', () => {
  test('R1 is himself upstream, on connections that serve nobody else', async () => {
    await using world = await World.start();
    const callers = [ALICE, BOB, ALICE, BOB, ALICE, BOB].map(async (who) => {
      await using client = await world.connect();
      const [user = ''] = who.split(':');
      for (let i = 0; i < 20; i += 1) {
        const answer = await world.on(client, who, { [MARKER_FIELD]: user });
        assert.equal(answer.status, 200);
        assert.equal(answer.field('X-User'), user);
      }
    });
    await Promise.all(callers);
    const metrics = await world.daemon.metrics();
    const passed = { listener: 'api', client: 'basic', result: 'ok' };
    assert.equal(metrics.sum('sidekerb_inbound_auth_total', passed), 120);
  });

  test('R53 is decided anew by each request of a connection', async () => {
    await using world = await World.start();
    await using client = await world.connect();
    for (const who of [ALICE, BOB, ALICE, ALICE, BOB]) {
      const [user = ''] = who.split(':');
      const answer = await world.on(client, who, { [MARKER_FIELD]: user });
      assert.equal(answer.field('X-User'), user);
    }
  });

  test('R4 with a wrong password, right after the right one, is asked again by the listener', async () => {
    await using world = await World.start();
    await using right = await world.connect();
    assert.equal((await world.on(right, ALICE)).status, 200);
    const wrong = await world.ask('LAB\\alice:alice-Secret');
    assert.equal(wrong.status, 401);
    assert.deepEqual(wrong.all('WWW-Authenticate'), [CHALLENGE]);
    assert.match(wrong.field('Proxy-Status') ?? '', /details="credential-rejected"/);
    assert.equal((await world.on(right, ALICE)).status, 200);
    const { sockets } = world.upstream.journal;
    assert.equal(sockets.length, 2);
    assert.deepEqual(sockets[1]?.logins, []);
    assert.ok(sockets[1]?.requests.every(({ status }) => status === 401));
  });

  test('R30 brings a field that nobody upstream sees', async () => {
    await using world = await World.start();
    assert.equal((await world.ask(ALICE)).status, 200);
    assert.equal((await world.ask(ALICE, {}, 'GET /plain/x')).status, 200);
    const sent = world.upstream.journal.sockets.flatMap(({ requests }) => requests);
    assert.ok(sent.length >= 4);
    assert.deepEqual(
      sent.filter(({ token }) => token === 'basic' || token === 'other'),
      [],
    );
    const plain = sent.find(({ target }) => target === '/plain/x');
    assert.equal(plain?.token, 'none');
  });

  test('R46 leaves no trace of the password in logs, metrics and the admin pages', async () => {
    await using world = await World.start();
    await world.ask(ALICE);
    await world.ask('LAB\\alice:CANARY-wrong');
    await world.ask(ALICE);
    const pages = await Promise.all(
      ['/metrics', '/api/status', '/api/pools', '/api/config'].map((path) =>
        world.daemon.admin(`GET ${path}`),
      ),
    );
    const texts = [world.daemon.logText, ...pages.map(({ body }) => body.toString())];
    for (const secret of ['alice-secret', 'CANARY', basic(ALICE).slice(6)]) {
      assert.ok(!texts.some((text) => text.includes(secret)), secret);
    }
  });
});

describe('a caller who cannot be understood', () => {
  for (const [what, fields] of [
    ['without credentials', {}],
    ['with a token of another scheme', { Authorization: 'Bearer abc' }],
    ['with credentials that are no base64', { Authorization: 'Basic %%%' }],
    ['without a colon', { Authorization: basic('alice') }],
    ['without a name', { Authorization: basic(':secret') }],
    ['with a control character', { Authorization: basic('alice:se\0cret') }],
    ['with bytes that are no UTF-8', { Authorization: basic(Buffer.from('jos\xe9:x', 'latin1')) }],
  ] as const) {
    test(`is asked: ${what}`, async () => {
      await using world = await World.start();
      const answer = await world.ask(undefined, fields);
      assert.equal(answer.status, 401);
      assert.deepEqual(answer.all('WWW-Authenticate'), [CHALLENGE]);
      assert.match(answer.field('Proxy-Status') ?? '', /details="client-auth-required"/);
      assert.equal(world.upstream.journal.sockets.length, 0);
      const metrics = await world.daemon.metrics();
      const refused = { client: 'basic', result: 'refused' };
      assert.equal(metrics.sum('sidekerb_inbound_auth_total', refused), 1);
    });
  }

  test('is asked before he learns which paths there are', async () => {
    await using world = await World.start();
    assert.equal((await world.ask(undefined, {}, 'GET /a/../b')).status, 401);
    assert.equal((await world.ask(ALICE, {}, 'GET /a/../b')).status, 400);
  });

  test('is refused for two fields', async () => {
    await using world = await World.start();
    await using client = await world.connect();
    const line = `Authorization: ${basic(ALICE)}\r\n`;
    await client.send(`GET /x HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\n${line}${line}\r\n`);
    assert.equal((await client.response('GET')).status, 400);
  });
});

test('a reload counts for the next request of a connection: its rules, its realm', async () => {
  await using world = await World.start();
  await using client = await world.connect();
  assert.equal((await world.on(client, ALICE)).status, 200);
  await world.daemon.reload((text) => text);
  assert.equal((await world.on(client, ALICE)).field('X-User'), 'LAB\\alice');
  assert.equal(world.upstream.journal.sockets.length, 1, 'the same caller, the same connection');
  await world.daemon.reload((text) =>
    text.replace('realm: LAB', 'realm: NEW').replace('when: {}', "when: { subject: 'LAB\\bob' }"),
  );
  assert.equal((await world.on(client, ALICE)).status, 403);
  assert.equal((await world.ask(BOB)).status, 200);
  const asked = (await world.ask(undefined)).field('WWW-Authenticate');
  assert.equal(asked, 'Basic realm="NEW", charset="UTF-8"');
});

describe('the guard of callers', () => {
  test('lets three guesses through, and the accepted password work on', async () => {
    await using world = await World.start();
    assert.equal((await world.ask(ALICE)).status, 200);
    world.upstream.drop('fin');
    await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
    const statuses: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      statuses.push((await world.ask(`LAB\\alice:guess-${i}`)).status);
    }
    assert.deepEqual(statuses, [401, 401, 401, 503, 503, 503, 503, 503]);
    assert.equal(world.upstream.count('type3'), 4);
    assert.equal((await world.ask(ALICE)).status, 200);
    assert.equal((await world.ask(BOB)).status, 200);
  });

  test('holds however many guess at a time', async () => {
    await using world = await World.start();
    const guesses = Array.from({ length: 40 }, (_, i) => world.ask(`LAB\\alice:guess-${i}`));
    const answers = await Promise.all(guesses);
    assert.equal(world.upstream.count('type3'), 3);
    assert.equal(answers.filter(({ status }) => status === 401).length, 3);
    assert.equal(answers.filter(({ status }) => status === 503).length, 37);
  });

  test('is closed by an operator who flushes the principal', async () => {
    await using world = await World.start();
    for (let i = 0; i < 4; i += 1) await world.ask(`LAB\\alice:guess-${i}`);
    assert.equal((await world.ask(ALICE)).status, 503);
    assert.equal((await world.daemon.admin('POST /api/principals/caller/flush')).status, 200);
    assert.equal((await world.ask(ALICE)).status, 200);
  });
});

describe('the rules of a listener', () => {
  const clients = 'clients: [basic: { pass: true, realm: LAB }, none]';
  const rules = `principal: [{ when: { client: basic, subject: 'LAB\\*' }, use: caller }, { when: { client: none }, use: svc }]`;

  test('map callers; who matches none is refused and gets nothing else', async () => {
    await using world = await World.start({ listener: `${clients}, ${rules}` });
    assert.equal((await world.ask(ALICE)).field('X-User'), 'LAB\\alice');
    assert.equal((await world.ask(undefined)).field('X-User'), 'LAB\\bob');
    const stranger = await world.ask('alice@lab.test:alice-secret');
    assert.equal(stranger.status, 403);
    assert.match(stranger.field('Proxy-Status') ?? '', /details="no-principal"/);
    assert.equal(stranger.field('WWW-Authenticate'), undefined);
  });

  test('let nobody become the caller without credentials by malformed ones', async () => {
    await using world = await World.start({ listener: `${clients}, ${rules}` });
    assert.equal((await world.ask(undefined, { Authorization: 'Basic %%%' })).status, 401);
    assert.equal((await world.ask(undefined, { Authorization: 'NTLM TlRMTVNTUAAB' })).status, 403);
  });

  test('a token that the listener does not take goes on to an origin without a login', async () => {
    await using world = await World.start({ listener: `${clients}, ${rules}` });
    const answer = await world.ask(undefined, { Authorization: 'Bearer abc' }, 'GET /plain/x');
    assert.equal(answer.status, 200);
    const [sent] = world.upstream.journal.sockets.flatMap(({ requests }) => requests);
    assert.equal(sent?.token, 'other');
  });
});
