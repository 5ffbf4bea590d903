/** Callers by the certificate of their connection: who they are, what it is worth, and for how long. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Authority, type IssuedCertificate } from '../support/authority.ts';
import type { RawClient, RawClientTls } from '../support/raw-client.ts';
import { temporaryFile } from '../support/temporary-folder.ts';
import { fieldValue } from '../support/strict-http.ts';
import { within } from '../support/waiting.ts';
import { TlsWorld } from './tls-world.ts';

const servers = new Authority('server authority');
const LOCAL = servers.issue('localhost', { names: 'DNS:localhost,DNS:second.example' });
const SECOND = servers.issue('second', { names: 'DNS:second.example' });
const callers = new Authority('caller authority');
const strangers = new Authority('caller authority');
const ALICE = callers.issue('alice', {
  subject: '/O=Lab/OU=Dev/CN=alice',
  names: 'URI:spiffe://lab/alice,DNS:alice.lab,email:alice@lab.test',
});
const BOB = callers.issue('bob', { subject: '/O=Lab/CN=bob', names: 'URI:spiffe://lab/bob' });
const MALLORY = strangers.issue('alice', { names: 'URI:spiffe://lab/alice' });

const entry = ({ certFile, keyFile }: IssuedCertificate): string =>
  `{ cert: ${certFile}, key: { file: ${keyFile} } }`;

const as = (
  who: IssuedCertificate | undefined,
  more: Partial<RawClientTls> = {},
): RawClientTls => ({
  ca: servers.ca,
  ...(who === undefined ? {} : { cert: who.cert, key: who.key }),
  ...more,
});

const mtls = (subject = 'san-uri', ca = callers.caFile): string =>
  `mtls: { ca: ${ca}, subject: ${subject} }`;

/** Callers are told to the upstream; alice and bob are themselves there. */
const BY_NAME = `principal:
    - { when: { client: mtls, subject: 'spiffe://lab/alice' }, use: alice }
    - { when: { client: mtls, subject: 'spiffe://lab/bob' }, use: bob }`;

const named = (clients: string, rules = BY_NAME, tls = entry(LOCAL)) => ({
  tls,
  scheme: 'ntlm' as const,
  listener: `clients: [${clients}]\n    ${rules.replaceAll('\n', '\n  ')}`,
});

const secure = ({ socket }: RawClient): TLSSocket => socket as TLSSocket;

describe('a caller with a certificate', () => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`R1 is who it says, by ${version}, and logged in as that`, async () => {
      await using world = await TlsWorld.start(named(mtls()));
      for (const [who, user] of [
        [ALICE, 'LAB\\alice'],
        [BOB, 'LAB\\bob'],
        [ALICE, 'LAB\\alice'],
      ] as const) {
        const answer = await world.ask(as(who, { maxVersion: version }));
        assert.deepEqual([answer.status, answer.field('X-User')], [200, user]);
      }
    });
  }

  test('gets no connection without one where there is no other way in', async () => {
    await using world = await TlsWorld.start(named(mtls()));
    for (const who of [undefined, MALLORY]) {
      await assert.rejects(world.ask(as(who, { maxVersion: 'TLSv1.2' })));
      await assert.rejects(world.ask(as(who)));
    }
    assert.equal(world.upstream.requests.length, 0);
  });

  test('is refused with one of another authority, whatever comes after it', async () => {
    const rules = `principal: [{ when: { client: mtls }, use: alice }, { when: { client: none }, use: bob }]`;
    await using world = await TlsWorld.start(named(`${mtls()}, none`, rules));
    const refused = await world.ask(as(MALLORY));
    assert.equal(refused.status, 401);
    assert.match(refused.field('Proxy-Status') ?? '', /details="caller-certificate-refused"/);
    assert.equal((await world.ask(as(undefined))).field('X-User'), 'LAB\\bob');
    assert.equal((await world.ask(as(BOB))).field('X-User'), 'LAB\\alice');
    const metrics = await world.daemon.metrics();
    const judged = (client: string, result: string): number =>
      metrics.sum('sidekerb_inbound_auth_total', { client, result });
    assert.deepEqual(
      [judged('mtls', 'refused'), judged('mtls', 'ok'), judged('none', 'ok')],
      [1, 1, 1],
    );
  });

  for (const [subject, name] of [
    ['san-uri', 'spiffe://lab/alice'],
    ['san-dns', 'alice.lab'],
    ['san-email', 'alice@lab.test'],
    ['cn', 'alice'],
  ] as const) {
    test(`is named by ${subject}, and the upstream is told`, async () => {
      await using world = await TlsWorld.start({
        tls: entry(LOCAL),
        listener: `clients: [${mtls(subject)}]`,
        routes: '{ upstream: origin, forwardIdentity: X-Caller }',
      });
      assert.equal((await world.ask(as(ALICE), { 'X-Caller': 'root' })).status, 200);
      assert.equal(fieldValue(world.upstream.requests[0]?.fields ?? [], 'X-Caller'), name);
    });
  }

  test('has to have exactly one name of the kind', async () => {
    await using world = await TlsWorld.start({
      tls: entry(LOCAL),
      listener: `clients: [${mtls('san-uri')}, none]`,
    });
    const two = callers.issue('two', { names: 'URI:spiffe://lab/alice,URI:spiffe://lab/root' });
    const none = callers.issue('none', { names: 'DNS:alice.lab' });
    assert.equal((await world.ask(as(two))).status, 401);
    assert.equal((await world.ask(as(none))).status, 401);
  });

  test('B1 has no name that would be another one elsewhere', async () => {
    await using world = await TlsWorld.start({
      tls: entry(LOCAL),
      listener: `clients: [${mtls('cn')}]`,
    });
    const odd = callers.issue('odd', { subject: '/CN=alice"root' });
    assert.equal((await world.ask(as(odd))).status, 403);
  });

  test('is mapped by the fields of his certificate', async () => {
    const rules = `principal:
    - { when: { client: mtls, certificate: { unit: 'D*', organization: Lab } }, use: alice }
    - { when: { client: mtls, certificate: { issuer: 'caller *', cn: bob } }, use: bob }`;
    await using world = await TlsWorld.start(named(mtls(), rules));
    assert.equal((await world.ask(as(ALICE))).field('X-User'), 'LAB\\alice');
    assert.equal((await world.ask(as(BOB))).field('X-User'), 'LAB\\bob');
    const carol = callers.issue('carol', {
      subject: '/O=Lab/CN=carol',
      names: 'URI:spiffe://lab/c',
    });
    assert.equal((await world.ask(as(carol))).status, 403);
  });
});

