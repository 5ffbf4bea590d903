/**
 * What becomes of a request while somebody is asked who calls: here the key server is, about a token of a
 * key that nobody has seen, and it answers when the test lets it.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import { goodClaims, jwks, signingKey, signToken } from '../support/tokens.ts';
import { Gate, until, within } from '../support/waiting.ts';
import { stalled } from './http-world.ts';
import { bearer, CallersWorld, type CallersSetup, type Fields, WAYS } from './callers-world.ts';

const FRESH = signingKey({ kid: 'fresh', nth: 1 });

/** A world whose key server has a new key, behind a gate. */
class WaitingWorld implements AsyncDisposable {
  readonly inner: CallersWorld;
  readonly gate = new Gate();
  /** Of alice, signed with the new key. */
  readonly fields: Fields = bearer(signToken(FRESH, goodClaims(Date.now())));

  constructor(inner: CallersWorld) {
    this.inner = inner;
    const next = { kind: 'body', body: jwks(signingKey(), FRESH) } as const;
    inner.idp.reply = { kind: 'held', gate: this.gate, next };
  }

  static async start(setup: CallersSetup = {}): Promise<WaitingWorld> {
    return new WaitingWorld(await CallersWorld.ready(setup));
  }

  /** Sends a request and resolves once the key server was asked about it. */
  async send(client: RawClient, line = 'GET /x', body = ''): Promise<void> {
    const length = { 'Content-Length': String(Buffer.byteLength(body)) };
    const own = { Host: this.inner.daemon.authority(), ...this.fields };
    await client.request(line, body === '' ? own : { ...own, ...length }, body);
    await until(() => this.gate.arrivals > 0, 'the key server is asked');
  }

  /** Digests of what was executed; logins carry nothing. */
  get bodies(): string[] {
    return this.inner.upstream.requests
      .filter(({ method, status }) => method === 'POST' && status === 200)
      .map(({ bodySha256 }) => bodySha256);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.gate.open();
    await this.inner[Symbol.asyncDispose]();
  }
}

