/** Callers who bring Kerberos tickets to the listener, judged by a real KDC's keys (hostile rows A11 to A20). */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decodeNegToken, encodeNegTokenInit, OID } from '../../src/auth/spnego/tokens.ts';
import type { RawResponse } from '../support/raw-client.ts';
import { within } from '../support/waiting.ts';
import { labCurl, ticketsOf } from './lab-curl.ts';
import {
  negotiate,
  NegotiateWorld,
  OTHER_SPN,
  proofIn,
  type User,
  userIn,
} from './negotiate-world.ts';
import { startSkewedKdc } from './skewed-kdc.ts';

/** The Kerberos token in a SPNEGO token. */
function innerToken(token: Uint8Array): Uint8Array {
  const offer = decodeNegToken(token);
  assert.ok(offer.kind === 'init' && offer.mechToken !== undefined);
  return offer.mechToken;
}

/** What a caller sees of a refusal, without the time. */
const seen = ({ status, fields, body }: RawResponse): string =>
  JSON.stringify([status, fields.filter(([name]) => name.toLowerCase() !== 'date'), String(body)]);

const metric = async (world: NegotiateWorld, result: string): Promise<number> =>
  (await world.daemon.metrics()).sum('sidekerb_inbound_auth_total', {
    client: 'negotiate',
    result,
  });

suite('a caller with a ticket', () => {
  test('is asked by 401, is who the ticket says, and gets proof of the gateway', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const asked = await world.ask(undefined);
    assert.deepEqual([asked.status, asked.all('WWW-Authenticate')], [401, ['Negotiate']]);
    for (const user of ['alice', 'bob'] as const) {
      const initiation = await world.initiate(user);
      const answer = await world.ask(initiation.token);
      assert.equal(userIn(answer), `200 lab\\${user}`);
      await initiation.finish(proofIn(answer));
      assert.equal(answer.field('Persistent-Auth'), 'false');
    }
    assert.deepEqual([await metric(world, 'ok'), await metric(world, 'refused')], [2, 1]);
  });

  test('is alice or bob with curl, each by the own tickets', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const url = `http://localhost:${world.daemon.address().port}/echo`;
    for (const user of ['alice', 'bob'] as const) {
      const options = ['--negotiate', '-u', ':'];
      const answers = await labCurl([url, url, url], options, ticketsOf(world.lab, user));
      const users = answers.map((one) => `${one.status} ${one.user.toLowerCase()}`);
      assert.deepEqual(users, Array(3).fill(`200 lab\\${user}`));
    }
  });

  test('may send the bare Kerberos token, and list mechanisms as Windows does', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const bare = await world.ask(innerToken(await world.token('alice')));
    assert.equal(userIn(bare), '200 lab\\alice');
    assert.equal(proofIn(bare)[0], 0x60);
    const listed = encodeNegTokenInit({
      mechTypes: [OID.MS_KRB5, OID.KRB5, OID.NEGOEX, OID.NTLM],
      mechToken: innerToken(await world.token('bob')),
    });
    const answer = await world.ask(listed);
    assert.equal(userIn(answer), '200 lab\\bob');
    const proof = decodeNegToken(proofIn(answer));
    assert.ok(proof.kind === 'resp' && proof.state === 'accept-completed');
  });

  test('gets the proof whatever the answer is, beside what the origin asks', async (t) => {
    await using world = await NegotiateWorld.start(t, {
      listener: `routes:
      - { path: /open/, upstream: open, stripPrefix: true }
      - { path: /asks/, upstream: request, stripPrefix: true }
      - { path: /away/, upstream: away }
      - { path: /slash/, upstream: open }`,
    });
    if (world === undefined) return;
    for (const [path, status] of [
      ['/open/echo', 200],
      ['/open/nothing', 404],
      // The origin's own challenge of a connection login does not pass; ours is the only one.
      ['/asks/echo', 401],
      ['/away/x', 502],
      ['/slash', 308],
      ['/nowhere', 404],
    ] as const) {
      const initiation = await world.initiate('alice');
      const answer = await world.daemon.ask(`GET ${path}`, negotiate(initiation.token));
      assert.equal(answer.status, status, path);
      await initiation.finish(proofIn(answer));
      assert.equal(answer.all('WWW-Authenticate').length, 1, path);
    }
  });

  test('with curl gives up at an origin that asks for more', async (t) => {
    await using world = await NegotiateWorld.start(t, {
      listener: 'routes: [{ upstream: request }]',
    });
    if (world === undefined) return;
    const url = `http://localhost:${world.daemon.address().port}/echo`;
    const [answer] = await labCurl([url], ['--negotiate', '-u', ':'], ticketsOf(world.lab, 'bob'));
    assert.equal(answer?.status, 401);
    // The origin was asked once for each token that the gateway took.
    const asked = await metric(world, 'ok');
    assert.ok(asked >= 1 && asked <= 2, String(asked));
  });

  test('2,000 requests of alice and bob in any order on shared connections: none as the other', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const { lab, daemon } = world;
    assert.ok(lab.ports.apacheNtlm > 0);
    const found = new Map<string, number>();
    const work = async (share: number): Promise<void> => {
      await using client = await daemon.connect();
      for (let i = 0; i < share; i += 1) {
        const user: User = Math.random() < 0.5 ? 'alice' : 'bob';
        const initiation = await world.initiate(user);
        const answer = await world.ask(initiation.token, client);
        await initiation.finish(proofIn(answer));
        const key = `${user}: ${userIn(answer)}`;
        found.set(key, (found.get(key) ?? 0) + 1);
      }
    };
    await within(Promise.all(Array.from({ length: 8 }, () => work(250))), 'all answers', 60_000);
    assert.deepEqual([...found.keys()].toSorted(), ['alice: 200 lab\\alice', 'bob: 200 lab\\bob']);
    assert.equal(
      [...found.values()].reduce((sum, count) => sum + count, 0),
      2000,
    );
  });
});

