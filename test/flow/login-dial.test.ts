/** Connections that are not there yet: an origin that takes TCP and never speaks TLS, or nothing at all. */
import assert from 'node:assert/strict';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { event, until } from '../support/waiting.ts';

/** Accepts and stays silent. */
class SilentServer {
  readonly sockets: Socket[] = [];
  readonly #server: Server = createServer((socket) => {
    this.sockets.push(socket);
    socket.on('error', () => undefined);
    socket.resume();
  });

  static async start(): Promise<SilentServer> {
    const silent = new SilentServer();
    silent.#server.listen(0, '127.0.0.1');
    await event(silent.#server, 'listening');
    return silent;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get open(): number {
    return this.sockets.filter(({ closed }) => !closed).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = event(this.#server, 'close');
    this.#server.close();
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }
}

function daemonFor(port: number, more: string): Promise<TestDaemon> {
  return startDaemon({
    secrets: { ALICE: 'alice-secret' },
    config: `version: 1
admin: { listen: '127.0.0.1:0' }
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams:
  origin: { url: 'https://127.0.0.1:${port}', auth: { principal: alice, schemes: [ntlm] }, ${more} }
listeners: [ { name: api, listen: '127.0.0.1:0', mode: reverse, routes: [ { path: /, upstream: origin } ] } ]
`,
  });
}

describe('dialling', () => {
  test('R17 a caller that leaves before the connection is there ends it', async () => {
    await using silent = await SilentServer.start();
    await using daemon = await daemonFor(silent.port, 'timeouts: { connect: 30s }');
    for (const body of ['', 'x'.repeat(100)]) {
      const before = silent.sockets.length;
      await using client = await daemon.connect();
      const method = body === '' ? 'GET' : 'POST';
      const fields = { Host: daemon.authority(), 'Content-Length': String(body.length) };
      await client.request(`${method} /x`, fields, body);
      await until(() => silent.sockets.length === before + 1, 'a connection at the origin');
      client.reset();
      await until(() => silent.open === 0, 'the connection closed');
    }
    const metrics = await daemon.metrics();
    assert.equal(metrics.sum('sidekerb_upstream_connections'), 0);
    assert.equal(metrics.sum('sidekerb_guard_state'), 0);
  });

  test('R42 a connection that takes too long is 504, and is not tried twice', async () => {
    await using silent = await SilentServer.start();
    await using daemon = await daemonFor(silent.port, 'timeouts: { connect: 100ms }');
    const answer = await daemon.ask('GET /x');
    assert.equal(answer.status, 504);
    assert.match(answer.field('Proxy-Status') ?? '', /connect-timeout/);
    assert.equal(silent.sockets.length, 1);
    await until(() => silent.open === 0, 'the connection closed');
  });

  test('an origin that is not there is 502, as often as asked, and opens no guard', async () => {
    const silent = await SilentServer.start();
    const { port } = silent;
    await silent[Symbol.asyncDispose]();
    await using daemon = await daemonFor(port, 'pool: { maxConnections: 2, maxPerPrincipal: 2 }');
    const answers = await Promise.all(Array.from({ length: 10 }, () => daemon.ask('GET /x')));
    for (const answer of answers) {
      assert.equal(answer.status, 502);
      assert.match(answer.field('Proxy-Status') ?? '', /connect-failed/);
    }
    const metrics = await daemon.metrics();
    assert.equal(metrics.sum('sidekerb_upstream_connections'), 0);
    assert.equal(metrics.sum('sidekerb_guard_state'), 0);
  });

  test('R50 a flush while connections are made sends the requests to new ones', async () => {
    await using silent = await SilentServer.start();
    await using daemon = await daemonFor(silent.port, 'timeouts: { connect: 300ms }');
    const asked = daemon.ask('GET /x');
    await until(() => silent.sockets.length === 1, 'a connection at the origin');
    await daemon.admin('POST /api/principals/alice/flush');
    await until(() => silent.sockets.length === 2, 'another connection');
    assert.equal((await asked).status, 504);
    await until(() => silent.open === 0, 'all closed');
  });
});
