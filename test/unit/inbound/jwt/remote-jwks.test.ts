/**
 * Key sets from a URL: refreshes and retries by a clock in the test's hands, fetches from a real server on
 * loopback that behaves, misbehaves, and comes back.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, test, type TestContext } from 'node:test';
import { RemoteJwks } from '../../../../src/inbound/jwt/remote-jwks.ts';
import { testCertificate } from '../../../support/certificates.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { type JwksReply, type JwksServer, startJwksServer } from '../../../support/jwks-server.ts';
import { JwtWorld, KeptLog } from '../../../support/jwt-world.ts';
import { jwks, signingKey } from '../../../support/tokens.ts';
import { Gate, until, within } from '../../../support/waiting.ts';

const ROOT = new URL('../../../../', import.meta.url);

const ONE = signingKey({ kid: 'one' });
const TWO = signingKey({ kid: 'two', nth: 1 });

interface Wish {
  readonly refreshMs?: number;
  readonly extraCa?: readonly string[];
  readonly url?: URL;
}

/** A key set of `server` on a clock of its own; `using` stops it. */
class Remote implements Disposable {
  readonly clock = new FakeClock();
  readonly log = new KeptLog();
  readonly counts = { ok: 0, failed: 0 };
  readonly jwks: RemoteJwks;
  readonly world = new JwtWorld({
    clock: this.clock,
    source: { refreshForUnknownKid: () => this.jwks.refreshForUnknownKid() },
  });

  constructor(server: JwksServer, { refreshMs = 300_000, extraCa = [], url }: Wish = {}) {
    const { clock, log } = this;
    const refreshed = (result: 'ok' | 'failed'): void => {
      this.counts[result] += 1;
    };
    const deps = { clock, deadlines: clock.deadlines, log, meters: { refreshed } };
    this.jwks = new RemoteJwks({ url: url ?? server.url, refreshMs, extraCa }, deps);
    this.jwks.subscribe((keys) => this.world.verifier.replaceKeys(keys));
  }

  /** Starts and waits for the first refresh, whatever it brings. */
  async start(): Promise<this> {
    this.jwks.start();
    await this.refreshes(1);
    return this;
  }

  /** Waits until so many refreshes have ended. */
  async refreshes(count: number): Promise<void> {
    await until(() => this.counts.ok + this.counts.failed >= count, `${count} refreshes`);
    assert.equal(this.counts.ok + this.counts.failed, count);
  }

  [Symbol.dispose](): void {
    this.jwks.stop();
  }
}