suite('a token that is refused', () => {
  test('A17 was seen before: by the same helper, its successor, or another configuration', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const token = await world.token('alice');
    await using client = await world.daemon.connect();
    assert.equal(userIn(await world.ask(token, client)), '200 lab\\alice');
    // On the same connection the same bytes are no memory either.
    assert.equal((await world.ask(token, client)).status, 401);
    assert.equal((await world.ask(token)).status, 401);
    await world.daemon.logged(/"spn":"HTTP\/localhost","reason":"[^"]*Request is a replay/);
    world.killHelpers();
    await world.daemon.logged(/an acceptor helper ended by itself/);
    assert.equal((await world.ask(token)).status, 401);
    await world.daemon.reload((text) =>
      text.replace(
        'spn: HTTP/localhost',
        'spn: HTTP/localhost, persist: connection, directClients: true',
      ),
    );
    assert.equal((await world.ask(token)).status, 401);
    assert.equal(userIn(await world.ask(await world.token('alice'))), '200 lab\\alice');
    const metrics = await world.daemon.metrics();
    assert.equal(metrics.sum('sidekerb_kerberos_helper_restarts_total'), 1);
  });

  test('R32 among many copies at once, one is let in', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const token = await world.token('bob');
    const answers = await Promise.all(Array.from({ length: 12 }, () => world.ask(token)));
    const count = (wanted: number): number =>
      answers.filter(({ status }) => status === wanted).length;
    assert.deepEqual([count(200), count(401)], [1, 11]);
  });

  test('A11, A12, A17 to A19 whatever is wrong with it, the answer is the same', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const good = await world.token('alice');
    const inner = innerToken(good);
    const base64 = good.toString('base64');
    const damaged = Buffer.from(good);
    damaged.writeUInt8((damaged.at(-40) ?? 0) ^ 1, damaged.length - 40);
    const ntlm = Buffer.from('4e544c4d5353500001000000978208e2', 'hex');
    const of = (mechTypes: readonly string[], mechToken?: Uint8Array): string =>
      encodeNegTokenInit({ mechTypes, mechToken }).toString('base64');
    const wrong: Readonly<Record<string, string>> = {
      'of another name of the keytab': (await world.token('alice', OTHER_SPN)).toString('base64'),
      damaged: damaged.toString('base64'),
      'cut off': good.subarray(0, -1).toString('base64'),
      'with bytes behind it': Buffer.concat([good, Buffer.alloc(1)]).toString('base64'),
      'without padding': good
        .subarray(0, good.length - ((good.length + 2) % 3))
        .toString('base64url'),
      'in the alphabet of URLs': base64.replaceAll('+', '-').replaceAll('/', '_').concat('--=='),
      'with a space': `${base64.slice(0, 8)} ${base64.slice(8)}`,
      'only padding': '====',
      nothing: '',
      garbage: 'AAAA',
      'raw NTLM': ntlm.toString('base64'),
      'NTLM in SPNEGO': of([OID.NTLM], ntlm),
      'Kerberos behind NTLM': of([OID.NTLM, OID.KRB5], inner),
      'Kerberos without a token': of([OID.KRB5]),
      'an NTLM token as Kerberos': of([OID.KRB5], ntlm),
      'NEGOEX first': of([OID.NEGOEX, OID.KRB5], inner),
      'too large': Buffer.alloc(45 * 1024, 1).toString('base64'),
    };
    const answers = new Set<string>();
    for (const [name, text] of Object.entries(wrong)) {
      const answer = await world.daemon.ask('GET /echo', { Authorization: `Negotiate ${text}` });
      assert.deepEqual([answer.status, answer.all('WWW-Authenticate')], [401, ['Negotiate']], name);
      answers.add(seen(answer));
    }
    assert.equal(answers.size, 1);
    // None of them has spent the token.
    assert.equal(userIn(await world.ask(good)), '200 lab\\alice');
  });

  test('A10 A20 is a malformed request where a field has two, and there are two fields', async (t) => {
    await using world = await NegotiateWorld.start(t);
    if (world === undefined) return;
    const { daemon } = world;
    const text = (await world.token('alice')).toString('base64');
    const ask = (fields: Readonly<Record<string, string>>): Promise<RawResponse> =>
      daemon.ask('GET /echo', fields);
    assert.equal((await ask({ Authorization: `Negotiate ${text}, Basic eDp5` })).status, 400);
    const two = { Authorization: `Negotiate ${text}`, authorization: `Negotiate ${text}` };
    assert.equal((await ask(two)).status, 400);
    const huge = Buffer.alloc(60 * 1024, 1).toString('base64');
    assert.equal((await ask({ Authorization: `Negotiate ${huge}` })).status, 431);
  });

  for (const [name, offset, reason] of [
    ['from a clock ahead', '+2h', /Clock skew too great|not yet valid/],
    ['expired', '-13h', /expired|Clock skew too great/],
  ] as const) {
    test(`A17 is ${name}`, async (t) => {
      await using world = await NegotiateWorld.start(t);
      if (world === undefined) return;
      await using kdc = await startSkewedKdc(world.lab, offset);
      const tickets = { ...ticketsOf(world.lab, 'alice'), KRB5_CONFIG: kdc.following };
      const url = `http://localhost:${world.daemon.address().port}/echo`;
      const [answer] = await labCurl([url], ['--negotiate', '-u', ':'], tickets);
      assert.equal(answer?.status, 401);
      await world.daemon.logged(reason);
    });
  }
});

