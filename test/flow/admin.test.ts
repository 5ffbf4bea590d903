/**
 * The admin listener over real sockets: every endpoint, and everyone who must not get an answer.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { type AdminSettings, createAdminServer } from '../../src/admin/admin-server.ts';
import type { AdminView, ReloadReport, StatusData, UpstreamPools } from '../../src/admin/view.ts';
import { describeStatus } from '../../src/admin/status-data.ts';
import type { Log, LogFields } from '../../src/log/log.ts';
import { Metrics } from '../../src/metrics/metrics.ts';

const CANARY = 'canary-7f3a-Pa55word';

interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Ask {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
}

interface World extends AsyncDisposable {
  readonly port: number;
  readonly origin: string;
  readonly lines: { fields: LogFields; message: string }[];
  readonly done: string[];
  ask(what: Ask): Promise<Reply>;
}

type Listen = AdminSettings['listen'];

async function startAdmin(options: {
  readonly kind?: AdminSettings['kind'];
  readonly listen?: Listen;
  readonly hosts?: AdminSettings['hosts'];
  readonly limits?: NonNullable<AdminSettings['limits']>;
  readonly view?: Partial<AdminView>;
  readonly reload?: ReloadReport;
}): Promise<World> {
  const lines: World['lines'] = [];
  const done: string[] = [];
  const listen = options.listen ?? { host: '127.0.0.1', port: 0 };
  const server = createAdminServer(
    {
      view: { ...makeView(done, options.reload ?? RELOADED), ...options.view },
      metrics: { contentType: 'text/plain; version=0.0.4', render: async () => 'up 1\n' },
      log: collect(lines),
    },
    {
      kind: options.kind ?? 'admin',
      listen,
      hosts: options.hosts ?? [],
      ...(options.limits ? { limits: options.limits } : {}),
    },
  );
  const address = await server.listen();
  const port = typeof address === 'string' ? 0 : (address satisfies AddressInfo).port;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    lines,
    done,
    ask: (what) => ask(typeof address === 'string' ? { socketPath: address } : { port }, what),
    [Symbol.asyncDispose]: () => server.close(),
  };
}

function collect(lines: World['lines']): Log {
  const keep = (fields: LogFields, message: string): void => {
    lines.push({ fields, message });
  };
  return { trace: keep, debug: keep, info: keep, warn: keep, error: keep };
}

/** A copy in which every object has a field more, with a secret in it. */
function plant<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => plant(item)) as T;
  if (typeof value !== 'object' || value === null) return value;
  const copy = Object.entries(value).map(([key, item]) => [key, plant(item)]);
  return { ...Object.fromEntries(copy), planted: CANARY };
}

const RELOADED: ReloadReport = {
  result: 'ok',
  reason: undefined,
  faults: [],
  warnings: ['principals.a.ccache: file cc is empty: there are no tickets yet'],
  principals: { added: ['new'], removed: [], changed: ['crm'] },
  upstreams: { added: [], removed: ['old'], changed: [] },
  listeners: { opened: ['127.0.0.1:8081'], closed: [] },
  restartNeeded: ['admin.listen'],
};

