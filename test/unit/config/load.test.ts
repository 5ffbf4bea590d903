/** A whole file: what is decoded, which faults are told and where, what secrets never do. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, test } from 'node:test';
import type { Config, RouteConfig } from '../../../src/config/config.ts';
import { formatFaults, formatFaultsJson } from '../../../src/config/faults.ts';
import { effectiveConfig, loadConfig, loadText } from '../../../src/config/load.ts';
import { bareMachine, faultLines, loaded, machine } from './loading.ts';

const SMALL = `version: 1
principals:
  crm: { username: 'CORP\\svc', password: { env: CRM } }
upstreams:
  crm: { url: 'https://CRM.corp.example./base/', auth: { principal: crm } }
listeners:
  name: api
  listen: localhost:8080
  routes: { upstream: crm }
`;

/** SMALL with one text replaced by another. */
const changed = (from: string, to: string): string => {
  assert.ok(SMALL.includes(from));
  return SMALL.replace(from, to);
};

const routeOf = ({ listeners: [listener] }: Config): RouteConfig | undefined =>
  listener?.mode === 'reverse' ? listener.routes[0] : undefined;

describe('what is no fault', () => {
  const warnings = (listen: string, more: string): readonly string[] =>
    loaded(changed('listen: localhost:8080', `listen: ${listen}\n  ${more}`)).warnings;
  const client = (from: string): string => `clients: [header: { name: X-User, from: ${from} }]`;

  test('a web page could say who calls, where a proxy on this machine may and any Host is taken', () => {
    const [warning = '', ...more] = warnings('localhost:8080', client('127.0.0.0/8'));
    assert.match(warning, /^listeners\[0\]\.hosts: missing; a web page .* \(X-User\)$/);
    assert.deepEqual(more, []);
    assert.equal(warnings('localhost:8080', client('::1')).length, 1);
    assert.deepEqual(warnings('localhost:8080', client('10.0.0.1')), []);
    assert.deepEqual(warnings('unix:/run/s', client('127.0.0.1')), []);
    assert.deepEqual(warnings('localhost:8080', `${client('127.0.0.1')}\n  hosts: gw.corp`), []);
  });
});