describe('a key set of a URL', () => {
  test('is loaded at the start and serves the verifier', async () => {
    await using server = await startJwksServer(jwks(ONE, TWO));
    using remote = new Remote(server);
    assert.equal(remote.jwks.loaded, false);
    assert.equal(await remote.world.outcome(remote.world.token(ONE)), 'jwks-unavailable');
    await remote.start();
    assert.equal(await remote.world.outcome(remote.world.token(ONE)), 'ok');
    const { loaded, lastSuccessAt, failing } = remote.jwks;
    assert.deepEqual([loaded, lastSuccessAt, failing], [true, remote.clock.wall(), undefined]);
    assert.deepEqual(remote.log.messages, ['info: the token keys changed']);
    const { added, removed, kept } = remote.log.lines[0]?.fields ?? {};
    assert.deepEqual([added, removed, kept], [2, 0, 0]);
    const [request] = server.requests;
    assert.equal(request?.accept, 'application/json, application/jwk-set+json');
    assert.equal(request?.connection, 'close');
  });

  test('is fetched again at every interval, not before', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server, { refreshMs: 10_000 }).start();
    for (let count = 2; count <= 4; count += 1) {
      remote.clock.advance(9_900);
      assert.equal(server.fetches, count - 1);
      remote.clock.advance(200);
      await remote.refreshes(count);
      assert.equal(server.fetches, count);
    }
    assert.equal(remote.jwks.lastSuccessAt, remote.clock.wall());
    assert.equal(remote.log.lines.length, 1);
  });

  test('with another key under the old name refuses the next request', async () => {
    await using server = await startJwksServer(jwks(ONE, TWO));
    using remote = await new Remote(server).start();
    const { world } = remote;
    const [one, two] = [world.token(ONE), world.token(TWO)];
    const [oldOne, oldTwo] = [await world.accepted(one), await world.accepted(two)];
    server.serve(jwks(signingKey({ kid: 'one', nth: 2 }), TWO));
    remote.clock.advance(300_100);
    await remote.refreshes(2);
    assert.deepEqual(
      [world.verifier.isValid(oldOne), world.verifier.isValid(oldTwo)],
      [false, true],
    );
    assert.equal(await world.outcome(one), 'has a signature that its key does not verify');
    assert.equal(await world.accepted(two), oldTwo);
    const { added, removed, kept } = remote.log.lines[1]?.fields ?? {};
    assert.deepEqual([added, removed, kept], [1, 1, 1]);
  });

  test('is given to who subscribes later, and not to who has left', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server).start();
    const seen: (string | undefined)[] = [];
    const leave = remote.jwks.subscribe((keys) => seen.push(keys[0]?.kid));
    assert.deepEqual(seen, ['one']);
    leave();
    server.serve(jwks(TWO));
    remote.clock.advance(300_100);
    await remote.refreshes(2);
    assert.deepEqual(seen, ['one']);
  });

  test('may end with its connection, as in HTTP/1.0', async () => {
    await using server = await startJwksServer('');
    const bytes = `HTTP/1.0 200 OK\r\n\r\n${jwks(ONE)}`;
    server.reply = { kind: 'raw', bytes, ends: true };
    using remote = await new Remote(server).start();
    assert.deepEqual([remote.jwks.loaded, remote.jwks.failing], [true, undefined]);
  });

  test('is not taken from a server that nobody vouches for, whatever the environment says', async () => {
    await using server = await startJwksServer(jwks(ONE), testCertificate());
    const program = `
      import { JwksFetch, jwksPlace } from './src/inbound/jwt/jwks-fetch.ts';
      import { FakeClock } from './test/support/fake-clock.ts';
      const place = jwksPlace(new URL('${server.url.href}'), []);
      console.log(JSON.stringify(await new JwksFetch(place, new FakeClock().deadlines).answer));
    `;
    const flags = ['--input-type=module', '-e', program];
    const env = { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' };
    const asked = promisify(execFile)(process.execPath, flags, { cwd: ROOT, env, timeout: 20_000 });
    const { stdout } = await within(asked, 'the process ends', 20_000);
    assert.match(stdout, /^\{"fault":"the connection failed \(\w*(CERT|LEAF)\w*\)"\}\n$/);
    assert.equal(server.fetches, 0);
  });

  test('may be behind TLS of an authority that is added to the default ones', async () => {
    const certificate = testCertificate();
    await using server = await startJwksServer(jwks(ONE), certificate);
    using trusting = await new Remote(server, { extraCa: [certificate.ca] }).start();
    assert.equal(trusting.jwks.loaded, true);
    using careful = await new Remote(server).start();
    assert.equal(careful.jwks.failing, 'the connection failed (UNABLE_TO_VERIFY_LEAF_SIGNATURE)');
    assert.equal(server.fetches, 1);
  });

  test('is fetched with the user information of its URL, which no log shows', async () => {
    await using server = await startJwksServer('');
    const url = new URL(`http://user:c4n4ry@${server.url.host}/keys?secret=c4n4ry`);
    using remote = await new Remote(server, { url }).start();
    assert.ok(server.requests[0]?.authorization?.startsWith('Basic '));
    assert.equal(remote.log.lines[0]?.fields['url'], server.url.href);
    assert.ok(!JSON.stringify([remote.log.lines, remote.jwks.failing]).includes('c4n4ry'));
  });

  test('is fetched directly, whatever proxy the environment names', async (t) => {
    await using proxy = await startJwksServer(jwks(TWO));
    await using server = await startJwksServer(jwks(ONE));
    const before = { ...process.env };
    t.after(() => {
      process.env = before;
    });
    Object.assign(process.env, { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.url.origin });
    Object.assign(process.env, { http_proxy: proxy.url.origin, NO_PROXY: '', no_proxy: '' });
    using remote = await new Remote(server).start();
    assert.deepEqual([remote.jwks.loaded, server.fetches, proxy.fetches], [true, 1, 0]);
  });
});