function makeView(done: string[], report: ReloadReport): AdminView {
  const counts = { connecting: 0, handshaking: 0, active: 1, idle: 2 };
  const status: StatusData = {
    version: '0.1.0',
    startedAt: '2026-01-01T00:00:00.000Z',
    uptimeSeconds: 61,
    readiness: { ready: true, reasons: [], degraded: ['guard of crm is open'] },
    listeners: [
      {
        name: 'api',
        mode: 'reverse',
        addresses: ['127.0.0.1:8080'],
        connections: 1,
        requests: 10,
        errors: 0,
      },
    ],
    upstreams: [
      {
        name: 'crm',
        origin: `http://user:${CANARY}@crm.example`,
        connections: counts,
        leases: { hit: 9, new: 1, waited: 0, rejected: 0, timeout: 0 },
        waiters: 0,
        partitions: 1,
        logins: { ok: 1, failed: 0 },
      },
    ],
    caches: [{ cache: 'jwt', issuer: 'https://idp.example/', requests: 4, hits: 3, entries: 1 }],
    guards: [{ principal: 'crm', upstream: 'crm', state: 'open' }],
  };
  const partition = { id: '0a1b2c3d', principal: 'crm', connections: counts, waiters: 0 };
  const pools: UpstreamPools[] = [
    { upstream: 'crm', partitions: [{ ...partition, retired: false }] },
  ];
  return {
    ready: () => plant(status.readiness),
    status: () => plant(status),
    pools: () => plant(pools),
    config: () => plantedConfig(),
    drainUpstream: (name) => name === 'crm' && done.push(`drain ${name}`) > 0,
    flushPrincipal: (name) => name === 'a/b' && done.push(`flush ${name}`) > 0,
    reload: () => {
      done.push('reload');
      return Promise.resolve(plant(report));
    },
  };
}

class Holder {
  readonly value = CANARY;
}

function plantedConfig(): unknown {
  return {
    version: 1,
    principals: {
      crm: { username: 'CORP\\svc', password: { file: '/run/secrets/crm' } },
      direct: { password: CANARY, ntHash: Buffer.from(CANARY), note: new Holder() },
      nested: { passphrase: { file: '/x', value: CANARY }, key: [CANARY] },
    },
    upstreams: { crm: { url: `https://svc:${CANARY}@crm.example/base` } },
    open: () => CANARY,
  };
}

function ask(target: { port: number } | { socketPath: string }, what: Ask): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        ...target,
        agent: false,
        host: '127.0.0.1',
        method: what.method ?? 'GET',
        path: what.path ?? '/healthz',
        headers: what.headers ?? {},
        signal: AbortSignal.timeout(5000),
      },
      (answer) => {
        let body = '';
        answer.setEncoding('utf8');
        answer.on('data', (text: string) => {
          body += text;
        });
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }),
        );
        answer.on('error', reject);
      },
    );
    call.on('error', reject);
    call.end(what.body);
  });
}

/** All that the server sends in return for these bytes, until it closes. */
async function exchange(port: number, bytes: string): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  let received = '';
  socket.setEncoding('latin1');
  socket.on('data', (text: string) => {
    received += text;
  });
  socket.write(bytes);
  try {
    await once(socket, 'close', { signal: AbortSignal.timeout(5000) });
  } finally {
    socket.destroy();
  }
  return received;
}

const READS = ['/', '/metrics', '/healthz', '/readyz', '/api/status', '/api/pools', '/api/config'];
const ADMIN_FIELD = { 'X-Sidekerb-Admin': '1' };

