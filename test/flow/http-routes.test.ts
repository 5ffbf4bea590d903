/** From a target and a Host to a route, a path at the upstream, and back by redirects and cookies. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { startDaemon } from '../support/daemon.ts';
import { RawClient } from '../support/raw-client.ts';
import { shapes } from '../support/response-shapes.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { curlAvailability } from '../support/external-clients.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorld } from './http-world.ts';

const run = promisify(execFile);

describe('a path', () => {
  const rows: [route: string, base: string, target: string, becomes: string | number][] = [
    ['path: /', '', '/', '/'],
    ['path: /', '', '/a/b?x=1', '/a/b?x=1'],
    ['path: /', '/base', '/a', '/base/a'],
    ['path: /', '/base/', '/a', '/base/a'],
    ['path: /', '/base', '/?q', '/base/?q'],
    ['path: /crm/', '', '/crm/x', '/crm/x'],
    ['path: /crm/, stripPrefix: true', '', '/crm/x?y', '/x?y'],
    ['path: /crm/, stripPrefix: true', '', '/crm/', '/'],
    ['path: /crm/, stripPrefix: true', '', '/crm/?y', '/?y'],
    ['path: /crm/, stripPrefix: true', '/base', '/crm/x', '/base/x'],
    ['path: /crm/, stripPrefix: true', '/base', '/crm//x', '/base//x'],
    ['path: /crm, stripPrefix: true', '', '/crm', '/'],
    ['path: /crm, stripPrefix: true', '', '/crm?y=1', '/?y=1'],
    ['path: /crm, stripPrefix: true', '/base', '/crm', '/base/'],
    ['path: /crm, stripPrefix: true', '/base', '/crm/x', '/base/x'],
    ['path: /crm', '', '/crm', '/crm'],
    // Not this route: another segment, another case.
    ['path: /crm', '', '/crmx', 404],
    ['path: /crm/', '', '/crmx', 404],
    ['path: /crm/', '', '/CRM/x', 404],
    ['path: /crm/', '', '//crm/x', 404],
    // The bytes are forwarded as they came.
    ['path: /', '', '/a%41%zz;p=1//b|c"<>', '/a%41%zz;p=1//b|c"<>'],
    ['path: /', '', '/%c3%a9?%2e%2e/../x', '/%c3%a9?%2e%2e/../x'],
    // Dot segments (D9).
    ['path: /crm/', '', '/crm/../x', 400],
    ['path: /crm/', '', '/crm/..', 400],
    ['path: /crm/', '', '/crm/%2e%2E/x', 400],
    ['path: /crm/', '', '/crm/.%2e/x', 400],
    ['path: /crm/', '', '/crm/./x', 400],
    ['path: /crm/', '', '/crm/a%2fb', 400],
    ['path: /crm/', '', '/crm/a%5Cb', 400],
    ['path: /crm/', '', '/crm/a\\b', 400],
    ['path: /crm/', '', '/crm/..;x/y', 400],
    ['path: /crm/', '', '/crm/%00', 400],
    ['path: /crm/', '', '/crm/...', '/crm/...'],
    ['path: /crm/', '', '/crm/%252e%252e/x', '/crm/%252e%252e/x'],
    ['path: /crm/, dangerousRawPath: true', '', '/crm/a%2f..\\x', '/crm/a%2f..\\x'],
    ['path: /crm/, dangerousRawPath: true', '', '/../crm/x', 400],
  ];
  for (const [route, basePath, target, becomes] of rows) {
    it(`${target} on { ${route} } to "${basePath}" is ${becomes}`, async () => {
      await using world = await startWorld({ route, basePath });
      const { status } = await world.daemon.ask(`GET ${target}`);
      assert.equal(status, typeof becomes === 'number' ? becomes : 200);
      const targets = world.upstream.requests.map((request) => request.target);
      assert.deepEqual(targets, typeof becomes === 'number' ? [] : [becomes]);
    });
  }

  it('without the slash of its route is 308 to the one with it, method and query kept', async () => {
    await using world = await startWorld({ route: 'path: /crm/, stripPrefix: true' });
    await using client = await world.connect();
    for (const [target, location] of [
      ['/crm', '/crm/'],
      ['/crm?a=/b', '/crm/?a=/b'],
    ]) {
      await client.request(`GET ${target}`);
      const { status, field } = await client.response();
      assert.deepEqual([status, field('location')], [308, location]);
    }
    await client.request('HEAD /crm');
    assert.equal((await client.response('HEAD')).status, 308);
    await client.request('POST /crm', { 'Content-Length': '3' }, 'abc');
    assert.equal((await client.response()).status, 308);
    assert.equal((await client.untilEnd()).length, 0);
    assert.equal(world.upstream.requests.length, 0);
  });
});

describe('a target', () => {
  const rows: [line: string, status: number, title: string][] = [
    ['GET http://localhost/x', 400, 'in absolute-form is refused (D5)'],
    ['GET https://localhost/x', 400, 'in absolute-form with https is refused (D5)'],
    ['GET ftp://localhost/x', 400, 'of another scheme is refused (D5)'],
    ['GET http://u:p@localhost/x', 400, 'with userinfo is refused (D6)'],
    ['GET /x#y', 400, 'with a fragment is refused (D7)'],
    ['GET *', 400, '* is refused (D8)'],
    ['OPTIONS *', 400, '* is refused for OPTIONS too: it names no route'],
    ['CONNECT localhost:443', 405, 'of CONNECT is refused (C22)'],
    ['TRACE /x', 405, 'of TRACE is refused (C22)'],
    ['GET x', 400, 'without a slash is refused'],
    ['PROPFIND /x', 200, 'of WebDAV passes (C22)'],
    ['get /x', 200, 'of a method in lower case passes as it is (C22)'],
    ['X-$%&! /x', 200, 'of any other token passes (C22)'],
  ];
  for (const [line, status, title] of rows) {
    it(`${title}: ${line}`, async () => {
      await using world = await startWorld();
      const answer = await world.daemon.ask(line);
      assert.equal(answer.status, status);
      const methods = world.upstream.requests.map(({ method }) => method);
      assert.deepEqual(methods, status === 200 ? [line.split(' ')[0]] : []);
      if (status === 405) assert.match(answer.field('allow') ?? '', /GET/);
    });
  }
});

describe('Host', () => {
  const listens = async (listener: string, host: string, route = ''): Promise<number> => {
    await using world = await startWorld({ listener, ...(route === '' ? {} : { route }) });
    const { status } = await world.daemon.ask('GET /', { Host: host });
    return status;
  };
  const rows: [hosts: string, host: string, status: number][] = [
    ['', 'localhost', 200],
    ['', 'LOCALHOST:1', 200],
    ['', 'localhost.', 200],
    ['', '127.0.0.1:9', 200],
    ['', '127.0.0.2', 421],
    ['', '[::1]', 421],
    ['', 'rebound.example', 421],
    ['', 'localhost.evil.example', 421],
    ['hosts: [a.example]', 'a.example:99', 200],
    ['hosts: [a.example]', 'localhost', 421],
    ["hosts: ['a.example:8080']", 'a.example:8080', 200],
    ["hosts: ['a.example:8080']", 'a.example', 421],
    ["hosts: ['a.example:80']", 'a.example', 200],
    ["hosts: ['*.a.example']", 'x.y.a.example', 200],
    ["hosts: ['*.a.example']", 'a.example', 421],
    ["hosts: ['*.a.example']", 'xa.example', 421],
    ["hosts: ['[::1]']", '[0:0:0:0:0:0:0:1]', 421],
    ["hosts: ['[::1]']", '[::1]:80', 200],
    // Malformed (D3).
    ['', 'a, b', 400],
    ['', 'a@b', 400],
    ['', 'a/b', 400],
    ['', '', 400],
    ['', 'localhost:0', 400],
    ['', 'localhost:65536', 400],
    ['', 'localhost:+80', 400],
    ['', '[fe80::1%25eth0]', 400],
  ];
  for (const [hosts, host, status] of rows) {
    it(`"${host}" ${hosts === '' ? 'by default' : `with ${hosts}`} is ${status}`, async () => {
      assert.equal(await listens(hosts === '' ? 'forwarded: {}' : hosts, host), status);
    });
  }

  it('of a route is accepted by default, and no other', async () => {
    assert.equal(await listens('forwarded: {}', 'reports.local', 'host: reports.local'), 200);
    assert.equal(await listens('forwarded: {}', 'localhost', 'host: reports.local'), 404);
  });

  it('is any on a unix socket', async () => {
    const path = `${temporaryFolder()}/host.sock`;
    await using world = await startWorld({ listen: `'unix:${path}'` });
    await using client = await RawClient.connect({ socketPath: path });
    await client.request('GET /', { Host: 'whatever.example' });
    assert.equal((await client.response()).status, 200);
    assert.equal(world.upstream.requests.length, 1);
  });

  it('is judged for each request of a connection, and chooses its route (R53)', async () => {
    await using one = await startScriptedUpstream({
      scheme: 'none',
      handler: () => ({ body: 'one' }),
    });
    await using two = await startScriptedUpstream({
      scheme: 'none',
      handler: () => ({ body: 'two' }),
    });
    await using daemon = await startDaemon({
      config: `version: 1
upstreams: { one: { url: '${one.url}' }, two: { url: '${two.url}' } }
listeners:
  - name: main
    listen: 127.0.0.1:0
    mode: reverse
    routes:
      - { upstream: one }
      - { host: '*.b.example', upstream: one, path: /deep }
      - { host: 'x.b.example', upstream: two }
      - { path: /two, upstream: two }
      - { path: /two/one/, upstream: one }
`,
    });
    await using client = await daemon.connect();
    for (const [host, target, expected] of [
      ['localhost', '/', 'one'],
      ['x.b.example', '/deep', 'two'],
      ['localhost', '/two', 'two'],
      ['localhost', '/two/one/x', 'one'],
      ['y.b.example', '/two', 'two'],
      ['y.b.example', '/deep/x', 'one'],
    ] as const) {
      await client.request(`GET ${target}`, { Host: host });
      assert.equal((await client.response()).body.toString(), expected, `${host} ${target}`);
    }
    await client.request('GET /', { Host: 'evil.example' });
    assert.equal((await client.response()).status, 421);
  });
});

describe('a redirect of the upstream', () => {
  it('leads back to us: curl -L follows it', { skip: curlAvailability().skip }, async () => {
    await using world = await startWorld({
      basePath: '/base',
      route: 'path: /crm/, stripPrefix: true',
      handler: (request) =>
        request.target.startsWith('/base/go')
          ? shapes({ ...request, target: '/redirect' })
          : { body: request.target },
    });
    const url = `http://${world.daemon.authority()}/crm/go`;
    const { stdout } = await run('curl', ['-sS', '-L', '-w', ' %{http_code}', url]);
    assert.equal(stdout, '/base/landed?x=1 200');
  });

  it('keeps its cookies usable with rewriteCookies, and untouched without', async () => {
    const lines = [
      ['a=1; Domain=127.0.0.1; Path=/base/; Secure', 'a=1; Path=/crm/; Secure'],
      ['b=2; HttpOnly; Path=/', 'b=2; HttpOnly; Path=/'],
      ['c=3; path=/base/x=y', 'c=3; Path=/crm/x=y'],
    ] as const;
    const handler = () => ({
      fields: lines.map(([line]) => ['Set-Cookie', line] as const),
      body: 'ok',
    });
    const route = 'path: /crm/, stripPrefix: true';
    for (const rewrite of [true, false]) {
      await using world = await startWorld({
        handler,
        basePath: '/base',
        route: `${route}, rewriteCookies: ${rewrite}`,
      });
      const { all } = await world.daemon.ask('GET /crm/');
      const expected = lines.map(([line, changed]) => (rewrite ? changed : line));
      assert.deepEqual(all('set-cookie').toSorted(), expected.toSorted());
    }
  });

  it('is left alone where it leads elsewhere, or rewriteLocation is off', async () => {
    const handler = ({ target }: { target: string }) => ({
      status: 302,
      fields: [['Location', target.slice('/?to='.length)]] as const,
    });
    await using world = await startWorld({ handler });
    const own = `http://127.0.0.1:${world.upstream.port}/x`;
    for (const [location, becomes] of [
      ['https://idp.example/', 'https://idp.example/'],
      [own, `http://${world.daemon.authority()}/x`],
      ['//127.0.0.1/x', '//127.0.0.1/x'],
    ] as const) {
      const { field } = await world.daemon.ask(`GET /?to=${location}`);
      assert.equal(field('location'), becomes);
    }
    await using off = await startWorld({ handler, route: 'rewriteLocation: false' });
    const theirs = `http://127.0.0.1:${off.upstream.port}/x`;
    assert.equal((await off.daemon.ask(`GET /?to=${theirs}`)).field('location'), theirs);
  });
});