describe('R51 a ticket of a listener that asks for certificates', () => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`is worth nothing, by ${version}: at the same name, at another, and after a change`, async () => {
      const ca = temporaryFile('callers.pem', callers.ca);
      await using world = await TlsWorld.start(
        named(mtls('san-uri', ca), BY_NAME, `${entry(LOCAL)}, ${entry(SECOND)}`),
      );
      await using first = await world.connect(as(ALICE, { maxVersion: version }));
      assert.equal((await world.on(first)).field('X-User'), 'LAB\\alice');
      const session = secure(first).getSession();
      assert.ok(session);
      for (const servername of ['localhost', 'second.example']) {
        await using again = await world.connect(
          as(ALICE, { maxVersion: version, session, servername }),
        );
        assert.equal(secure(again).isSessionReused(), false);
        assert.equal((await world.on(again)).status, 200);
        // The ticket alone names nobody.
        await assert.rejects(
          world.ask(as(undefined, { maxVersion: version, session, servername })),
        );
      }
      writeFileSync(ca, strangers.ca);
      assert.equal((await world.daemon.reload()).result, 'ok');
      await assert.rejects(world.ask(as(ALICE, { maxVersion: version, session })));
      assert.equal((await world.ask(as(MALLORY, { maxVersion: version }))).status, 200);
    });
  }

  test('and a connection of before the change ends, without another request', async () => {
    const ca = temporaryFile('callers.pem', callers.ca);
    await using world = await TlsWorld.start(named(mtls('san-uri', ca)));
    await using client = await world.connect(as(ALICE));
    assert.equal((await world.on(client)).status, 200);
    writeFileSync(ca, strangers.ca);
    assert.equal((await world.daemon.reload()).result, 'ok');
    await within(client.gone(), 'the end of the connection');
  });

  test('nor is one of a listener that asks for none, once it asks', async () => {
    const ca = temporaryFile('callers.pem', callers.ca);
    await using world = await TlsWorld.start({ tls: entry(LOCAL), listener: 'clients: none' });
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      await using first = await world.connect(as(undefined, { maxVersion: version }));
      assert.equal((await world.on(first)).status, 200);
      const session = secure(first).getSession();
      assert.ok(session);
      const change = (text: string): string =>
        text.replace('clients: none', `clients: [{ ${mtls('san-uri', ca)} }, none]`);
      assert.equal((await world.daemon.reload(change)).result, 'ok');
      await using again = await world.connect(as(ALICE, { maxVersion: version, session }));
      assert.equal(secure(again).isSessionReused(), false);
      const back = (text: string): string => text.replace(/clients: \[.*\]/, 'clients: none');
      assert.equal((await world.daemon.reload(back)).result, 'ok');
    }
  });
});
