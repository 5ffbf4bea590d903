/** Several parents in a list, `direct` among them: which way a request takes, and how its head looks there. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { testCertificate } from '../support/certificates.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawResponse } from '../support/raw-client.ts';
import { type ScriptedParentOptions, startScriptedParent } from '../support/scripted-parent.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts';
import { fieldValues } from '../support/strict-http.ts';
import { until } from '../support/waiting.ts';
import { ask } from './parent-world.ts';

/** A port on which nobody listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** An origin, whose name `app.test` leads there by each parent and directly, and parents a and b. */
class Ways implements AsyncDisposable {
  readonly origin: ScriptedUpstream;
  readonly ports: { readonly a: number; readonly b: number };
  readonly #disposables = new AsyncDisposableStack();
  #daemon: TestDaemon | undefined;

  private constructor(origin: ScriptedUpstream, ports: { a: number; b: number }) {
    this.origin = origin;
    this.ports = ports;
    this.#disposables.use(origin);
  }

  static async make(): Promise<Ways> {
    const origin = await startScriptedUpstream({ scheme: 'none' });
    return new Ways(origin, { a: await freePort(), b: await freePort() });
  }

  async parent(
    which: 'a' | 'b',
    options: Partial<ScriptedParentOptions> = {},
  ): Promise<ScriptedUpstream> {
    const port = this.ports[which];
    const authority = `app.test:${this.origin.port}`;
    const origins = { [authority]: this.origin.port };
    return this.#disposables.use(await startScriptedParent({ origins, port, ...options }));
  }

  /** `listeners`: flow mappings; `a`: further keys of the first parent. */
  async start(listeners: readonly string[], a = '', more = ''): Promise<void> {
    const { ports, origin } = this;
    const daemon = await startDaemon({
      config: `version: 1
admin: { listen: 127.0.0.1:0 }
principals:
  pat: { username: 'LAB\\pat', password: { env: PAT } }
upstreams:
  a: { proxy: 'http://localhost:${ports.a}', auth: { principal: pat, schemes: [ntlm] }${a} }
  b: { proxy: 'http://127.0.0.1:${ports.b}', auth: { principal: pat, schemes: [ntlm] } }
  app: { url: 'http://app.test:${origin.port}', via: [a, b] }
${more}
listeners:
${listeners.map((text) => `  - ${text}`).join('\n')}
`,
      secrets: { PAT: 'pat-secret' },
      lookup: (host) =>
        host === 'app.test'
          ? Promise.resolve([{ address: '127.0.0.1', family: 4 }])
          : Promise.reject(new Error('no such name')),
    });
    this.#daemon = this.#disposables.use(daemon);
  }

