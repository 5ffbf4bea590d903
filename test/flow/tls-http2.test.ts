/** HTTP/2 by ALPN: the same callers and rules as over HTTP/1.1, stream by stream. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Authority, type IssuedCertificate } from '../support/authority.ts';
import { H2Client } from '../support/h2-client.ts';
import { fieldValue } from '../support/strict-http.ts';
import { temporaryFile } from '../support/temporary-folder.ts';
import { within } from '../support/waiting.ts';
import { TlsWorld } from './tls-world.ts';

const servers = new Authority('server authority');
const LOCAL = servers.issue('localhost', { names: 'DNS:localhost,IP:127.0.0.1' });
const callers = new Authority('caller authority');
const strangers = new Authority('caller authority');
const ALICE = callers.issue('alice', { names: 'URI:spiffe://lab/alice' });
const BOB = callers.issue('bob', { names: 'URI:spiffe://lab/bob' });

const TLS = `{ cert: ${LOCAL.certFile}, key: { file: ${LOCAL.keyFile} } }`;

function connect(world: TlsWorld, who?: IssuedCertificate): Promise<H2Client> {
  const authority = world.daemon.authority();
  const own = who === undefined ? {} : { cert: who.cert, key: who.key };
  return H2Client.connect(`https://${authority}`, authority, { ca: servers.ca, ...own });
}

const mapped = (ca: string): string => `http2: true
    clients: [mtls: { ca: ${ca} }]
    principal:
      - { when: { subject: 'spiffe://lab/alice' }, use: alice }
      - { when: { subject: 'spiffe://lab/bob' }, use: bob }`;

describe('HTTP/2 over TLS', () => {
  test('is chosen by ALPN, and HTTP/1.1 stays for who wants it', async () => {
    await using world = await TlsWorld.start({ tls: TLS, listener: 'http2: true' });
    await using client = await connect(world);
    assert.equal(client.session.alpnProtocol, 'h2');
    assert.equal((await client.ask('GET /two')).status, 200);
    assert.equal((await world.ask({ ca: servers.ca, alpn: ['http/1.1'] })).status, 200);
    const [first] = world.upstream.requests;
    assert.equal(fieldValue(first?.fields ?? [], 'X-Forwarded-Proto'), 'https');
    assert.deepEqual(
      world.upstream.requests.map(({ target }) => target),
      ['/two', '/x'],
    );
  });

  test('R1 logs each caller in as the certificate of his connection says', async () => {
    const listener = mapped(callers.caFile);
    await using world = await TlsWorld.start({ tls: TLS, scheme: 'ntlm', listener });
    await using alice = await connect(world, ALICE);
    await using bob = await connect(world, BOB);
    const users = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const client = at % 2 === 0 ? alice : bob;
        const { status, headers } = await client.ask('GET /');
        return [status, headers['x-user']];
      }),
    );
    assert.deepEqual(
      users,
      Array.from({ length: 20 }, (_, at) => [200, at % 2 === 0 ? 'LAB\\alice' : 'LAB\\bob']),
    );
  });

  test('R51 ends a connection of authorities that are gone', async () => {
    const ca = temporaryFile('callers.pem', callers.ca);
    await using world = await TlsWorld.start({ tls: TLS, scheme: 'ntlm', listener: mapped(ca) });
    await using alice = await connect(world, ALICE);
    assert.equal((await alice.ask('GET /')).status, 200);
    writeFileSync(ca, strangers.ca);
    assert.equal((await world.daemon.reload()).result, 'ok');
    await within(alice.gone(), 'the end of the connection');
    assert.equal(alice.goaway, 0);
  });

  test('is refused for another host than ours, by name and by :authority', async () => {
    await using world = await TlsWorld.start({ tls: TLS, listener: 'http2: true' });
    await using client = await connect(world);
    assert.equal((await client.ask('GET /', { ':authority': 'evil.example' })).status, 421);
    assert.equal((await client.ask('GET /', { origin: 'https://evil.example' })).status, 403);
    const own = `https://${world.daemon.authority()}`;
    assert.equal((await client.ask('GET /', { origin: own })).status, 200);
  });

  test('serves curl, which finds it by itself', async () => {
    await using world = await TlsWorld.start({
      tls: TLS,
      listener: 'http2: true',
      scheme: 'ntlm',
      routes: '{ upstream: origin, principal: alice }',
    });
    const url = `https://${world.daemon.authority()}/`;
    const words = ['--disable', '--silent', '--show-error', '--noproxy', '*', '--max-time', '10'];
    const out = await promisify(execFile)('curl', [
      ...words,
      '--cacert',
      servers.caFile,
      '--write-out',
      '%{http_version} %{http_code}\n',
      '--output',
      '/dev/null',
      url,
      '--output',
      '/dev/null',
      `${url}again`,
    ]);
    assert.equal(out.stdout, '2 200\n2 200\n');
  });
});
