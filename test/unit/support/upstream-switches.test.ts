/** Every switch of the scripted upstream does what it says, seen through exact bytes. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { CERTIFICATE_KINDS, testCertificate } from '../../support/certificates.ts';
import { logIn, testType1, testType3 } from '../../support/ntlm-client.ts';
import { RawClient, type RawResponse } from '../../support/raw-client.ts';
import { MALFORMED, SHAPE_BODY, shapes } from '../../support/response-shapes.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../../support/scripted-upstream.ts';
import type { ScriptedUpstreamOptions } from '../../support/upstream-options.ts';
import { event, Gate, until } from '../../support/waiting.ts';

const alice = { domain: 'LAB', user: 'alice', password: 'alice-secret' } as const;

interface World extends AsyncDisposable {
  readonly upstream: ScriptedUpstream;
  readonly client: RawClient;
}

async function world(options: ScriptedUpstreamOptions = {}): Promise<World> {
  const upstream = await startScriptedUpstream(options);
  const tls = options.tls === undefined ? {} : { tls: { ca: options.tls.certificate.ca } };
  const client = await RawClient.connect({ port: upstream.port, ...tls });
  return {
    upstream,
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

async function sendType1(client: RawClient): Promise<RawResponse> {
  await client.request('GET /x', { Authorization: `NTLM ${testType1()}` });
  return client.response();
}

describe('login switches', () => {
  it('an open origin asks nobody', async () => {
    await using w = await world({ scheme: 'none' });
    const answer = await sendType1(w.client);
    assert.deepEqual([answer.status, answer.field('x-user')], [200, '']);
  });

  it('a Basic origin never offers NTLM', async () => {
    await using w = await world({ scheme: 'basic-only' });
    const answer = await sendType1(w.client);
    assert.deepEqual(answer.all('www-authenticate'), ['Basic realm="test"']);
  });

  it('binding request forgets the login with the answer', async () => {
    await using w = await world({ binding: 'request' });
    assert.equal((await logIn(w.client, alice)).status, 200);
    await w.client.request('GET /x');
    assert.equal((await w.client.response()).status, 401);
  });

  it('forgetAfter counts answers', async () => {
    await using w = await world({ forgetAfter: 2 });
    await logIn(w.client, alice);
    const statuses: number[] = [];
    for (let count = 0; count < 2; count += 1) {
      await w.client.request('GET /x');
      statuses.push((await w.client.response()).status);
    }
    assert.deepEqual(statuses, [200, 401]);
  });

  it('type1 ok answers without a login and leaves the socket anonymous', async () => {
    await using w = await world({ login: { type1: 'ok' } });
    assert.equal((await sendType1(w.client)).status, 200);
    await w.client.request('GET /x');
    assert.equal((await w.client.response()).status, 401);
  });

  for (const how of ['fin', 'reset'] as const) {
    it(`type1 ${how} ends the connection without an answer`, async () => {
      await using w = await world({ login: { type1: how } });
      await w.client.request('GET /x', { Authorization: `NTLM ${testType1()}` });
      if (how === 'fin') assert.equal((await w.client.untilEnd()).length, 0);
      else await assert.rejects(w.client.untilEnd(), { code: 'ECONNRESET' });
    });

    it(`type3 ${how} ends the connection without an answer`, async () => {
      await using w = await world({ login: { type3: how } });
      const type2 = (await sendType1(w.client)).field('www-authenticate')?.slice(5) ?? '';
      await w.client.request('GET /x', { Authorization: `NTLM ${testType3(alice, type2)}` });
      if (how === 'fin') assert.equal((await w.client.untilEnd()).length, 0);
      else await assert.rejects(w.client.untilEnd(), { code: 'ECONNRESET' });
    });
  }

  it('challenge-close says so on the first 401 and on the type 2', async () => {
    await using first = await world({ login: { first: 'challenge-close' } });
    await first.client.request('GET /x');
    assert.equal((await first.client.response()).field('connection'), 'close');
    assert.equal((await first.client.untilEnd()).length, 0);
    await using second = await world({ login: { type1: 'challenge-close' } });
    const answer = await sendType1(second.client);
    assert.match(answer.field('www-authenticate') ?? '', /^NTLM T/);
    assert.equal(answer.field('connection'), 'close');
  });

  it('challenge-fin closes without a word', async () => {
    await using w = await world({ login: { first: 'challenge-fin' } });
    await w.client.request('GET /x');
    assert.equal((await w.client.response()).field('connection'), undefined);
    assert.equal((await w.client.untilEnd()).length, 0);
  });

  it('type3 challenge answers every AUTHENTICATE with a fresh CHALLENGE', async () => {
    await using w = await world({ login: { type3: 'challenge' } });
    const answer = await logIn(w.client, alice);
    assert.equal(answer.status, 401);
    assert.match(answer.field('www-authenticate') ?? '', /^NTLM T/);
  });

  it('type3 bare refuses a right password', async () => {
    await using w = await world({ login: { type3: 'bare' } });
    assert.equal((await logIn(w.client, alice)).field('www-authenticate'), 'NTLM');
  });

  it('type1 and type3 may be chosen per socket and per claim', async () => {
    await using upstream = await startScriptedUpstream({
      login: {
        type1: (id) => (id === 1 ? 'fin' : 'challenge'),
        type3: (claim) => (claim?.user === 'bob' ? 'bare' : 'verify'),
      },
    });
    const statuses: number[] = [];
    await using first = await RawClient.connect(upstream);
    await first.request('GET /x', { Authorization: `NTLM ${testType1()}` });
    assert.equal((await first.untilEnd()).length, 0);
    for (const user of ['alice', 'bob']) {
      await using client = await RawClient.connect(upstream);
      const login = { domain: 'LAB', user, password: `${user}-secret` };
      statuses.push((await logIn(client, login)).status);
    }
    assert.deepEqual(statuses, [200, 401]);
    await upstream.saw(() => upstream.openSockets <= 1, 'closed sockets');
  });

  it('mutateType2 sends what it is told', async () => {
    await using w = await world({ login: { mutateType2: () => 'AAAA' } });
    assert.equal((await sendType1(w.client)).field('www-authenticate'), 'NTLM AAAA');
  });

  it('beforeAnswer holds a leg until it is let go', async () => {
    const gate = new Gate();
    await using w = await world({ login: { beforeAnswer: () => gate.pass() } });
    const answer = sendType1(w.client);
    await until(() => gate.arrivals === 1, 'the type 1 arrives');
    assert.equal(w.client.buffered, 0);
    gate.open();
    assert.equal((await answer).status, 401);
  });

  it('requireMic refuses a login without MIC', async () => {
    await using w = await world({ requireMic: true });
    assert.equal((await logIn(w.client, alice)).status, 401);
  });

  const denials = { 'bare-401': [401, 0], '401-challenge': [401, 1], '403': [403, 0] } as const;
  for (const [denial, [status, challenges]] of Object.entries(denials)) {
    it(`deny ${denial} refuses a logged in user`, async () => {
      await using w = await world({
        deny: ({ target }) => (target === '/no' ? (denial as keyof typeof denials) : undefined),
      });
      assert.equal((await logIn(w.client, alice)).status, 200);
      await w.client.request('GET /no');
      const answer = await w.client.response();
      assert.equal(answer.status, status);
      assert.equal(answer.all('www-authenticate').length, challenges);
    });
  }
});

describe('challenge switches', () => {
  const texts = {
    NTLM: /^NTLM \S+$/,
    ntlm: /^ntlm \S+$/,
    'negotiate-lines': /^Negotiate\nNTLM \S+$/,
    'basic-first-lines': /^Basic .*\nNegotiate\nNTLM \S+$/,
    'comma-list': /^Negotiate, NTLM [^\s,]+, Basic /,
    'basic-first-comma-list': /^Basic .* , ,NTLM [^\s,]+,Negotiate$/,
  } as const;
  for (const [text, pattern] of Object.entries(texts)) {
    it(`text ${text} is written that way, and a login through it works`, async () => {
      await using w = await world({ challengeText: text as keyof typeof texts });
      const lines = (await sendType1(w.client)).all('www-authenticate').join('\n');
      assert.match(lines, pattern);
      assert.equal((await logIn(w.client, alice)).status, 200);
    });
  }

  const bodies = [
    { kind: 'none' },
    { kind: 'counted', bytes: 100_000 },
    { kind: 'chunked', bytes: 100_000 },
    { kind: 'close', bytes: 100 },
  ] as const;
  for (const challengeBody of bodies) {
    it(`body ${challengeBody.kind} comes with the challenge`, async () => {
      await using w = await world({ challengeBody });
      await w.client.request('GET /x');
      const wanted = challengeBody.kind === 'none' ? 0 : challengeBody.bytes;
      assert.equal((await w.client.response()).body.length, wanted);
    });
  }

  it('an endless body goes on until the client leaves', async () => {
    await using w = await world({ challengeBody: { kind: 'endless' } });
    await w.client.request('GET /x');
    assert.equal((await w.client.head()).status, 401);
    assert.equal((await w.client.bytes(1 << 20)).length, 1 << 20);
  });

  it('a HEAD request gets the fields of the challenge body and no body', async () => {
    await using w = await world({ challengeBody: { kind: 'counted', bytes: 500 } });
    await w.client.request('HEAD /x');
    assert.equal((await w.client.response('HEAD')).field('content-length'), '500');
    assert.equal((await logIn(w.client, alice)).status, 200);
  });
});

describe('body switches', () => {
  it('the journal has length and digest of a counted and a chunked body', async () => {
    await using w = await world({ scheme: 'none' });
    await w.client.request('POST /a', { 'Content-Length': '3' }, 'abc');
    await w.client.response();
    await w.client.request('POST /b', { 'Transfer-Encoding': 'chunked' }, '3\r\nabc\r\n0\r\n\r\n');
    await w.client.response();
    const sha256 = createHash('sha256').update('abc').digest('hex');
    for (const request of w.upstream.requests) {
      assert.deepEqual(
        [request.bodyLength, request.bodySha256, request.bodyComplete],
        [3, sha256, true],
      );
    }
  });

  it('a body that is cut is recorded as incomplete', async () => {
    await using w = await world({ scheme: 'none' });
    await w.client.request('POST /a', { 'Content-Length': '5' }, 'abc');
    w.client.endWriting();
    await w.client.untilEnd();
    assert.deepEqual(
      w.upstream.requests.map(({ bodyLength, bodyComplete }) => [bodyLength, bodyComplete]),
      [[3, false]],
    );
  });

  it('refuseOnType1 answers 400 to a type 1 with a body', async () => {
    await using w = await world({ body: { refuseOnType1: true } });
    await w.client.request(
      'POST /',
      { Authorization: `NTLM ${testType1()}`, 'Content-Length': '1' },
      'x',
    );
    assert.equal((await w.client.response()).status, 400);
  });

  for (const afterEarly of ['drain', 'close'] as const) {
    it(`an early answer comes before the body; then ${afterEarly}`, async () => {
      await using w = await world({
        scheme: 'none',
        body: { early: () => ({ status: 413, body: 'large' }), afterEarly },
      });
      await w.client.request('POST /', { 'Content-Length': '10' });
      assert.equal((await w.client.response()).status, 413);
      if (afterEarly === 'close') {
        assert.equal((await w.client.untilEnd()).length, 0);
        return;
      }
      await w.client.send('0123456789');
      await w.client.request('GET /next', { 'Content-Length': '0' });
      assert.equal((await w.client.response()).status, 413);
    });
  }

  for (const afterEarly of ['drain', 'close'] as const) {
    it(`earlyChallenge sends the 401 before the body; then ${afterEarly}`, async () => {
      await using w = await world({ body: { earlyChallenge: true, afterEarly } });
      await w.client.request('POST /', {
        Authorization: `NTLM ${testType1()}`,
        'Content-Length': '4',
      });
      const answer = await w.client.response();
      assert.match(answer.field('www-authenticate') ?? '', /^NTLM T/);
      if (afterEarly === 'close') assert.equal((await w.client.untilEnd()).length, 0);
      else await w.client.send('body');
      if (afterEarly === 'drain') assert.equal((await logIn(w.client, alice)).status, 200);
    });
  }

  const expectations = [
    { expect: 'continue', status: 401, interim: 0 },
    { expect: 'continue-always', status: 401, interim: 1 },
    { expect: 'refuse-417', status: 417, interim: 0 },
    { expect: 'ignore', status: 401, interim: 0 },
  ] as const;
  for (const { expect, status, interim } of expectations) {
    it(`Expect with ${expect}: ${interim} times 100, then ${status}`, async () => {
      await using w = await world({ body: { expect } });
      await w.client.request('POST /', { Expect: '100-continue', 'Content-Length': '2' });
      if (expect === 'ignore' || interim > 0) await w.client.send('ok');
      const answer = await w.client.response();
      assert.deepEqual([answer.status, answer.interim.length], [status, interim]);
    });
  }

  it('pace stalls the reading of a body', async () => {
    const gate = new Gate();
    await using w = await world({ scheme: 'none', body: { pace: () => gate.pass() } });
    await w.client.request('POST /', { 'Content-Length': '2' }, 'ok');
    await until(() => gate.arrivals > 0, 'the body begins');
    assert.equal(w.client.buffered, 0);
    gate.open();
    assert.equal((await w.client.response()).status, 200);
  });

  it('a stalled body does not hold the end of the test', async () => {
    await using w = await world({
      scheme: 'none',
      body: { pace: () => new Promise(() => undefined) },
    });
    await w.client.request('POST /', { 'Content-Length': '2' }, 'o');
    await until(() => w.upstream.requests[0]?.bodyLength === 1, 'a byte of the body');
  });
});

describe('idle switches', () => {
  it('unsolicited bytes follow the answer they are set for', async () => {
    await using w = await world({
      scheme: 'none',
      idle: { unsolicited: { after: 1, bytes: 'boo' } },
    });
    await w.client.request('GET /x');
    await w.client.response();
    assert.equal((await w.client.bytes(3)).toString(), 'boo');
  });

  it('closeAfter closes silently', async () => {
    await using w = await world({ scheme: 'none', idle: { closeAfter: 1 } });
    await w.client.request('GET /x');
    assert.equal((await w.client.response()).field('connection'), undefined);
    assert.equal((await w.client.untilEnd()).length, 0);
  });

  it('drop ends sockets from outside', async () => {
    await using w = await world({ scheme: 'none' });
    await w.client.request('GET /x');
    await w.client.response();
    w.upstream.drop('reset');
    await assert.rejects(w.client.untilEnd(), { code: 'ECONNRESET' });
  });

  it('splitEveryByte changes nothing but the writes', async () => {
    await using w = await world({ scheme: 'none', splitEveryByte: true });
    await w.client.request('GET /x');
    assert.equal((await w.client.response()).status, 200);
  });
});

describe('TLS switches', () => {
  for (const kind of CERTIFICATE_KINDS.filter((name) => name !== 'rsa-sha1')) {
    it(`required channel bindings are compared with the ${kind} certificate`, async () => {
      const certificate = testCertificate({ kind });
      await using w = await world({ tls: { certificate, channelBinding: 'required' } });
      const bindings = certificate.endPoint ?? Buffer.from('tls-server-end-point:');
      const wanted = certificate.endPoint === undefined ? 401 : 200;
      assert.equal((await logIn(w.client, { ...alice, bindings })).status, wanted);
      assert.equal((await logIn(w.client, alice)).status, 401, 'none given');
      const wrong = Buffer.concat([bindings, Buffer.from([0])]);
      assert.equal((await logIn(w.client, { ...alice, bindings: wrong })).status, 401, 'wrong');
    });
  }

  it('accept lets a client without bindings in, and none with wrong ones', async () => {
    const certificate = testCertificate();
    await using w = await world({ tls: { certificate, channelBinding: 'accept' } });
    assert.equal((await logIn(w.client, alice)).status, 200);
    assert.equal((await logIn(w.client, { ...alice, bindings: Buffer.from('x') })).status, 401);
  });

  it('a new certificate counts for new connections', async () => {
    const [old, fresh] = [testCertificate(), testCertificate({ kind: 'ecdsa-sha384' })];
    await using upstream = await startScriptedUpstream({
      tls: { certificate: old, channelBinding: 'required' },
    });
    upstream.useCertificate(fresh);
    for (const [certificate, status] of [
      [fresh, 200],
      [old, 401],
    ] as const) {
      await using client = await RawClient.connect({
        port: upstream.port,
        tls: { ca: fresh.ca },
      });
      const bound = { ...alice, bindings: certificate.endPoint };
      assert.equal((await logIn(client, bound)).status, status);
    }
  });

  it('sessions are resumed by ticket, and the journal says so', async () => {
    const { ca, ...rest } = testCertificate();
    await using upstream = await startScriptedUpstream({
      scheme: 'none',
      tls: { certificate: { ca, ...rest } },
    });
    const dial = (session?: Buffer): TLSSocket =>
      connectTls({
        port: upstream.port,
        host: '127.0.0.1',
        servername: 'localhost',
        ca,
        ...(session === undefined ? {} : { session }),
      });
    const first = dial();
    const ticket = event(first, 'session');
    first.resume();
    const session = await ticket;
    assert.ok(Buffer.isBuffer(session));
    const second = dial(session);
    await event(second, 'secureConnect');
    await upstream.saw(({ sockets }) => sockets.length === 2, 'two sockets');
    first.destroy();
    second.destroy();
    assert.deepEqual(
      upstream.journal.sockets.map(({ resumed }) => resumed),
      [false, true],
    );
  });

  it('a client that takes h2 is seen and cut off', async () => {
    const certificate = testCertificate();
    await using upstream = await startScriptedUpstream({
      tls: { certificate, alpn: ['h2', 'http/1.1'] },
    });
    const tls = { ca: certificate.ca };
    await using client = await RawClient.connect({
      port: upstream.port,
      tls: { ...tls, alpn: ['h2'] },
    });
    await assert.rejects(client.untilEnd());
    await using good = await RawClient.connect({
      port: upstream.port,
      tls: { ...tls, alpn: ['http/1.1'] },
    });
    await good.request('GET /x');
    await good.response();
    assert.deepEqual(
      upstream.journal.sockets.map(({ alpn }) => alpn),
      ['h2', 'http/1.1'],
    );
  });
});

describe('response shapes', () => {
  it('each sound shape is read as it was meant', async () => {
    await using upstream = await startScriptedUpstream({ scheme: 'none', handler: shapes });
    const ask = async (path: string, method = 'GET'): Promise<RawResponse> => {
      await using client = await RawClient.connect(upstream);
      await client.request(`${method} ${path}`);
      return await client.response(method);
    };
    for (const path of [
      '/counted',
      '/chunked',
      '/trailers',
      '/close-delimited',
      '/close',
      '/http10',
      '/interim/100',
      '/interim/103',
      '/interim/many',
    ]) {
      assert.equal((await ask(path)).body.toString(), SHAPE_BODY, path);
    }
    assert.equal((await ask('/http10')).version, '1.0');
    assert.deepEqual((await ask('/trailers')).trailers[0], ['X-Checksum', 'abc']);
    assert.equal((await ask('/interim/many')).interim.length, 30);
    assert.equal((await ask('/no-content')).status, 204);
    assert.equal((await ask('/not-modified')).field('content-length'), '4500');
    assert.equal((await ask('/counted', 'HEAD')).body.length, 0);
    assert.equal((await ask('/redirect')).field('location'), 'http://localhost/base/landed?x=1');
    assert.equal((await ask('/cookie')).all('set-cookie').length, 2);
    assert.equal((await ask('/reason')).reason, 'My Reason');
  });

  it('malformed answers go out byte by byte as they stand', async () => {
    await using upstream = await startScriptedUpstream({ scheme: 'none', handler: shapes });
    for (const [name, raw] of Object.entries(MALFORMED)) {
      await using client = await RawClient.connect(upstream);
      await client.request(`GET /malformed/${name}`);
      assert.equal((await client.bytes(raw.length)).toString('latin1'), raw, name);
    }
  });

  it("a WebSocket of Node's own client is echoed, and closed from its side", async () => {
    await using upstream = await startScriptedUpstream({ scheme: 'none', handler: shapes });
    const socket = new WebSocket(`ws://127.0.0.1:${upstream.port}/websocket`);
    const closed = Promise.withResolvers<number>();
    const echoed = Promise.withResolvers<unknown>();
    socket.addEventListener('open', () => socket.send('x'.repeat(70_000)));
    socket.addEventListener('message', ({ data }) => {
      echoed.resolve(data);
      socket.close(1000);
    });
    socket.addEventListener('close', ({ code }) => closed.resolve(code));
    socket.addEventListener('error', () => echoed.reject(new Error('the WebSocket failed')));
    assert.equal(String(await echoed.promise).length, 70_000);
    assert.equal(await closed.promise, 1000);
  });
});