  get daemon(): TestDaemon {
    if (this.#daemon === undefined) throw new Error('not started');
    return this.#daemon;
  }

  get authority(): string {
    return `app.test:${this.origin.port}`;
  }

  async ask(path = '/x', method = 'GET', body = ''): Promise<RawResponse> {
    await using client = await this.daemon.connect();
    const fields = body === '' ? {} : { 'Content-Length': String(body.length) };
    return await ask(client, `${method} http://${this.authority}${path}`, fields, body);
  }

  async connect(): Promise<number> {
    await using client = await this.daemon.connect();
    await client.request(`CONNECT ${this.authority}`, { Host: this.authority });
    return (await client.head()).status;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposables.disposeAsync();
  }
}

const LISTENER = (via: string, more = ''): string =>
  `{ name: egress, listen: 127.0.0.1:0, mode: forward, via: [${via}], allow: ['app.test:*']${more} }`;

const gets = (server: ScriptedUpstream): string[] =>
  server.requests.filter(({ method }) => method !== 'HEAD').map(({ target }) => target);

describe('several parents', () => {
  test('the first one is used while it can be reached, the next one when not', async () => {
    await using ways = await Ways.make();
    const b = await ways.parent('b');
    await ways.start([LISTENER('a, b')]);
    // Nobody listens at the first.
    assert.equal((await ways.ask('/1')).status, 200);
    assert.equal((await ways.ask('/2', 'POST', 'abc')).status, 200);
    assert.equal(await ways.connect(), 200);
    await ways.daemon.logged(/a parent proxy cannot be reached/);
    const a = await ways.parent('a');
    await ways.daemon.logged(/a parent proxy can be reached again/);
    assert.equal((await ways.ask('/3')).status, 200);
    assert.equal(await ways.connect(), 200);
    const at = `http://${ways.authority}`;
    assert.deepEqual(gets(b), [`${at}/1`, `${at}/2`, ways.authority, ways.authority]);
    assert.deepEqual(gets(a).slice(0, 1), [`${at}/3`]);
    const posts = ways.origin.requests.filter(({ method }) => method === 'POST');
    assert.deepEqual(
      posts.map(({ bodyLength }) => bodyLength),
      [3],
    );
  });

  test('one that does not get through TLS is as one that is down', async () => {
    await using ways = await Ways.make();
    const b = await ways.parent('b');
    const stranger = testCertificate({ names: ['stranger.test'] });
    const a = await ways.parent('a', { tls: { certificate: stranger } });
    const { caFile } = testCertificate();
    const secure = `  s: { proxy: 'https://localhost:${ways.ports.a}', tls: { ca: '${caFile}' }, auth: { principal: pat, schemes: [ntlm] } }`;
    await ways.start([LISTENER('s, b')], '', secure);
    assert.equal((await ways.ask('/1')).status, 200);
    assert.equal(await ways.connect(), 200);
    assert.deepEqual(a.requests, []);
    assert.equal(gets(b).length, 3);
  });

  test('what one answers counts: no other is asked', async () => {
    for (const script of [
      { status: 503, body: 'x' },
      { raw: 'nonsense\r\n\r\n', after: 'fin' },
    ]) {
      await using ways = await Ways.make();
      const b = await ways.parent('b');
      await ways.parent('a', { intercept: () => script as { status: number; body: string } });
      await ways.start([LISTENER('a, b')]);
      const answer = await ways.ask('/1');
      assert.ok([502, 503].includes(answer.status));
      assert.equal(await ways.connect(), 502);
      assert.deepEqual(gets(b), []);
    }
  });

  test('all down is 502', async () => {
    await using ways = await Ways.make();
    await ways.start([LISTENER('a, b')]);
    for (const n of [1, 2]) {
      const answer = await ways.ask('/x');
      assert.equal(answer.status, 502, String(n));
      assert.match(answer.field('Proxy-Status') ?? '', /connect-failed/);
      assert.equal(await ways.connect(), 502);
    }
  });

  test('a reverse route reaches its upstream by the list too', async () => {
    await using ways = await Ways.make();
    const b = await ways.parent('b');
    await ways.start([
      '{ name: api, listen: 127.0.0.1:0, mode: reverse, routes: [ { path: /, upstream: app } ] }',
    ]);
    const answer = await ways.daemon.ask('GET /1?q');
    assert.equal(answer.status, 200);
    assert.deepEqual(gets(b), [`http://${ways.authority}/1?q`]);
    const a = await ways.parent('a');
    await ways.daemon.logged(/a parent proxy can be reached again/);
    assert.equal((await ways.daemon.ask('GET /2')).status, 200);
    assert.deepEqual(gets(a), [`http://${ways.authority}/2`]);
  });
});

describe('direct in the list', () => {
  const FORMS = [
    { line: 'GET', path: '/x?a=http://b/', absolute: '/x?a=http://b/', origin: '/x?a=http://b/' },
    { line: 'GET', path: '', absolute: '/', origin: '/' },
    { line: 'GET', path: '?q', absolute: '/?q', origin: '/?q' },
    { line: 'OPTIONS', path: '', absolute: '', origin: '*' },
    { line: 'OPTIONS', path: '/', absolute: '/', origin: '/' },
    { line: 'POST', path: '', absolute: '/', origin: '/' },
  ];

  test('behind a parent that is down: heads are in origin-form', async () => {
    await using ways = await Ways.make();
    await ways.start([LISTENER('a, direct')]);
    for (const { line, path, origin } of FORMS) {
      const body = line === 'POST' ? 'abc' : '';
      const answer = await ways.ask(path, line, body);
      assert.equal(answer.status, 200, `${line} ${path}`);
      const last = ways.origin.requests.at(-1);
      assert.equal(last?.target, origin);
      assert.deepEqual(fieldValues(last?.fields ?? [], 'host'), [ways.authority]);
      assert.deepEqual(fieldValues(last?.fields ?? [], 'proxy-authorization'), []);
    }
    assert.equal(await ways.connect(), 200);
  });

  test('before a parent: what cannot be reached directly goes by it in absolute-form', async () => {
    await using ways = await Ways.make();
    const b = await ways.parent('b', { origins: { 'far.test:80': ways.origin.port } });
    await ways.start([
      "{ name: egress, listen: 127.0.0.1:0, mode: forward, via: [direct, b], allow: ['*.test:*'] }",
    ]);
    for (const { line, path, absolute } of FORMS) {
      await using client = await ways.daemon.connect();
      const body = line === 'POST' ? 'abc' : '';
      const fields = body === '' ? {} : { 'Content-Length': '3' };
      const answer = await ask(client, `${line} http://far.test${path}`, fields, body);
      assert.equal(answer.status, 200, `${line} ${path}`);
      assert.equal(b.requests.at(-1)?.target, `http://far.test${absolute}`);
      assert.equal(ways.origin.requests.at(-1)?.bodyLength, body.length);
    }
  });

  test('last: a range of the no-proxy list moves it to the front for its own addresses only', async () => {
    await using ways = await Ways.make();
    const a = await ways.parent('a');
    const ranges = (direct: string): string => `, direct: [${direct}], resolve: true`;
    await ways.start([
      LISTENER('a, direct', ranges('10.0.0.0/8')),
      LISTENER('a, direct', ranges('127.0.0.0/8')).replace('egress', 'near'),
    ]);
    assert.equal((await ways.ask('/1')).status, 200);
    assert.deepEqual(gets(a), [`http://${ways.authority}/1`]);
    await using near = await ways.daemon.connect('near');
    assert.equal((await ask(near, `GET http://${ways.authority}/near`)).status, 200);
    assert.equal(gets(a).length, 1);
    await a.close();
    for (const path of ['/2', '/3']) assert.equal((await ways.ask(path)).status, 200);
    assert.deepEqual(gets(ways.origin), ['/1', '/near', '/2', '/3']);
  });

  test('a parent that comes back is preferred again', async () => {
    await using ways = await Ways.make();
    await ways.start([LISTENER('a, direct')]);
    assert.equal((await ways.ask('/1')).status, 200);
    const a = await ways.parent('a');
    await ways.daemon.logged(/a parent proxy can be reached again/);
    assert.equal((await ways.ask('/2')).status, 200);
    assert.deepEqual(gets(a), [`http://${ways.authority}/2`]);
  });

  test('a parent that goes away is left for the next way at once', async () => {
    await using ways = await Ways.make();
    const a = await ways.parent('a');
    await ways.start([LISTENER('a, direct')]);
    await using client = await ways.daemon.connect();
    assert.equal((await ask(client, `GET http://${ways.authority}/1`)).status, 200);
    await a.close();
    await until(() => a.openSockets === 0, 'closed');
    assert.equal((await ask(client, `GET http://${ways.authority}/2`)).status, 200);
    assert.deepEqual(
      ways.origin.requests.map(({ target }) => target).filter((one) => one !== '/1'),
      ['/2'],
    );
  });
});