describe('endpoints of the admin listener', () => {
  test('GET answers and HEAD has the same fields without a body, on every endpoint', async () => {
    await using world = await startAdmin({});
    for (const path of READS) {
      const got = await world.ask({ path });
      const head = await world.ask({ path, method: 'HEAD' });
      assert.equal(got.status, 200, path);
      assert.equal(head.status, 200, path);
      assert.equal(head.body, '', path);
      assert.equal(head.headers['content-length'], got.headers['content-length'], path);
      assert.equal(Number(got.headers['content-length']), Buffer.byteLength(got.body), path);
      assert.equal(head.headers['content-type'], got.headers['content-type'], path);
    }
  });

  test('every answer forbids storing, sniffing and use by other origins', async () => {
    await using world = await startAdmin({});
    for (const path of [...READS, '/nowhere']) {
      const { headers } = await world.ask({ path });
      assert.equal(headers['cache-control'], 'no-store', path);
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
      assert.equal(headers['cross-origin-resource-policy'], 'same-origin', path);
      const cors = Object.keys(headers).filter((name) => name.startsWith('access-control-'));
      assert.deepEqual(cors, [], path);
    }
  });

  test('/metrics has the content type and the text of the metrics', async () => {
    await using world = await startAdmin({});
    const { headers, body } = await world.ask({ path: '/metrics?name[]=up' });
    assert.equal(headers['content-type'], 'text/plain; version=0.0.4');
    assert.equal(body, 'up 1\n');
  });

  test('/readyz names what is degraded, and is 503 with reasons while not ready', async () => {
    let ready = true;
    await using world = await startAdmin({
      view: {
        ready: () => ({ ready, reasons: ready ? [] : ['draining'], degraded: ['guard open'] }),
      },
    });
    const good = await world.ask({ path: '/readyz' });
    assert.deepEqual(JSON.parse(good.body), { ready: true, degraded: ['guard open'] });
    ready = false;
    const bad = await world.ask({ path: '/readyz' });
    assert.equal(bad.status, 503);
    assert.deepEqual(JSON.parse(bad.body), {
      ready: false,
      reasons: ['draining'],
      degraded: ['guard open'],
    });
  });

  test('the status page escapes what it shows and runs nothing', async () => {
    const nasty = `<script>alert("1")</script>'`;
    const view = makeView([], RELOADED);
    await using world = await startAdmin({
      view: {
        status: () => ({
          ...view.status(),
          caches: [{ cache: nasty, issuer: nasty, requests: 1, hits: 0, entries: 1 }],
          guards: [{ principal: nasty, upstream: nasty, state: 'open' }],
        }),
      },
    });
    const { headers, body } = await world.ask({ path: '/' });
    assert.match(String(headers['content-security-policy']), /^default-src 'none'; style-src/);
    assert.doesNotMatch(body, /<script|onload=|src=/);
    assert.match(body, /&#60;script&#62;alert\(&#34;1&#34;\)&#60;\/script&#62;&#39;/);
    assert.match(body, /90\.0 %/);
    for (const shown of ['api', 'crm', '0a1b2c3d', '127.0.0.1:8080', 'guard of crm is open']) {
      assert.ok(body.includes(shown), shown);
    }
  });

  test('a drain and a flush reach the view and leave an audit line', async () => {
    await using world = await startAdmin({});
    const drained = await world.ask({
      method: 'POST',
      path: '/api/pools/crm/drain',
      headers: ADMIN_FIELD,
    });
    assert.deepEqual(JSON.parse(drained.body), { action: 'drain', name: 'crm' });
    const flushed = await world.ask({
      method: 'POST',
      path: '/api/principals/a%2Fb/flush',
      headers: { ...ADMIN_FIELD, Origin: world.origin, 'Sec-Fetch-Site': 'same-origin' },
    });
    assert.equal(flushed.status, 200);
    assert.deepEqual(world.done, ['drain crm', 'flush a/b']);
    const audit = world.lines.filter(({ fields }) => fields['audit'] === true);
    assert.deepEqual(
      audit.map(({ fields }) => [fields['action'], fields['target'], fields['peer']]),
      [
        ['drain', 'crm', '127.0.0.1'],
        ['flush', 'a/b', '127.0.0.1'],
      ],
    );
  });

  test('an unknown name is 404, a malformed one 400, and its text is not logged', async () => {
    await using world = await startAdmin({});
    const post = async (path: string): Promise<number> =>
      (await world.ask({ method: 'POST', path, headers: ADMIN_FIELD })).status;
    assert.equal(await post('/api/pools/evil-name/drain'), 404);
    assert.equal(await post('/api/principals/crm/flush'), 404);
    assert.equal(await post('/api/pools/%E0%A4%A/drain'), 400);
    assert.deepEqual(world.done, []);
    assert.ok(!inspect(world.lines).includes('evil-name'));
  });

  test('a reload answers with what it changed, and with nothing else', async () => {
    await using world = await startAdmin({});
    const got = await world.ask({ method: 'POST', path: '/api/reload', headers: ADMIN_FIELD });
    assert.equal(got.status, 200);
    const expected = JSON.stringify({ action: 'reload', ...RELOADED });
    assert.equal(got.body.trimEnd(), expected);
    assert.deepEqual(world.done, ['reload']);
    assert.deepEqual(world.lines.at(-1)?.fields, {
      audit: true,
      action: 'reload',
      outcome: 'ok',
      peer: '127.0.0.1',
    });
  });

  test('a reload that failed is 422 with the faults of files, else 503 with the reason', async () => {
    const fault = { file: 'c.yaml', line: 3, column: 5, path: 'log', message: 'no', hint: 'x' };
    const failed = { ...RELOADED, result: 'failed' } as const;
    const rows = [
      [422, { ...failed, faults: [fault] }],
      [503, { ...failed, reason: 'listen EADDRINUSE' }],
    ] as const;
    for (const [status, report] of rows) {
      await using world = await startAdmin({ reload: report });
      const got = await world.ask({ method: 'POST', path: '/api/reload', headers: ADMIN_FIELD });
      assert.equal(got.status, status);
      const body = JSON.parse(got.body);
      assert.equal(body.result, 'failed');
      assert.deepEqual(body.faults, report.faults);
      assert.equal(body.reason, report.reason);
      assert.ok(!got.body.includes(CANARY));
    }
  });

  test('a wrong method is 405 with Allow, an unknown path 404, in JSON', async () => {
    await using world = await startAdmin({});
    const wrong: [string, string, string][] = [
      ['POST', '/api/status', 'GET, HEAD'],
      ['DELETE', '/', 'GET, HEAD'],
      ['OPTIONS', '/metrics', 'GET, HEAD'],
      ['GET', '/api/pools/crm/drain', 'POST'],
      ['PUT', '/api/reload', 'POST'],
    ];
    for (const [method, path, allow] of wrong) {
      const got = await world.ask({ method, path, headers: ADMIN_FIELD });
      assert.equal(got.status, 405, path);
      assert.equal(got.headers.allow, allow, path);
      assert.deepEqual(JSON.parse(got.body), { error: 'method-not-allowed' });
    }
    for (const path of ['/api', '/api/pools/', '/constructor', '/__proto__', '/metrics/']) {
      const got = await world.ask({ path });
      assert.equal(got.status, 404, path);
      assert.deepEqual(JSON.parse(got.body), { error: 'not-found' });
    }
    assert.deepEqual(world.done, []);
  });

  test('R46 no answer, header or log line holds a secret that a view carries', async () => {
    await using world = await startAdmin({});
    let seen = '';
    for (const path of [...READS, '/nowhere']) {
      const { headers, body } = await world.ask({ path });
      seen += inspect(headers) + body;
    }
    seen += inspect(world.lines, { depth: 9 });
    assert.ok(!seen.includes(CANARY));
    const config = JSON.parse((await world.ask({ path: '/api/config' })).body);
    assert.equal(config.principals.crm.password.file, '/run/secrets/crm');
    assert.equal(config.principals.direct.password, '[secret]');
    assert.equal(config.principals.direct.note, '[secret]');
    assert.equal(config.upstreams.crm.url, 'https://[secret]@crm.example/base');
  });

  test('a view that throws is 500, and neither answer nor log quotes the error', async () => {
    await using world = await startAdmin({
      view: {
        status: () => {
          throw new Error(CANARY);
        },
      },
    });
    const { status, body } = await world.ask({ path: '/api/status' });
    assert.equal(status, 500);
    assert.ok(!(body + inspect(world.lines, { depth: 9 })).includes(CANARY));
    assert.equal((await world.ask({ path: '/healthz' })).status, 200);
  });
});

describe('web pages and the admin listener', () => {
  test('D19 a Host that is not its own is 421, so a rebound name reads nothing', async () => {
    await using world = await startAdmin({
      hosts: [
        { host: 'ops.example', wildcard: false, port: undefined },
        { host: 'exact.example', wildcard: false, port: 9180 },
        { host: 'wild.example', wildcard: true, port: undefined },
      ],
    });
    const { port } = world;
    const accepted = [
      `127.0.0.1:${port}`,
      '127.0.0.1',
      'LOCALHOST:1',
      '[::1]:9180',
      'ops.example:80',
      'exact.example:9180',
      'a.wild.example',
    ];
    for (const host of accepted) {
      assert.equal((await world.ask({ path: '/api/status', headers: { host } })).status, 200, host);
    }
    const refused = [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'exact.example',
      'wild.example',
      '10.0.0.1',
      '[::2]',
      'user@localhost',
      'localhost:80:80',
    ];
    for (const host of refused) {
      for (const path of ['/api/status', '/metrics', '/', '/healthz']) {
        const got = await world.ask({ path, headers: { host } });
        assert.equal(got.status, 421, host);
        assert.deepEqual(JSON.parse(got.body), { error: 'misdirected' });
      }
    }
  });

  test('two Host fields, none at all, or a target with a host of its own are refused', async () => {
    await using world = await startAdmin({});
    const first = async (bytes: string): Promise<string> =>
      (await exchange(world.port, bytes)).slice(0, 12);
    const close = 'Connection: close\r\n\r\n';
    const twice = `GET /api/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n${close}`;
    assert.equal(await first(twice), 'HTTP/1.1 400');
    assert.equal(await first('GET /api/status HTTP/1.0\r\n\r\n'), 'HTTP/1.1 421');
    assert.equal(await first(`GET /api/status HTTP/1.1\r\n${close}`), 'HTTP/1.1 400');
    const absolute = `GET http://evil.example/api/status HTTP/1.1\r\nHost: localhost\r\n${close}`;
    assert.equal(await first(absolute), 'HTTP/1.1 400');
  });

  test('D20 a page of another origin is refused, by Origin and by Sec-Fetch-Site', async () => {
    await using world = await startAdmin({});
    const foreign: OutgoingHttpHeaders[] = [
      { Origin: 'http://127.0.0.1:1' },
      { Origin: `https://127.0.0.1:${world.port}` },
      { Origin: `http://localhost:${world.port}` },
      { Origin: 'null' },
      { Origin: '' },
      { Origin: `${world.origin}, http://evil.example` },
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'same-site' },
      { 'Sec-Fetch-Site': ['same-origin', 'cross-site'] },
      { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' },
      { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'document' },
      {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
        Upgrade: 'websocket',
        Connection: 'Upgrade',
      },
    ];
    for (const headers of foreign) {
      const got = await world.ask({ path: '/api/status', headers });
      assert.equal(got.status, 403, inspect(headers));
      assert.deepEqual(JSON.parse(got.body), { error: 'web-page-refused' });
      const posted = { ...headers, ...ADMIN_FIELD };
      const post = await world.ask({
        method: 'POST',
        path: '/api/pools/crm/drain',
        headers: posted,
      });
      assert.equal(post.status, 403, inspect(posted));
    }
    assert.deepEqual(world.done, []);
  });

  test('D20 its own page, a person who types the address or follows a link are answered', async () => {
    await using world = await startAdmin({});
    const welcome: OutgoingHttpHeaders[] = [
      { Origin: world.origin },
      { Origin: 'http://localhost', Host: 'localhost:80' },
      { 'Sec-Fetch-Site': 'same-origin' },
      { 'Sec-Fetch-Site': 'none' },
      {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
      },
    ];
    for (const headers of welcome) {
      assert.equal((await world.ask({ path: '/', headers })).status, 200, inspect(headers));
    }
    const followed = {
      'Sec-Fetch-Site': 'cross-site',
      'Sec-Fetch-Mode': 'navigate',
      'Sec-Fetch-Dest': 'document',
      ...ADMIN_FIELD,
    };
    const post = await world.ask({
      method: 'POST',
      path: '/api/pools/crm/drain',
      headers: followed,
    });
    assert.equal(post.status, 403);
  });

  test('D20 every POST needs the admin field, which a form cannot send', async () => {
    await using world = await startAdmin({});
    for (const headers of [{}, { 'X-Sidekerb-Admin': '0' }, { 'X-Sidekerb-Admin': '' }]) {
      for (const path of ['/api/pools/crm/drain', '/api/principals/a%2Fb/flush', '/api/reload']) {
        const got = await world.ask({ method: 'POST', path, headers });
        assert.equal(got.status, 403, path);
        assert.deepEqual(JSON.parse(got.body), { error: 'admin-field-missing' });
      }
    }
    assert.deepEqual(world.done, []);
  });
});

describe('other listeners and limits', () => {
  test('probes serve the three probe paths under any Host and nothing else', async () => {
    await using world = await startAdmin({ kind: 'probes' });
    const headers = { host: 'pod-17.cluster.example:9181' };
    for (const path of ['/metrics', '/healthz', '/readyz']) {
      assert.equal((await world.ask({ path, headers })).status, 200, path);
      assert.equal((await world.ask({ path, headers, method: 'HEAD' })).status, 200, path);
      assert.equal((await world.ask({ path, headers, method: 'POST' })).status, 405, path);
    }
    for (const path of ['/', '/api/status', '/api/pools', '/api/config']) {
      assert.equal((await world.ask({ path, headers })).status, 404, path);
    }
    const drain = await world.ask({
      method: 'POST',
      path: '/api/pools/crm/drain',
      headers: { ...headers, ...ADMIN_FIELD },
    });
    assert.equal(drain.status, 404);
    assert.deepEqual(world.done, []);
  });

  test('a unix socket has no Host rule and keeps the other rules', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'admin-'));
    try {
      const socketPath = join(folder, 's');
      await using world = await startAdmin({ listen: { socketPath, mode: 0o600 } });
      assert.equal((await stat(socketPath)).mode & 0o777, 0o600);
      const host = 'anything.example';
      assert.equal((await world.ask({ path: '/api/status', headers: { host } })).status, 200);
      const drain = { method: 'POST', path: '/api/pools/crm/drain' };
      assert.equal((await world.ask(drain)).status, 403);
      const page = { ...ADMIN_FIELD, host, Origin: 'http://evil.example' };
      assert.equal((await world.ask({ ...drain, headers: page })).status, 403);
      assert.equal((await world.ask({ ...drain, headers: ADMIN_FIELD })).status, 200);
      const audit = world.lines.find(({ fields }) => fields['audit'] === true);
      assert.equal(audit?.fields['peer'], 'unix');
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('bound to every address, it takes the address that was dialled and no other name', async () => {
    await using world = await startAdmin({ listen: { host: '0.0.0.0', port: 0 } });
    const status = async (host: string): Promise<number> =>
      (await world.ask({ headers: { host } })).status;
    assert.equal(await status(`127.0.0.1:${world.port}`), 200);
    assert.equal(await status('10.9.8.7'), 421);
    assert.equal(await status('evil.example'), 421);
  });

  test('a slow head and a silent connection are closed', async () => {
    await using world = await startAdmin({ limits: { headMs: 200 } });
    const slow = await exchange(world.port, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A:');
    assert.match(slow, /^HTTP\/1\.1 408 /);
    assert.match(await exchange(world.port, ''), /^(HTTP\/1\.1 408 |$)/);
  });

  test('a large head is 431, a long target 414, and a body is not taken', async () => {
    await using world = await startAdmin({});
    const padding = 'a'.repeat(20_000);
    assert.equal((await world.ask({ headers: { 'X-Padding': padding } })).status, 431);
    assert.equal((await world.ask({ path: `/${'a'.repeat(4000)}` })).status, 414);
    const smuggled = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const head = `POST /api/pools/crm/drain HTTP/1.1\r\nHost: localhost\r\nX-Sidekerb-Admin: 1\r\nContent-Length: ${smuggled.length}\r\n\r\n`;
    const answers = await exchange(world.port, head + smuggled);
    assert.match(answers, /^HTTP\/1\.1 413 /);
    assert.equal(answers.split('HTTP/1.1 ').length, 2);
    assert.deepEqual(world.done, []);
  });

  test('a connection carries one request, also when two are sent at once', async () => {
    await using world = await startAdmin({});
    const drain =
      'POST /api/pools/crm/drain HTTP/1.1\r\nHost: localhost\r\nX-Sidekerb-Admin: 1\r\n\r\n';
    const answers = await exchange(world.port, drain + drain);
    assert.equal(answers.split('HTTP/1.1 ').length, 2);
    assert.match(answers, /\r\nConnection: close\r\n/i);
  });

  test('a connection beyond the limit is closed, and its place is free again later', async () => {
    await using world = await startAdmin({ limits: { connections: 1 } });
    const held = connect({ host: '127.0.0.1', port: world.port });
    await once(held, 'connect');
    await assert.rejects(world.ask({}));
    const gone = once(held, 'close');
    held.resume();
    held.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await gone;
    assert.equal((await world.ask({})).status, 200);
  });

  test('close ends what is still open and may be called twice', async () => {
    const world = await startAdmin({});
    const held = connect({ host: '127.0.0.1', port: world.port });
    await once(held, 'connect');
    held.write('GET /healthz HTTP/1.1\r\n');
    // A reset is one way to be closed.
    held.on('error', () => undefined);
    const gone = new Promise((resolve) => held.once('close', resolve));
    await Promise.all([world[Symbol.asyncDispose](), world[Symbol.asyncDispose]()]);
    await gone;
    await assert.rejects(world.ask({}), { code: 'ECONNREFUSED' });
  });

  test('a port that is taken is an error of listen', async () => {
    await using world = await startAdmin({});
    const second = startAdmin({ listen: { host: '127.0.0.1', port: world.port } });
    await assert.rejects(second, { code: 'EADDRINUSE' });
  });
});

describe('the data of the status page', () => {
  test('are the numbers of the metrics, summed over what the page does not show', () => {
    const metrics = new Metrics({
      listeners: ['api', 'other'],
      upstreams: ['crm'],
      principals: ['alice'],
      version: '0.1.0',
    });
    metrics.requests.child('api', 'crm', '2xx').add(3);
    metrics.requests.child('api', 'none', '4xx').add(1);
    metrics.requests.child('other', 'crm', '2xx').add(100);
    metrics.leaseRequests.child('crm', 'hit').add(9);
    metrics.handshakes.child('crm', 'origin', 'ntlm', 'ok').add(2);
    metrics.handshakes.child('crm', 'proxy', 'ntlm', 'rejected').add(1);
    metrics.guardState.child('alice', 'crm').set(2);
    metrics.onCollect(() => metrics.upstreamConnections.child('crm', 'idle', 'tied').set(4));
    const status = describeStatus(metrics, {
      version: '0.1.0',
      startedAt: 1000,
      now: 62_500,
      readiness: { ready: true, reasons: [], degraded: [] },
      listeners: [{ name: 'api', mode: 'reverse', addresses: [] }],
      upstreams: [{ name: 'crm', origin: 'http://crm.example' }],
    });
    assert.equal(status.uptimeSeconds, 61);
    assert.equal(status.startedAt, '1970-01-01T00:00:01.000Z');
    assert.equal(status.listeners[0]?.requests, 4);
    assert.equal(status.upstreams[0]?.leases.hit, 9);
    assert.equal(status.upstreams[0]?.connections.idle, 4);
    assert.deepEqual(status.upstreams[0]?.logins, { ok: 2, failed: 1 });
    assert.deepEqual(status.guards, [{ principal: 'alice', upstream: 'crm', state: 'open' }]);
  });
});