describe('a sound file', () => {
  test('a list of one may be written without brackets', () => {
    const config = loaded(SMALL);
    const { listeners } = config;
    assert.equal(listeners.length, 1);
    assert.deepEqual(listeners[0]?.listen, [
      { kind: 'tcp', host: '127.0.0.1', port: 8080, loopback: true },
    ]);
    assert.equal(routeOf(config)?.path, '/');
  });

  test('durations become milliseconds and sizes bytes, defaults included', () => {
    const { upstreams, listeners, principals } = loaded(SMALL);
    assert.deepEqual(upstreams['crm']?.timeouts, {
      connect: 5000,
      handshake: 10_000,
      response: 60_000,
      idle: 300_000,
    });
    assert.equal(upstreams['crm']?.replay.maxBytes, 65_536);
    assert.equal(upstreams['crm']?.pool.maxAge, 3_600_000);
    assert.deepEqual(listeners[0]?.limits, { head: 65_536, headers: 200, perClient: 0 });
    assert.deepEqual(principals['crm']?.guard, { rejections: 3, probeAfter: 900_000 });
  });

  test('the target of a url is in its one form', () => {
    assert.deepEqual(loaded(SMALL).upstreams['crm']?.target, {
      scheme: 'https',
      host: 'crm.corp.example',
      port: 443,
      authority: 'crm.corp.example',
      basePath: '/base',
    });
  });

  test('the SPN is made of the host of the url, without a port', () => {
    const text = changed("'https://CRM.corp.example./base/'", "'https://crm.corp.example:8443'");
    assert.equal(loaded(text).upstreams['crm']?.auth?.spn, 'HTTP/crm.corp.example');
  });

  test('off may be written false', () => {
    const text = changed('principal: crm }', 'principal: crm, channelBinding: false }');
    assert.equal(loaded(text).upstreams['crm']?.auth?.channelBinding, 'off');
  });

  test("a route takes the upstream's principal and timeouts unless it has its own", () => {
    assert.equal(routeOf(loaded(SMALL))?.principal, 'crm');
    assert.deepEqual(routeOf(loaded(SMALL))?.timeouts, {
      response: 60_000,
      idle: 300_000,
    });
    const own = changed(
      '{ upstream: crm }',
      '{ upstream: crm, principal: crm, timeouts: { response: 1s } }',
    );
    assert.deepEqual(routeOf(loaded(own))?.timeouts, {
      response: 1000,
      idle: 300_000,
    });
  });

  test('an upstream without auth gives its routes no principal', () => {
    const text = changed(', auth: { principal: crm }', '');
    assert.equal(routeOf(loaded(text))?.principal, undefined);
  });

  test('a loopback listener accepts its addresses, localhost and the hosts of its routes', () => {
    const text = changed(
      '{ upstream: crm }',
      "[{ upstream: crm }, { host: '*.Reports.local', upstream: crm }]",
    );
    assert.deepEqual(
      loaded(text).listeners[0]?.hosts?.map(({ host, wildcard }) =>
        wildcard ? `*.${host}` : host,
      ),
      ['127.0.0.1', 'localhost', '*.reports.local'],
    );
  });

  test('so does one that takes tokens and, last, anybody', () => {
    const clients =
      "clients: [{ jwt: { issuer: i, audience: a, jwks: 'https://idp.example/k' } }, none]";
    const text = changed('listen: localhost:8080', `listen: localhost:8080\n  ${clients}`);
    const hosts = loaded(text).listeners[0]?.hosts?.map(({ host }) => host);
    assert.deepEqual(hosts, ['127.0.0.1', 'localhost']);
  });

  test('a listener beyond loopback has no Host rule of its own', () => {
    const text = changed(
      'listen: localhost:8080',
      'listen: 0.0.0.0:8080\n  clients: none\n  dangerousOpenProxy: true',
    );
    assert.equal(loaded(text).listeners[0]?.hosts, undefined);
  });

  test('limits that only the default exceeds are lowered to maxConnections', () => {
    const { pool } =
      loaded(changed('url:', 'pool: { maxConnections: 8 }, url:')).upstreams['crm'] ?? {};
    assert.deepEqual([pool?.maxPerPrincipal, pool?.maxIdle], [8, 8]);
  });

  test('the result is frozen all the way down', () => {
    const config = loaded(SMALL);
    for (const part of [
      config,
      config.principals,
      config.upstreams['crm']?.pool,
      routeOf(config),
    ]) {
      assert.ok(Object.isFrozen(part));
    }
  });

  test('no name reaches a member of Object', () => {
    const config = loaded(SMALL);
    assert.equal(config.principals['constructor'], undefined);
    assert.equal(config.upstreams['toString'], undefined);
  });

  test('keys that weaken security are listed by path', () => {
    const text = changed('{ upstream: crm }', '{ upstream: crm, dangerousRawPath: true }');
    assert.deepEqual(loaded(text).dangerous, ['listeners[0].routes[0].dangerousRawPath']);
    assert.deepEqual(loaded(SMALL).dangerous, []);
  });
});

