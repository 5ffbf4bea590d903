/** TLS to an origin that demands channel bindings: what is bound, resumed, refused and kept apart. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { testCertificate, type CertificateKind } from '../support/certificates.ts';
import { startDaemon } from '../support/daemon.ts';
import { startScriptedUpstream } from '../support/scripted-upstream.ts';
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts';
import type { ScriptedUpstreamOptions, TlsSwitches } from '../support/upstream-options.ts';
import { patterned, startWorld, USERS, type World } from './login-world.ts';

const trusting = (caFile: string, more = ''): string =>
  `, tls: { ca: ${JSON.stringify(caFile)}${more} }`;

interface TlsWish {
  readonly kind?: CertificateKind;
  readonly tls?: Partial<TlsSwitches>;
  readonly upstream?: ScriptedUpstreamOptions;
  readonly auth?: string;
  readonly trust?: string;
  readonly more?: string;
}

function tlsWorld(wish: TlsWish = {}): Promise<World> {
  const certificate = testCertificate(wish.kind === undefined ? {} : { kind: wish.kind });
  return startWorld({
    upstream: {
      ...wish.upstream,
      tls: { certificate, channelBinding: 'required', ...wish.tls },
    },
    ...(wish.auth === undefined ? {} : { auth: wish.auth }),
    more: trusting(wish.trust ?? certificate.caFile, wish.more),
  });
}

const dropAll = async (world: World): Promise<void> => {
  world.upstream.drop('fin');
  await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
};

describe('channel bindings', () => {
  for (const maxVersion of ['TLSv1.3', 'TLSv1.2'] as const) {
    test(`a login over ${maxVersion} is bound, also on a resumed session`, async () => {
      await using world = await tlsWorld({ tls: { maxVersion }, auth: 'channelBinding: required' });
      for (let n = 0; n < 3; n += 1) {
        const answer = await world.ask('alice', 'POST', { body: patterned(10) });
        assert.equal(answer.field('X-User'), USERS.alice);
        await dropAll(world);
      }
      const resumed = world.upstream.journal.sockets.map((socket) => socket.resumed);
      assert.deepEqual(resumed, [false, true, true]);
      const bound = world.upstream.journal.sockets.flatMap(({ claims }) => claims);
      assert.equal(new Set(bound.map(({ bindings }) => bindings)).size, 1);
      assert.notEqual(bound[0]?.bindings, undefined);
      assert.equal(world.writes.length, 3);
    });
  }

  const kinds: CertificateKind[] = ['rsa-sha1', 'rsa-sha384', 'rsa-pss-sha256', 'ecdsa-sha512'];
  for (const kind of kinds) {
    test(`a certificate of ${kind} is bound by the hash that RFC 5929 names`, async () => {
      await using world = await tlsWorld({ kind });
      const answer = await world.ask('alice');
      // OpenSSL refuses SHA-1 signatures at its default security level: then nothing was sent.
      if (kind === 'rsa-sha1' && answer.status === 502) return;
      assert.equal(answer.field('X-User'), USERS.alice);
    });
  }

  test('where bindings are required and the certificate has none, nothing is sent', async () => {
    await using world = await tlsWorld({ kind: 'ed25519', auth: 'channelBinding: required' });
    assert.equal((await world.ask('alice', 'POST', { body: patterned(1) })).status, 502);
    assert.equal(world.upstream.count('type1'), 0);
  });

  test('where they are off, none are sent', async () => {
    await using world = await tlsWorld({
      auth: "channelBinding: 'off'",
      tls: { channelBinding: 'off' },
    });
    assert.equal((await world.ask('alice')).status, 200);
    const claims = world.upstream.journal.sockets.flatMap((socket) => socket.claims);
    const zero = '0'.repeat(32);
    assert.ok(claims.every(({ bindings }) => bindings === undefined || bindings === zero));
  });

  test('a new certificate of the origin costs at most one login that is refused', async () => {
    const certificate = testCertificate();
    const next = testCertificate({ names: ['localhost', 'rotated.example'] });
    const both = join(temporaryFolder(), 'old-and-new.pem');
    writeFileSync(both, `${certificate.ca}\n${next.ca}`);
    await using world = await tlsWorld({ trust: both });
    assert.equal((await world.ask('alice')).status, 200);
    await dropAll(world);
    world.upstream.useCertificate(next);
    // A session that is still resumed keeps the binding of the certificate it was made under.
    const statuses = [(await world.ask('alice')).status, (await world.ask('alice')).status];
    assert.ok(statuses[0] === 200 || statuses[0] === 502, statuses.join());
    assert.equal(statuses[1], 200);
    const [old, ...later] = world.upstream.journal.sockets;
    const fresh = later.filter(({ resumed }) => !resumed).flatMap(({ claims }) => claims);
    assert.ok(fresh.length > 0);
    for (const { bindings } of fresh) assert.notEqual(bindings, old?.claims[0]?.bindings);
  });
});

describe('TLS of upstream sockets', () => {
  test('a certificate of an unknown authority is refused before a token is sent', async () => {
    const stranger = testCertificate({ names: ['stranger.example'] });
    await using world = await tlsWorld({ trust: stranger.caFile });
    for (const who of ['alice', 'open', 'plain'] as const) {
      const answer = await world.ask(who, 'POST', { body: patterned(1) });
      assert.equal(answer.status, 502);
      assert.match(answer.field('Proxy-Status') ?? '', /tls-failed/);
    }
    assert.deepEqual(world.upstream.requests, []);
  });

  test('R11 a file of authorities that is exchanged counts at once, for open connections too', async () => {
    const certificate = testCertificate();
    const stranger = testCertificate({ names: ['stranger.example'] });
    const file = join(mkdtempSync(join(temporaryFolder(), 'trust-')), 'ca.pem');
    writeFileSync(file, certificate.ca);
    await using world = await tlsWorld({ trust: file });
    assert.equal((await world.ask('alice')).status, 200);
    assert.deepEqual((await world.daemon.reload()).upstreams.changed, []);
    assert.equal((await world.ask('alice')).status, 200);
    assert.equal(world.upstream.journal.sockets.length, 1);
    writeFileSync(file, stranger.ca);
    const { upstreams } = await world.daemon.reload();
    assert.deepEqual(upstreams.changed, ['origin', 'plain']);
    assert.equal((await world.ask('alice')).status, 502);
    await world.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
  });

  test('a certificate for another name is refused', async () => {
    await using world = await tlsWorld({ more: ', servername: other.example' });
    assert.equal((await world.ask('alice')).status, 502);
    assert.deepEqual(world.upstream.requests, []);
  });

  test('R11 upstreams that trust different authorities share no socket and no session', async () => {
    const certificate = testCertificate();
    const stranger = testCertificate({ names: ['stranger.example'] });
    await using upstream = await startScriptedUpstream({ tls: { certificate } });
    const auth = 'auth: { schemes: [ntlm], principal: alice }';
    await using daemon = await startDaemon({
      secrets: { ALICE: 'alice-secret' },
      config: `version: 1
principals: { alice: { username: 'LAB\\alice', password: { env: ALICE } } }
upstreams:
  good: { url: '${upstream.url}', ${auth}, tls: { ca: '${certificate.caFile}' } }
  bad: { url: '${upstream.url}', ${auth}, tls: { ca: '${stranger.caFile}' } }
  both: { url: '${upstream.url}', ${auth}, tls: { extraCa: '${certificate.caFile}' } }
listeners:
  - name: api
    listen: '127.0.0.1:0'
    mode: reverse
    routes:
      - { path: /good/, upstream: good }
      - { path: /bad/, upstream: bad }
      - { path: /both/, upstream: both }
`,
    });
    const statuses: number[] = [];
    for (const name of ['good', 'bad', 'both', 'good', 'bad', 'both']) {
      statuses.push((await daemon.ask(`GET /${name}/x`)).status);
    }
    assert.deepEqual(statuses, [200, 502, 200, 200, 502, 200]);
    const served = upstream.journal.sockets.filter(({ requests }) => requests.length > 0);
    assert.deepEqual(
      served.map(({ requests }) => new Set(requests.map(({ target }) => target)).size),
      [1, 1],
    );
    assert.deepEqual(
      served.map(({ resumed }) => resumed),
      [false, false],
    );
  });

  test('R12 sessions of one principal are never offered for another, nor for nobody', async () => {
    await using world = await tlsWorld();
    const order = ['alice', 'bob', 'open', 'plain', 'alice', 'bob', 'open', 'plain'] as const;
    for (const who of order) {
      assert.equal((await world.ask(who)).status, 200);
      await dropAll(world);
    }
    const resumed = world.upstream.journal.sockets.map((socket) => socket.resumed);
    assert.deepEqual(resumed, [false, false, false, false, true, true, true, true]);
  });

  test('R13 an upstream with https never gets a plain socket', async () => {
    await using world = await tlsWorld();
    for (const who of ['alice', 'open', 'plain'] as const) await world.ask(who);
    assert.ok(world.upstream.journal.sockets.every(({ secure }) => secure));
  });

  test('R21 only http/1.1 is offered, and a peer that wants h2 alone gets no token', async () => {
    await using both = await tlsWorld({ tls: { alpn: ['h2', 'http/1.1'] } });
    assert.equal((await both.ask('alice')).status, 200);
    assert.deepEqual(
      both.upstream.journal.sockets.map(({ alpn }) => alpn),
      ['http/1.1'],
    );
    await using h2 = await tlsWorld({ tls: { alpn: ['h2'] } });
    for (const who of ['alice', 'plain'] as const) assert.equal((await h2.ask(who)).status, 502);
    assert.deepEqual(h2.upstream.requests, []);
  });

  test('a client certificate is shown where one is configured', async () => {
    const certificate = testCertificate();
    const own = testCertificate({ names: ['client.example'] });
    const more = `, cert: { file: '${own.certFile}' }, key: { file: '${own.keyFile}' }`;
    await using world = await tlsWorld({ tls: { clientCa: own.ca, certificate }, more });
    assert.equal((await world.ask('alice')).field('X-User'), USERS.alice);
    const files = ['-in', own.certFile, '-inkey', own.keyFile, '-passout', 'pass:'];
    const store = execFileSync('openssl', ['pkcs12', '-export', ...files]);
    const path = temporaryFile('client.p12', store);
    const pkcs12 = `, pkcs12: { file: '${path}' }`;
    await using opened = await tlsWorld({ tls: { clientCa: own.ca, certificate }, more: pkcs12 });
    assert.equal((await opened.ask('alice')).field('X-User'), USERS.alice);
    await using without = await tlsWorld({ tls: { clientCa: own.ca, certificate } });
    assert.equal((await without.ask('alice')).status, 502);
    assert.deepEqual(without.upstream.requests, []);
  });

  test('bodies of all sizes pass TLS over a forgetful origin once and whole', async () => {
    await using world = await tlsWorld({ upstream: { forgetAfter: 2 } });
    for (const size of [0, 1, 65_536, 65_537, 1_000_000]) {
      const before = world.writes.length;
      const answer = await world.ask('alice', 'POST', { body: patterned(size) });
      assert.equal(answer.status, 200, `${size}`);
      assert.equal(world.writes.length, before + 1);
      assert.equal(world.writes.at(-1)?.bodyLength, size);
    }
  });
});
