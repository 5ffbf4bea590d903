/**
 * Hostile targets (hostile-inputs.md D) through a running forward listener: the right refusal, the
 * connection closed, and nothing of it at the upstream.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RawClient } from '../support/raw-client.ts';
import { startForward } from '../flow/forward-world.ts';

const HOST = 'Host: a.example\r\n';
const SMUGGLED = 'GET http://a.example/evil HTTP/1.1\r\nHost: a.example\r\n\r\n';
const get = (target: string): string => `GET ${target} HTTP/1.1\r\n${HOST}\r\n`;
const connect = (target: string): string => `CONNECT ${target} HTTP/1.1\r\n${HOST}\r\n`;

const rows: readonly (readonly [title: string, bytes: string, status: number])[] = [
  ['an origin-form target', get('/'), 400],
  ['an asterisk', `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['D8 an asterisk with GET', get('*'), 400],
  ['C22 TRACE', `TRACE http://a.example/ HTTP/1.1\r\n${HOST}\r\n`, 405],
  ['D1 no Host', 'GET http://a.example/ HTTP/1.1\r\n\r\n', 400],
  ['D2 two Host fields', `GET http://a.example/ HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
  ['D3 a bad Host', 'GET http://a.example/ HTTP/1.1\r\nHost: a, b\r\n\r\n', 400],
  ['D5 https in absolute-form', get('https://a.example/'), 400],
  ['D5 ftp', get('ftp://a.example/'), 400],
  ['D5 file', get('file:///etc/passwd'), 400],
  ['D5 gopher', get('gopher://a.example:70/'), 400],
  ['D5 a scheme in another spelling', get('HTTPS://a.example/'), 400],
  ['D6 userinfo', get('http://u:p@a.example/'), 400],
  ['D6 an empty userinfo', get('http://@a.example/'), 400],
  ['D7 a fragment', get('http://a.example/#x'), 400],
  ['an empty authority', get('http:///x'), 400],
  ['a port of zero', get('http://a.example:0/'), 400],
  ['a port beyond the last', get('http://a.example:65536/'), 400],
  ['a port with a sign', get('http://a.example:+80/'), 400],
  ['an empty port', get('http://a.example:/'), 400],
  ['D10 CONNECT without a port', connect('a.example'), 400],
  ['D10 CONNECT with a path', connect('a.example:443/x'), 400],
  ['D10 CONNECT with userinfo', connect('u@a.example:443'), 400],
  ['D10 CONNECT without brackets', connect('::1:443'), 400],
  ['D10 CONNECT to port 0', connect('a.example:0'), 400],
  ['D10 CONNECT to port 99999', connect('a.example:99999'), 400],
  ['D10 CONNECT with a scheme', connect('http://a.example:443'), 400],
  [
    'D10 CONNECT with a body',
    `CONNECT a.example:443 HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabc`,
    400,
  ],
  ['D11 CONNECT to ssh', connect('a.example:22'), 403],
  ['D11 CONNECT to mail', connect('8.8.8.8:25'), 403],
  ['D11 CONNECT to a database', connect('a.example:3306'), 403],
  ['D12 the metadata address', get('http://169.254.169.254/'), 403],
  ['D12 the metadata address of IPv6', get('http://[fd00:ec2::254]/'), 403],
  ['D12 the metadata name', get('http://metadata.google.internal/'), 403],
  ['D12 the metadata name with a dot', get('http://Metadata.Google.Internal./'), 403],
  ['D12 the metadata address of another cloud', get('http://100.100.100.200/'), 403],
  ['D12 loopback', get('http://127.0.0.1/'), 403],
  ['D12 loopback further up', get('http://127.8.9.10/'), 403],
  ['D12 the unspecified address', get('http://0.0.0.0/'), 403],
  ['D12 the unspecified address of IPv6', get('http://[::]/'), 403],
  ['D12 loopback of IPv6', get('http://[::1]/'), 403],
  ['D12 loopback of IPv6 in full', get('http://[0:0:0:0:0:0:0:1]/'), 403],
  ['D12 loopback as mapped IPv6', get('http://[::ffff:127.0.0.1]/'), 403],
  ['D12 loopback as mapped IPv6 in hex', get('http://[::ffff:7f00:1]/'), 403],
  ['D12 localhost', get('http://localhost/'), 403],
  ['D12 localhost with a dot', get('http://LOCALHOST./'), 403],
  ['D12 a name below localhost', get('http://x.localhost/'), 403],
  ['D12 CONNECT to the metadata address', connect('169.254.169.254:443'), 403],
  ['D12 CONNECT to loopback', connect('[::ffff:7f00:1]:443'), 403],
  ['a private address', get('http://10.1.2.3/'), 403],
  ['a unique-local address', get('http://[fd12::1]/'), 403],
  ['a translated private address', get('http://[64:ff9b::a01:203]/'), 403],
  ['D13 a number', get('http://2130706433/'), 400],
  ['D13 hex', get('http://0x7f.1/'), 400],
  ['D13 octal', get('http://0177.0.0.1/'), 400],
  ['D13 few parts', get('http://127.1/'), 400],
  ['D13 full-width digits', get('http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/'), 400],
  ['D13 CONNECT to a number', connect('2130706433:443'), 400],
  ['D14 a name that leads to loopback', get('http://loopback.test/'), 403],
  ['D14 a name that leads to the metadata address', get('http://metadata.test/'), 403],
  ['D14 a name of mapped loopback', get('http://mapped.test/'), 403],
  ['D14 a name that leads inside with every address', connect('inside.test:443'), 403],
  ['D15 a zone id', get('http://[fe80::1%25eth0]/'), 400],
  ['D15 a future address', get('http://[v1.x]/'), 400],
  ['D16 a name of 300 characters', get(`http://${'a.'.repeat(146)}example/`), 400],
  ['D16 an escape in the name', get('http://a%2eexample/'), 400],
];

const NAMES = {
  'loopback.test': ['127.0.0.1'],
  'metadata.test': ['169.254.169.254'],
  'mapped.test': ['::ffff:127.0.0.1'],
  'inside.test': ['10.0.0.1', 'fd00::1', '127.0.0.1', '::1'],
};

describe('a hostile target', () => {
  for (const [title, bytes, status] of rows) {
    it(`${title} is ${status}`, async () => {
      await using world = await startForward({ allow: "['*:443', '*:80']", names: NAMES });
      await using client = await world.connect();
      await client.send(`${bytes}${SMUGGLED}`);
      const answer = await client.response();
      assert.equal(answer.status, status);
      if (!title.startsWith('D14')) {
        assert.equal((await client.untilEnd()).length, 0);
        assert.deepEqual(world.lookups, []);
      }
      assert.equal(world.upstream.journal.sockets.length, 0);
    });
  }
});

describe('our own listeners', () => {
  const refused = async (client: RawClient, line: string): Promise<void> => {
    await client.request(line);
    const answer = await client.response();
    assert.equal(answer.status, 403, line);
    assert.match(answer.field('proxy-status') ?? '', /target-denied/);
  };

  it('are reached by no spelling of their address, whatever is allowed (D11)', async () => {
    await using world = await startForward({
      allow: "['*:*', '0.0.0.0/0:*', '[::]/0:*', '127.0.0.1:*', 'localhost:*']",
      listener: "private: true, direct: [localhost, '127.0.0.0/8']",
      names: { localhost: ['127.0.0.1', '::1'], 'rebound.test': ['127.0.0.1'] },
    });
    const ports = [world.daemon.address().port, world.daemon.adminAddress.port];
    const hosts = [
      '127.0.0.1',
      '0.0.0.0',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::]',
      'rebound.test',
    ];
    for (const port of ports) {
      for (const host of hosts) {
        for (const line of [`GET http://${host}:${port}/`, `CONNECT ${host}:${port}`]) {
          await using client = await world.connect();
          await refused(client, line);
        }
      }
    }
    // Nothing else on this machine is taken for ours.
    assert.equal((await world.ask('/')).status, 200);
  });
});

describe('a name with several addresses (D14)', () => {
  it('is dialled at those that are allowed, and at no other', async () => {
    await using world = await startForward({
      allow: "['127.0.0.1:*']",
      names: { 'mixed.test': ['10.255.255.1', '169.254.169.254', '127.0.0.1'] },
    });
    const answer = await world.daemon.ask(`GET http://mixed.test:${world.upstream.port}/`);
    assert.equal(answer.status, 200);
    assert.deepEqual(world.lookups, ['mixed.test']);
  });

  it('is tried at the next one when the first refuses', async () => {
    await using world = await startForward({
      allow: "['two.test:*']",
      names: { 'two.test': ['::1', '127.0.0.2', '127.0.0.1'] },
    });
    await using client = await world.tunnel(`two.test:${world.upstream.port}`);
    await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    assert.equal((await client.response()).status, 200);
  });

  it('that leads elsewhere later keeps its connection, and is judged anew for the next', async () => {
    const changing: Record<string, string[]> = { 'changing.test': ['127.0.0.1'] };
    await using world = await startForward({ allow: "['127.0.0.1:*']", names: changing });
    const line = `GET http://changing.test:${world.upstream.port}/`;
    await using client = await world.connect();
    await client.request(line);
    assert.equal((await client.response()).status, 200);
    changing['changing.test'] = ['10.0.0.1'];
    await client.request(line);
    assert.equal((await client.response()).status, 200);
    await using tunnel = await world.connect();
    await tunnel.request(`CONNECT changing.test:${world.upstream.port}`);
    assert.equal((await tunnel.response()).status, 403);
    assert.equal(world.upstream.journal.sockets.length, 1);
  });
});

describe('two listeners', () => {
  it('share no connection: one may not reach what the other may', async () => {
    await using world = await startForward({
      allow: "['127.0.0.1:*']",
      names: { 'a.test': ['127.0.0.1'] },
      secondAllow: "['*:*']",
    });
    const line = `GET http://a.test:${world.upstream.port}/`;
    assert.equal((await world.daemon.ask(line)).status, 200);
    await using client = await world.daemon.connect('second');
    await client.request(line);
    assert.equal((await client.response()).status, 403);
  });
});

describe('hosts of a forward listener', () => {
  it('bound what targets may name', async () => {
    await using world = await startForward({ listener: 'hosts: [origin.test]' });
    assert.equal((await world.ask('/')).status, 421);
    const named = await world.daemon.ask(`GET http://origin.test:${world.upstream.port}/`);
    assert.equal(named.status, 200);
    await using client = await world.connect();
    await client.request(`CONNECT ${world.authority}`);
    assert.equal((await client.response()).status, 421);
  });
});