describe('faults', () => {
  test('six different faults are told at once, each at its line and column', () => {
    const text = `version: 1
log: { level: loud }
principals:
  crm: { username: 'CORP\\svc', password: hunter2 }
upstreams:
  crm:
    url: https://crm.corp.example
    auth: { principal: crn }
    pool: { maxIdel: 5 }
    timeouts: { connect: 5 }
listeners:
  - name: api
    listen: 0.0.0.0:8080
    routes: [ { path: /, upstream: crm } ]
`;
    assert.deepEqual(faultLines(text), [
      '2:15: log.level: wanted: trace | debug | info | warn | error',
      '4:42: principals.crm.password: a secret is never written in the file: use { file: PATH } or { env: NAME }',
      '8:24: upstreams.crm.auth.principal: there is no principal of this name (did you mean crm?)',
      '9:13: upstreams.crm.pool.maxIdel: unknown key (did you mean maxIdle?)',
      '10:26: upstreams.crm.timeouts.connect: wanted: a duration such as 30s, from 10ms to 10m',
      '12:5: listeners[0].clients: missing; a listener beyond loopback must say who may call',
    ]);
  });

  test('the last line counts them', () => {
    const { faults } = loadText('f', changed('version: 1', 'version: 2'), machine());
    assert.equal(formatFaults(faults), 'f:1:10: version: wanted: 1\n1 faults\n');
  });

  test('as JSON they have place, path, message and hint', () => {
    const { faults } = loadText('f', changed('url:', 'urll:'), machine());
    assert.deepEqual(JSON.parse(formatFaultsJson(faults)), [
      {
        file: 'f',
        line: 5,
        column: 10,
        path: 'upstreams.crm.urll',
        message: 'unknown key',
        hint: 'url',
      },
    ]);
  });

  test('a misspelt required key is one fault, not two', () => {
    assert.deepEqual(faultLines(changed('{ upstream: crm }', '{ upstreem: crm }')), [
      '9:13: listeners.routes.upstreem: unknown key (did you mean upstream?)',
    ]);
  });

  test('a faulty entry of a list does not move the places of those behind it', () => {
    const text = changed(
      '{ upstream: crm }',
      '[ { upstream: 5 }, { path: /a, upstream: crm }, { path: /b, upstream: no } ]',
    );
    assert.deepEqual(faultLines(text), [
      '9:25: listeners.routes[0].upstream: wanted: a name of A-Z a-z 0-9 _ - with at most 64 characters',
      '9:81: listeners.routes[2].upstream: there is no upstream of this name',
    ]);
  });

  test('a name whose entry is faulty still exists', () => {
    assert.deepEqual(
      faultLines(changed("url: 'https://CRM.corp.example./base/'", 'url: nonsense')),
      ['5:15: upstreams.crm.url: wanted: http://HOST[:PORT][/PATH] or https'],
    );
  });

  test('a name that only Object has does not exist', () => {
    assert.deepEqual(faultLines(changed('{ upstream: crm }', '{ upstream: constructor }')), [
      '9:23: listeners.routes.upstream: there is no upstream of this name',
    ]);
  });

  test('a file that cannot be read, or is no text, is a fault of the file', () => {
    assert.deepEqual(
      formatFaults(loadConfig('/no', bareMachine()).faults),
      '/no:1:1: (file): the file does not exist\n1 faults\n',
    );
    const { faults } = loadConfig(
      '/bin',
      bareMachine({ files: { '/bin': Uint8Array.of(0xff, 0xfe, 0x00) } }),
    );
    assert.deepEqual(
      formatFaults(faults),
      '/bin:1:1: (file): the file is not text in UTF-8\n1 faults\n',
    );
  });

  test('an empty file wants its required keys', () => {
    assert.deepEqual(faultLines(''), ['1:1: (file): empty; give it a value or remove the key']);
    assert.deepEqual(faultLines('{}'), [
      '1:1: version: missing; wanted: 1',
      '1:1: listeners: missing; wanted: a map',
    ]);
  });

  test('a missing credential is told at its place and is no fault of the file', () => {
    const { faults } = loadText('f', SMALL, bareMachine());
    assert.deepEqual(
      faults.map(({ line, path, message, kind }) => [line, path, message, kind]),
      [[3, 'principals.crm.password', 'variable CRM is not set', 'credential']],
    );
  });
});