describe('a failed refresh', () => {
  const good = jwks(ONE);
  const large = JSON.stringify({ keys: [ONE.jwk], padding: 'x'.repeat(512 * 1024) });
  const rows: [title: string, reply: JwksReply, reason: string][] = [
    ['rubbish', { kind: 'body', body: '\0\x01\x02' }, 'the key set is not JSON'],
    ['a web page', { kind: 'body', body: '<html></html>' }, 'the key set is not JSON'],
    ['no UTF-8', { kind: 'body', body: Buffer.from([0xff]) }, 'the answer is not UTF-8'],
    ['nothing', { kind: 'body', body: '' }, 'the key set is not JSON'],
    ['an empty list', { kind: 'body', body: '{"keys":[]}' }, 'the key set is empty'],
    [
      'secrets alone',
      { kind: 'body', body: jwks({ kty: 'oct', k: 'AAAA' }) },
      'the key set has no key that can verify signatures',
    ],
    ['a body over the limit', { kind: 'body', body: large }, 'the answer is larger than 512 KiB'],
    [
      'a redirect',
      { kind: 'status', status: 302, headers: { location: '/other' }, body: good },
      'the answer is a redirect (status 302)',
    ],
    ['a 500', { kind: 'status', status: 500, body: good }, 'the answer has the status 500'],
    ['a 204', { kind: 'status', status: 204 }, 'the answer has the status 204'],
    ['a 404', { kind: 'status', status: 404, body: good }, 'the answer has the status 404'],
    ['a 206', { kind: 'status', status: 206, body: good }, 'the answer has the status 206'],
    [
      'an answer cut in the middle',
      { kind: 'cut', body: good, framing: 'length' },
      'the answer was cut off',
    ],
    [
      'an answer cut between chunks',
      { kind: 'cut', body: good, framing: 'chunked' },
      'the answer was cut off',
    ],
    ['no answer', { kind: 'hang-up' }, 'the connection failed (ECONNRESET)'],
    [
      'no HTTP',
      { kind: 'raw', bytes: 'SSH-2.0-OpenSSH\r\n' },
      'the connection failed (HPE_INVALID_CONSTANT)',
    ],
    [
      'a head over the limit',
      { kind: 'raw', bytes: `HTTP/1.1 200 OK\r\na: ${'x'.repeat(100_000)}\r\n\r\n` },
      'the connection failed (HPE_HEADER_OVERFLOW)',
    ],
    [
      'another protocol',
      { kind: 'raw', bytes: 'HTTP/1.1 101 Now\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n' },
      'the connection ended without an answer',
    ],
  ];
  for (const [title, reply, reason] of rows) {
    test(`by ${title} has its reason, keeps the keys, and heals by itself`, async () => {
      await using server = await startJwksServer(good);
      using remote = await new Remote(server).start();
      const { world, jwks: own } = remote;
      const token = world.token(ONE);
      assert.equal(await world.outcome(token), 'ok');
      server.reply = reply;
      remote.clock.advance(300_100);
      await remote.refreshes(2);
      assert.deepEqual([own.failing, own.loaded], [reason, true]);
      assert.equal(await world.outcome(token), 'ok');
      assert.ok((own.lastSuccessAt ?? 0) < remote.clock.wall());
      server.serve(good);
      remote.clock.advance(1_100);
      await remote.refreshes(3);
      assert.equal(own.failing, undefined);
      assert.deepEqual(remote.log.messages.slice(1), [
        'warn: the token keys could not be refreshed: the old ones stay in use',
        'info: the token keys can be refreshed again',
      ]);
      assert.equal(remote.log.lines[1]?.fields['reason'], reason);
    });
  }

  for (const [title, bytes] of [
    ['is silent', ''],
    ['never ends its head', 'HTTP/1.1 200 OK\r\nx: y\r\n'],
    ['never ends its body', 'HTTP/1.1 200 OK\r\n\r\n{"keys":'],
  ] as const) {
    test(`by a server that ${title} ends after 10 s and heals by itself`, async () => {
      await using server = await startJwksServer(good);
      server.reply = { kind: 'raw', bytes };
      using remote = new Remote(server);
      remote.jwks.start();
      await until(() => server.fetches === 1, 'the request arrives');
      remote.clock.advance(9_900);
      assert.equal(remote.counts.failed, 0);
      remote.clock.advance(200);
      await remote.refreshes(1);
      assert.equal(remote.jwks.failing, 'no complete answer within 10 s');
      assert.equal(remote.log.messages[0], 'warn: the token keys could not be loaded');
      server.serve(good);
      remote.clock.advance(1_100);
      await remote.refreshes(2);
      assert.equal(remote.jwks.loaded, true);
    });
  }

  test('by a closed port names the code of the system', async () => {
    const server = await startJwksServer(good);
    const { url } = server;
    await server[Symbol.asyncDispose]();
    using remote = await new Remote(server, { url }).start();
    assert.equal(remote.jwks.failing, 'the connection failed (ECONNREFUSED)');
    assert.equal(remote.jwks.loaded, false);
  });

  /** Seconds from each of `count` failures to the fetch that follows it. */
  const pauses = async (t: TestContext, refreshMs: number, count: number): Promise<number[]> => {
    await using server = await startJwksServer('');
    using remote = new Remote(server, { refreshMs });
    const { mock } = t.mock.method(remote.clock.deadlines, 'arm');
    await remote.start();
    for (let i = 1; i <= count; i += 1) {
      // The wheel is armed for each fetch, and after it for the pause.
      assert.equal(mock.callCount(), 2 * i);
      const ms = Number(mock.calls.at(-1)?.arguments[1]);
      remote.clock.advance(ms + 100);
      await remote.refreshes(i + 1);
    }
    assert.equal(server.fetches, count + 1);
    assert.equal(remote.log.lines.length, 1);
    const armed = mock.calls.map((call) => call.arguments[1] / 1000);
    return armed.filter((_, i) => i % 2 === 1).slice(0, count);
  };

  test('is followed by others after 1, 2, 4 s and so on, up to 30 s', async (t) => {
    assert.deepEqual(await pauses(t, 300_000, 8), [1, 2, 4, 8, 16, 30, 30, 30]);
  });

  test('is never followed later than a good one would be', async (t) => {
    assert.deepEqual(await pauses(t, 12_000, 6), [1, 2, 4, 8, 12, 12]);
  });
});