suite('a ticket for a connection', () => {
  const client = ', persist: connection, directClients: true';

  test('names the caller until another one comes, and none after a wrong one', async (t) => {
    await using world = await NegotiateWorld.start(t, { client });
    if (world === undefined) return;
    await using connection = await world.daemon.connect();
    const ask = async (token?: Uint8Array): Promise<string> =>
      userIn(await world.ask(token, connection));
    const initiation = await world.initiate('alice');
    const first = await world.ask(initiation.token, connection);
    assert.deepEqual([userIn(first), first.field('Persistent-Auth')], ['200 lab\\alice', 'true']);
    await initiation.finish(proofIn(first));
    assert.deepEqual([await ask(), await ask()], Array(2).fill('200 lab\\alice'));
    assert.equal(await ask(await world.token('bob')), '200 lab\\bob');
    assert.equal(await ask(), '200 lab\\bob');
    assert.equal((await world.ask(undefined)).status, 401);
    assert.equal(await ask(Buffer.from('no token')), '401 ');
  });

  test('ends with the configuration that took it, and not with an equal one', async (t) => {
    await using world = await NegotiateWorld.start(t, { client });
    if (world === undefined) return;
    await using connection = await world.daemon.connect();
    assert.equal(userIn(await world.ask(await world.token('alice'), connection)), '200 lab\\alice');
    await world.daemon.reload();
    assert.equal(userIn(await world.ask(undefined, connection)), '200 lab\\alice');
    await world.daemon.reload((text) => text.replace('spn: HTTP/localhost', 'spn: HTTP/127.0.0.1'));
    assert.equal((await world.ask(undefined, connection)).status, 401);
  });

  test('is what curl makes of it: three requests by one token', async (t) => {
    await using world = await NegotiateWorld.start(t, { client });
    if (world === undefined) return;
    const url = `http://localhost:${world.daemon.address().port}/echo`;
    const options = ['--negotiate', '-u', ':'];
    const answers = await labCurl([url, url, url], options, ticketsOf(world.lab, 'bob'));
    assert.deepEqual(
      answers.map(({ status, connections }) => [status, connections]),
      [
        [200, 1],
        [200, 0],
        [200, 0],
      ],
    );
  });
});