const UPGRADE = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n`;

/** The configuration with a forward listener in the place of the reverse one, for tokens alone. */
const asForward = (text: string, port: string): string =>
  text
    .replace(/clients: \[(\{ jwt: .*? \} \}).*\n/, 'clients: [$1]\n')
    .replace(/ {4}principal: .*\n/, '    principal: [{ when: {}, use: alice }]\n')
    .replace(/ {4}routes: .*\n/, `    mode: forward\n    allow: ['127.0.0.1:${port}']\n`);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('a request whose caller is asked about', () => {
  test('is answered as if there had been no wait, and others go on meanwhile', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client);
    assert.equal((await world.inner.ask(WAYS['jwt']?.('bob'))).status, 200);
    world.gate.open();
    const answer = await within(client.response(), 'the answer');
    assert.equal(answer.status, 200);
    assert.equal(answer.field('X-User'), 'LAB\\alice');
    assert.equal((await world.inner.on(client, world.fields)).status, 200);
    assert.equal(world.inner.idp.fetches, 2);
  });

  for (const length of [10, 15_000, 300_000]) {
    test(`keeps a body of ${length} bytes that came with it`, async () => {
      await using world = await WaitingWorld.start();
      await using client = await world.inner.connect();
      const body = 'x'.repeat(length - 3).concat('end');
      const sent = world.send(client, 'POST /x', body);
      await until(() => world.gate.arrivals > 0, 'the key server is asked');
      world.gate.open();
      assert.equal((await within(client.response('POST'), 'the answer')).status, 200);
      await sent;
      assert.deepEqual(world.bodies, [sha256(body)]);
    });
  }

  test('keeps those that follow on the connection in their order', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client, 'GET /first');
    const host = { Host: world.inner.daemon.authority() };
    await client.request('GET /second', { ...host, ...WAYS['basic']?.('bob') });
    await client.request('GET /third', { ...host, ...world.fields });
    assert.equal(world.inner.upstream.requests.length, 0);
    world.gate.open();
    const users: (string | undefined)[] = [];
    for (let i = 0; i < 3; i += 1) {
      users.push((await within(client.response(), 'an answer')).field('X-User'));
    }
    assert.deepEqual(users, ['LAB\\alice', 'LAB\\bob', 'LAB\\alice']);
  });

  test('is answered to a caller who has closed his side behind it', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client);
    client.endWriting();
    world.gate.open();
    assert.equal((await within(client.response(), 'the answer')).status, 200);
    await client.gone();
  });

  test('reaches no upstream when its caller has closed his side in the middle of it', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    const token = world.fields['Authorization'] ?? '';
    const head = `POST /x HTTP/1.1\r\nHost: ${world.inner.daemon.authority()}\r\nAuthorization: ${token}\r\n`;
    await client.send(`${head}Content-Length: 10\r\n\r\nhalf`);
    await until(() => world.gate.arrivals > 0, 'the key server is asked');
    client.endWriting();
    world.gate.open();
    await client.gone();
    assert.deepEqual(world.bodies, []);
  });

  test('is the last of a connection whose caller has closed his side, though it leads elsewhere', async () => {
    await using world = await WaitingWorld.start({ routes: '{ path: /crm/, upstream: origin }' });
    await using client = await world.inner.connect();
    await world.send(client, 'GET /crm');
    client.endWriting();
    await stalled(() => client.socket.bytesWritten);
    world.gate.open();
    assert.equal((await within(client.response(), 'the answer')).status, 308);
    await client.gone();
  });

  test('is forgotten when its caller is gone', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client);
    client.reset();
    await world.inner.daemon.measured(
      (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
      'the caller is gone',
    );
    world.gate.open();
    assert.equal((await world.inner.ask(world.fields)).status, 200);
    const served = world.inner.upstream.requests.filter(
      ({ method, status }) => method === 'GET' && status === 200,
    );
    assert.equal(served.length, 1);
  });

  for (const [what, filler, body] of [
    ['head', 'x'.repeat(40_000), ''],
    ['head and a body', 'x'.repeat(20_000), 'y'.repeat(15_000)],
  ] as const) {
    test(`R17 is forgotten when its caller is gone behind a long ${what}`, async () => {
      await using world = await WaitingWorld.start();
      await using client = await world.inner.connect();
      const fields = { Host: world.inner.daemon.authority(), ...world.fields, 'X-Filler': filler };
      await client.request('POST /x', { ...fields, 'Content-Length': String(body.length) }, body);
      await until(() => world.gate.arrivals > 0, 'the key server is asked');
      await stalled(() => client.socket.bytesWritten);
      client.reset();
      await world.inner.daemon.measured(
        (metrics) => metrics.sum('sidekerb_downstream_connections') === 0,
        'the caller is gone',
      );
      world.gate.open();
      assert.equal((await world.inner.ask(world.fields)).status, 200);
      assert.deepEqual(world.bodies, []);
    });
  }

  test('is answered by a daemon that drains, on a connection that ends with it', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client);
    const drained = world.inner.daemon.app.drain();
    world.gate.open();
    const answer = await within(client.response(), 'the answer');
    assert.equal(answer.status, 200);
    assert.equal(answer.field('Connection'), 'close');
    await within(drained, 'the drain');
  });

  test('becomes a tunnel, with the bytes that came behind it', async () => {
    await using world = await WaitingWorld.start({ upstream: { scheme: 'none' } });
    const { daemon, upstream } = world.inner;
    const { host, port } = new URL(upstream.url);
    await daemon.reload((text) => asForward(text, port));
    await using client = await world.inner.connect();
    const token = world.fields['Authorization'] ?? '';
    await client.send(
      `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\nProxy-Authorization: ${token}\r\n\r\n`,
    );
    await until(() => world.gate.arrivals > 0, 'the key server is asked');
    await client.send('GET /inside HTTP/1.1\r\nHost: x\r\n\r\n');
    world.gate.open();
    assert.equal((await within(client.head(), 'the tunnel')).status, 200);
    assert.equal((await within(client.response(), 'the answer inside')).status, 200);
    assert.equal(upstream.requests.at(-1)?.target, '/inside');
  });

  test('becomes a WebSocket', async () => {
    await using world = await WaitingWorld.start({
      routes: '{ upstream: plain }',
      upstream: { scheme: 'none', handler: () => ({ upgrade: 'websocket' }) },
    });
    await using client = await world.inner.connect();
    const lines = Object.entries({ Host: world.inner.daemon.authority(), ...world.fields }).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    await client.send(`GET /ws HTTP/1.1\r\n${lines.join('')}${UPGRADE}\r\n`);
    await until(() => world.gate.arrivals > 0, 'the key server is asked');
    world.gate.open();
    assert.equal((await within(client.head(), 'the switch')).status, 101);
  });

  test('is judged by the configuration that is in force when the answer comes', async () => {
    await using world = await WaitingWorld.start();
    await using client = await world.inner.connect();
    await world.send(client);
    const { result } = await world.inner.daemon.reload((text) =>
      text.replace('audience: api', 'audience: other'),
    );
    assert.equal(result, 'ok');
    world.gate.open();
    const answer = await within(client.response(), 'the answer');
    assert.ok([401, 503].includes(answer.status), String(answer.status));
    assert.equal(world.inner.upstream.requests.length, 0);
  });
});