describe('tokens with unknown key ids', () => {
  test('share one fetch, and cause none again for 30 s', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server, { refreshMs: 86_400_000 }).start();
    const { world, clock } = remote;
    const flood = async (prefix: string): Promise<void> => {
      const tokens = Array.from({ length: 500 }, (_, i) =>
        world.token(TWO, {}, { kid: `${prefix}${i}` }),
      );
      const outcomes = new Set(await Promise.all(tokens.map((token) => world.outcome(token))));
      assert.deepEqual([...outcomes], ['names a key that its issuer does not have']);
    };
    await flood('a');
    assert.equal(server.fetches, 2);
    clock.advance(29_900);
    await flood('b');
    assert.equal(server.fetches, 2);
    clock.advance(100);
    await flood('c');
    assert.equal(server.fetches, 3);
    assert.equal(world.cache.size, 0);
  });

  test('are verified when the fetch brings their key', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server).start();
    server.serve(jwks(ONE, TWO));
    assert.equal(await remote.world.outcome(remote.world.token(TWO)), 'ok');
    assert.equal(server.fetches, 2);
  });

  test('join the fetch in flight, which uses up nothing', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server, { refreshMs: 10_000 }).start();
    const gate = new Gate();
    server.reply = { kind: 'held', gate, next: { kind: 'body', body: jwks(ONE, TWO) } };
    remote.clock.advance(10_100);
    await until(() => gate.arrivals === 1, 'the refresh is under way');
    const outcome = remote.world.outcome(remote.world.token(TWO));
    gate.open();
    assert.equal(await outcome, 'ok');
    assert.equal(server.fetches, 2);
    await remote.world.outcome(remote.world.token(TWO, {}, { kid: 'x' }));
    assert.equal(server.fetches, 3);
  });

  test('do not shorten the pause of a server that fails', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server).start();
    server.serve('');
    const token = remote.world.token(TWO);
    assert.equal(await remote.world.outcome(token), 'names a key that its issuer does not have');
    await remote.refreshes(2);
    assert.equal(await remote.world.outcome(token), 'names a key that its issuer does not have');
    assert.equal(server.fetches, 2);
  });
});

describe('after the end', () => {
  test('nothing is fetched any more, and the keys stay', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server).start();
    remote.jwks.stop();
    remote.clock.advance(300_100);
    assert.equal(
      await remote.world.outcome(remote.world.token(TWO)),
      'names a key that its issuer does not have',
    );
    // Whatever was sent before has arrived when this has.
    await (await fetch(server.url)).text();
    assert.equal(server.fetches, 2);
    assert.equal(remote.jwks.loaded, true);
  });

  test('a fetch in flight is over, and who waited for it goes on', async () => {
    await using server = await startJwksServer(jwks(ONE));
    using remote = await new Remote(server).start();
    const gate = new Gate();
    server.reply = { kind: 'held', gate, next: { kind: 'body', body: jwks(TWO) } };
    const outcome = remote.world.outcome(remote.world.token(TWO));
    await until(() => gate.arrivals === 1, 'the fetch is under way');
    remote.jwks.stop();
    assert.equal(await outcome, 'names a key that its issuer does not have');
    gate.open();
    assert.deepEqual(remote.counts, { ok: 1, failed: 0 });
    assert.equal(remote.log.lines.length, 1);
  });
});