describe('secrets', () => {
  const CANARY = 'hunter2-canary';

  test('I5 no secret is in what is printed, serialised or inspected of a configuration', () => {
    const config = loaded(SMALL, bareMachine({ env: { CRM: CANARY } }));
    const { principals } = config;
    assert.equal(
      principals['crm']?.kind === 'password' && principals['crm'].password.reveal(),
      CANARY,
    );
    for (const text of [
      JSON.stringify(config),
      inspect(config, { depth: 20, showHidden: true }),
      JSON.stringify(effectiveConfig(config)),
    ]) {
      assert.ok(!text.includes(CANARY));
    }
  });

  test('what is in force has the references in place of secrets, and the principal of each hop', () => {
    const effective = effectiveConfig(loaded(SMALL));
    assert.deepEqual(effective['principals'], {
      crm: {
        username: 'CORP\\svc',
        password: { env: 'CRM' },
        guard: { rejections: 3, probeAfter: '15m' },
      },
    });
    assert.deepEqual(effective['hops'], [
      {
        listener: 'api',
        route: '/',
        upstream: 'crm',
        hop: 'origin',
        principal: 'crm',
        by: 'upstream',
      },
    ]);
  });

  test('I5 a secret that stands in the file by mistake is not repeated in any fault', () => {
    const places = [
      `password: ${CANARY}`,
      `password: '${CANARY}'`,
      `password: { ${CANARY} }`,
      `password: { ${CANARY}: 1 }`,
      `password: { file: x, ${CANARY}: y }`,
      `password: [${CANARY}]`,
      `password: *${CANARY}`,
      `password: !${CANARY} x`,
      `password: @${CANARY}`,
      `password: { env: '${CANARY}' }`,
      `ntHash: ${CANARY}, password: { env: X }`,
    ];
    for (const place of places) {
      const { faults } = loadText('f', changed('password: { env: CRM }', place), machine());
      assert.ok(faults.length > 0, place);
      assert.ok(!formatFaults(faults).includes(CANARY), formatFaults(faults));
      assert.ok(!formatFaultsJson(faults).includes(CANARY), place);
    }
  });

  test('a user name and password in a url are not repeated', () => {
    const { faults } = loadText(
      'f',
      changed("'https://CRM", `'https://me:${CANARY}@CRM`),
      machine(),
    );
    assert.equal(faults[0]?.message, 'a url must not hold a user name or password');
    assert.ok(!formatFaults(faults).includes(CANARY));
  });
});

describe('faults beside each other', () => {
  test('a fault in a required key does not hide those beside it', () => {
    const text = `version: 1
upstreams: { web: { url: 'http://a' } }
listeners:
  - name: 'a b'
    listen: 80
    clients: [sspi: {}]
    routes:
      - { path: /a }
      - { upstream: 7, principal: nobody }
      - { upstream: wbe, host: 'x y' }
`;
    assert.deepEqual(
      faultLines(text).map((line) => line.replace(/: wanted.*/, ': wanted')),
      [
        '4:11: listeners[0].name: wanted',
        '5:13: listeners[0].listen: wanted',
        '6:5: listeners[0].clients: not built yet',
        '8:9: listeners[0].routes[0].upstream: missing; wanted: a name of A-Z a-z 0-9 _ - with at most 64 characters',
        '9:21: listeners[0].routes[1].upstream: wanted',
        '9:35: listeners[0].routes[1].principal: there is no principal of this name',
        '10:21: listeners[0].routes[2].upstream: there is no upstream of this name (did you mean web?)',
        '10:32: listeners[0].routes[2].host: wanted',
      ],
    );
  });
});

describe('bounds and defaults', () => {
  test('durations and sizes have both bounds included', () => {
    const at = (value: string): number =>
      faultLines(changed('url:', `timeouts: { connect: ${value} }, url:`)).length;
    assert.deepEqual(['9ms', '10ms', '10m', '11m'].map(at), [1, 0, 0, 1]);
    const size = (value: string): number =>
      faultLines(changed('url:', `replay: { maxBytes: ${value} }, url:`)).length;
    assert.deepEqual(['0B', '16MiB', '17MiB'].map(size), [0, 0, 1]);
  });

  test('TLS has its defaults with https, and is absent with http', () => {
    const web = loaded(SMALL).upstreams['crm'];
    assert.deepEqual(web?.tls, {
      ca: undefined,
      extraCa: [],
      servername: undefined,
      identity: undefined,
      minVersion: 'TLSv1.2',
      dangerousSkipVerify: false,
    });
    const newer = changed('url:', 'tls: { minVersion: TLSv1.3 }, url:');
    assert.equal(loaded(newer).upstreams['crm']?.tls?.minVersion, 'TLSv1.3');
    const plain = changed("'https://CRM.corp.example./base/'", 'http://crm');
    assert.equal(loaded(plain).upstreams['crm']?.tls, undefined);
  });

  test('many faulty entries of one list are cut each at its own place', () => {
    const routes = Array.from({ length: 12 }, (_, i) =>
      i % 2 === 0 ? '5' : `{ path: /${i}, upstream: u${i} }`,
    );
    const found = faultLines(changed('{ upstream: crm }', `[${routes.join(', ')}]`));
    assert.deepEqual(
      found.map((line) => /\[(\d+)\]/.exec(line)?.[1]),
      routes.map((_, i) => String(i)),
    );
  });
});
