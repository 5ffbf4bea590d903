/** Listeners that speak TLS: which certificate they show, what callers notice, how they change. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { Duplex } from 'node:stream';
import { describe, test } from 'node:test';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { Authority } from '../support/authority.ts';
import { temporaryFile } from '../support/temporary-folder.ts';
import type { RawClient } from '../support/raw-client.ts';
import { fieldValue } from '../support/strict-http.ts';
import { until, within } from '../support/waiting.ts';
import { TlsWorld } from './tls-world.ts';

const authority = new Authority('server authority');
const ca = authority.ca;
const LOCAL = authority.issue('localhost', { names: 'DNS:localhost' });
const OTHER = authority.issue('other', { names: 'DNS:other.example,DNS:*.wild.example' });

const entry = ({ certFile, keyFile }: { certFile: string; keyFile: string }): string =>
  `{ cert: ${certFile}, key: { file: ${keyFile} } }`;

const secure = ({ socket }: RawClient): TLSSocket => socket as TLSSocket;
const shown = (client: RawClient): string =>
  secure(client).getPeerCertificate().subject.CN as string;

describe('a TLS listener', () => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`serves HTTP/1.1 over ${version}, one request after the other`, async () => {
      await using world = await TlsWorld.start({ tls: entry(LOCAL) });
      await using client = await world.connect({ ca, maxVersion: version, minVersion: version });
      for (const path of ['/a', '/b', '/c']) {
        assert.equal((await world.on(client, {}, `GET ${path}`)).status, 200);
      }
      assert.equal(secure(client).getProtocol(), version);
      assert.equal(world.upstream.requests.length, 3);
    });
  }

  test('shows the certificate of the name that the caller wants, else the first', async () => {
    await using world = await TlsWorld.start({ tls: `${entry(LOCAL)}, ${entry(OTHER)}` });
    for (const [servername, name] of [
      ['localhost', 'localhost'],
      ['OTHER.example', 'other'],
      ['a.wild.example', 'other'],
    ] as const) {
      await using client = await world.connect({ ca, servername });
      assert.equal(shown(client), name);
    }
    // Two labels are more than the wildcard stands for.
    await assert.rejects(world.connect({ ca, servername: 'a.b.wild.example' }), {
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
  });

  test('tells upstreams and callers that the scheme is https', async () => {
    const handler = ({ target }: { target: string }) => ({
      status: 302,
      fields: [['Location', target.slice('/?to='.length)]] as const,
    });
    await using world = await TlsWorld.start({ tls: entry(LOCAL), handler });
    const answer = await world.ask({ ca }, {}, `GET /?to=${world.upstream.url}/there`);
    assert.equal(answer.field('Location'), `https://${world.daemon.authority()}/there`);
    assert.equal(
      fieldValue(world.upstream.requests[0]?.fields ?? [], 'X-Forwarded-Proto'),
      'https',
    );
  });

  test('holds the page rule against the origin of its own scheme', async () => {
    await using world = await TlsWorld.start({ tls: entry(LOCAL) });
    const host = world.daemon.authority();
    assert.equal((await world.ask({ ca }, { Origin: `https://${host}` })).status, 200);
    assert.equal((await world.ask({ ca }, { Origin: `http://${host}` })).status, 403);
  });

  test('speaks no other protocol than HTTP/1.1', async () => {
    await using world = await TlsWorld.start({ tls: entry(LOCAL) });
    await using client = await world.connect({ ca, alpn: ['http/1.1'] });
    assert.equal(secure(client).alpnProtocol, 'http/1.1');
    await assert.rejects(world.connect({ ca, alpn: ['h2'] }));
  });

  test('refuses versions below its own', async () => {
    const tls = entry(LOCAL).replace('{ ', '{ minVersion: TLSv1.3, ');
    await using world = await TlsWorld.start({ tls });
    await assert.rejects(world.connect({ ca, maxVersion: 'TLSv1.2' }));
    assert.equal((await world.ask({ ca })).status, 200);
  });

  test('resumes sessions, also after its certificate was renewed', async () => {
    const certFile = temporaryFile('renewed.pem', LOCAL.cert);
    const keyFile = temporaryFile('renewed.key', LOCAL.key);
    await using world = await TlsWorld.start({ tls: entry({ certFile, keyFile }) });
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const session = await sessionOf(world, { maxVersion: version });
      await using client = await world.connect({ ca, session, maxVersion: version });
      assert.equal(secure(client).isSessionReused(), true, version);
    }
    const session = await sessionOf(world, {});
    const renewed = authority.issue('renewed', { names: 'DNS:localhost' });
    writeFileSync(certFile, renewed.cert);
    writeFileSync(keyFile, renewed.key);
    assert.equal((await world.daemon.reload()).result, 'ok');
    await using client = await world.connect({ ca, session });
    assert.equal(secure(client).isSessionReused(), true);
    await using fresh = await world.connect({ ca });
    assert.equal(shown(fresh), 'renewed');
    const ends = (await world.daemon.metrics()).sum(
      'sidekerb_tls_certificate_not_after_timestamp_seconds',
    );
    assert.equal(ends, new X509Certificate(renewed.cert).validToDate.getTime() / 1000);
  });

  test('keeps its certificate when the new one is no good, and says why', async () => {
    const certFile = temporaryFile('kept.pem', LOCAL.cert);
    const keyFile = temporaryFile('kept.key', LOCAL.key);
    await using world = await TlsWorld.start({ tls: entry({ certFile, keyFile }) });
    writeFileSync(certFile, OTHER.cert);
    const report = await world.daemon.reload();
    assert.equal(report.result, 'failed');
    assert.match(report.faults[0]?.message ?? '', /does not belong to the first certificate/);
    await using client = await world.connect({ ca });
    assert.equal(shown(client), 'localhost');
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_config_reloads_total', { result: 'failed' }), 1);
  });

  test('ends what is no handshake, and counts it', async () => {
    await using world = await TlsWorld.start({
      tls: entry(LOCAL),
      listener: 'timeouts: { head: 50ms }',
    });
    const { host, port } = world.daemon.address();
    for (const first of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', '', '\x16\x03\x01']) {
      const socket = connect(port, host);
      socket.resume();
      socket.on('error', () => undefined);
      if (first !== '') socket.write(first, 'latin1');
      await within(once(socket, 'close'), 'the end of the connection');
    }
    const metrics = await world.daemon.measured(
      (found) => found.sum('sidekerb_tls_handshakes_total', { result: 'failed' }) === 3,
      'three failed handshakes',
    );
    assert.equal(metrics.sum('sidekerb_tls_handshakes_total', { result: 'full' }), 0);
    // Every place came back.
    assert.equal((await world.ask({ ca })).status, 200);
  });

  test('counts a connection against the limits from its first byte on', async () => {
    await using world = await TlsWorld.start({
      tls: entry(LOCAL),
      listener: 'limits: { perClient: 1 }',
    });
    const { host, port } = world.daemon.address();
    const silent = connect(port, host);
    await once(silent, 'connect');
    await assert.rejects(world.connect({ ca }));
    silent.destroy();
    await world.daemon.measured(
      (found) => found.sum('sidekerb_tls_handshakes_total', { result: 'failed' }) > 0,
      'the silent one is gone',
    );
    assert.equal((await world.ask({ ca })).status, 200);
  });

  test('R51 lets nobody shake hands again on one connection', async () => {
    await using world = await TlsWorld.start({ tls: entry(LOCAL) });
    const { host, port } = world.daemon.address();
    const old = connectTls({ host, port, ca, servername: 'localhost', maxVersion: 'TLSv1.2' });
    await once(old, 'secureConnect');
    const refused = await within(
      new Promise<boolean>((resolve) => {
        old.on('error', () => resolve(true));
        old.on('close', () => resolve(true));
        old.renegotiate({}, (error) => resolve(error !== null));
      }),
      'what becomes of it',
    );
    old.destroy();
    assert.equal(refused, true);
  });

  test('serves no handshake that ends after it has become plain', async () => {
    await using world = await TlsWorld.start({ tls: entry(LOCAL) });
    const { host, port } = world.daemon.address();
    const raw = connect(port, host);
    await once(raw, 'connect');
    // What the caller says first goes through, the rest of his handshake only after the reload.
    const held: Buffer[] = [];
    let isHeld = false;
    const side = new Duplex({
      read: () => undefined,
      write: (piece: Buffer, _encoding, done) => {
        if (isHeld) held.push(piece);
        else raw.write(piece);
        isHeld = true;
        done();
      },
    });
    raw.on('data', (piece: Buffer) => side.push(piece));
    raw.on('close', () => side.destroy());
    raw.on('error', () => undefined);
    const caller = connectTls({ socket: side, ca, servername: 'localhost' });
    caller.on('error', () => undefined);
    await until(() => held.length > 0, 'the second flight');
    const plain = (text: string): string => text.replace(/tls: \[.*\]/, '');
    assert.equal((await world.daemon.reload(plain)).result, 'ok');
    for (const piece of held) raw.write(piece);
    caller.write(`GET /late HTTP/1.1\r\nHost: ${world.daemon.authority()}\r\n\r\n`);
    await within(once(raw, 'close'), 'the end of the connection');
    assert.equal(world.upstream.requests.length, 0);
  });

  test('finishes answers when it drains, and lets go of sockets that never spoke', async () => {
    await using world = await TlsWorld.start({ tls: entry(LOCAL) });
    const { host, port } = world.daemon.address();
    await using client = await world.connect({ ca });
    assert.equal((await world.on(client)).status, 200);
    const silent = connect(port, host);
    await once(silent, 'connect');
    silent.resume();
    silent.on('error', () => undefined);
    const closed = once(silent, 'close');
    await within(world.daemon.app.drain(), 'the end of the daemon');
    await within(closed, 'the end of the silent socket');
    assert.equal(await within(client.gone(), 'the end of the connection'), undefined);
  });
});

async function sessionOf(
  world: TlsWorld,
  more: { readonly maxVersion?: 'TLSv1.2' | 'TLSv1.3' },
): Promise<Buffer> {
  await using client = await world.connect({ ca, ...more });
  assert.equal((await world.on(client)).status, 200);
  const session = secure(client).getSession();
  assert.ok(session);
  return session;
}