suite('a caller of a forward listener', () => {
  const listener = `mode: forward
    allow: ['127.0.0.0/8:*']
    direct: [localhost, 127.0.0.1]`;

  test('is asked by 407, and let through with a ticket, also to a tunnel', async (t) => {
    await using world = await NegotiateWorld.start(t, { listener });
    if (world === undefined) return;
    const { daemon, lab } = world;
    const host = `localhost:${lab.ports.apacheOpen}`;
    const line = `GET http://${host}/echo`;
    const asked = await daemon.ask(line, { Host: host });
    assert.deepEqual([asked.status, asked.all('Proxy-Authenticate')], [407, ['Negotiate']]);
    const initiation = await world.initiate('alice');
    const fields = { Host: host, ...negotiate(initiation.token, 'Proxy-Authorization') };
    const answer = await daemon.ask(line, fields);
    assert.equal(answer.status, 200);
    await initiation.finish(proofIn(answer, 'Proxy-Authenticate'));
    assert.equal((await daemon.ask(line, fields)).status, 407);
    const tunnel = await world.initiate('bob');
    await using client = await daemon.connect();
    const proof = { Host: host, ...negotiate(tunnel.token, 'Proxy-Authorization') };
    await client.request(`CONNECT ${host}`, proof);
    const opened = await client.head();
    assert.equal(opened.status, 200);
    const [, text = ''] = opened.fields.find(([name]) => name === 'Proxy-Authenticate') ?? [];
    await tunnel.finish(Buffer.from(text.replace('Negotiate ', ''), 'base64'));
  });

  test('is let through with curl', async (t) => {
    await using world = await NegotiateWorld.start(t, { listener });
    if (world === undefined) return;
    const proxy = `http://localhost:${world.daemon.address().port}`;
    const url = `http://localhost:${world.lab.ports.apacheOpen}/echo`;
    const options = ['-x', proxy, '--proxy-negotiate', '--proxy-user', ':'];
    for (const more of [[], ['--proxytunnel']]) {
      const all = [...options, ...more];
      const answers = await labCurl([url, url], all, ticketsOf(world.lab, 'alice'));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200],
      );
    }
  });
});
