/** The oracles: each must be able to fail, and the central one must catch Node's own agent. */

import assert from 'node:assert/strict';
import { Agent, get } from 'node:http';
import { describe, it } from 'node:test';
import { logIn, testType1, testType3 } from '../../support/ntlm-client.ts';
import { RawClient } from '../../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../../support/scripted-upstream.ts';
import {
  assertCleanWire,
  assertLegsTogether,
  assertOneIdentityPerSocket,
  assertTokensUsedOnce,
} from '../../support/upstream-journal.ts';
import { within } from '../../support/waiting.ts';

const alice = { domain: 'LAB', user: 'alice', password: 'alice-secret' } as const;
const bob = { domain: 'LAB', user: 'bob', password: 'bob-secret' } as const;
const marked = (name: string): Record<string, string> => ({ 'X-Test-Principal': name });

/** A server whose client is the test itself: no oracle at the end. */
async function withoutOracle(): Promise<ScriptedUpstream & AsyncDisposable> {
  const upstream = await startScriptedUpstream();
  return Object.assign(upstream, { [Symbol.asyncDispose]: () => upstream.close() });
}

describe('assertOneIdentityPerSocket', () => {
  it('passes users on sockets of their own and an anonymous one', async () => {
    await using upstream = await startScriptedUpstream();
    await using first = await RawClient.connect(upstream);
    await using second = await RawClient.connect(upstream);
    await using third = await RawClient.connect(upstream);
    assert.equal((await logIn(first, alice, '/x', marked('alice'))).status, 200);
    assert.equal((await logIn(second, bob, '/x', marked('LAB\\bob'))).status, 200);
    await third.request('GET /x', marked('anonymous'));
    assert.equal((await third.response()).status, 401);
    assertOneIdentityPerSocket(upstream.journal);
  });

  it('fails a socket that two users logged in on', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await logIn(client, alice);
    await logIn(client, bob);
    assert.throws(() => assertOneIdentityPerSocket(upstream.journal), /socket 1: tokens of \[lab/);
  });

  it('fails a socket whose second login was refused', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await logIn(client, alice);
    await logIn(client, { ...bob, password: 'wrong' });
    assert.throws(() => assertOneIdentityPerSocket(upstream.journal), /lab\\alice, lab\\bob/);
  });

  it('fails a request of one user that was answered as another', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await logIn(client, alice, '/x', marked('alice'));
    await client.request('GET /y', marked('bob'));
    await client.response();
    assert.throws(
      () => assertOneIdentityPerSocket(upstream.journal),
      /GET \/y of bob was answered/,
    );
  });

  it('fails an anonymous request on a socket that only began a login', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await client.request('GET /x', { Authorization: `NTLM ${testType1()}` });
    await client.response();
    await client.request('GET /x', marked('anonymous'));
    await client.response();
    assert.throws(() => assertOneIdentityPerSocket(upstream.journal), /requests of \[anonymous\]/);
  });

  it("catches Node's agent, which lends alice's socket to bob", async () => {
    const upstream = await startScriptedUpstream();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = async (fields: Record<string, string>): Promise<string | undefined> => {
      const answered = Promise.withResolvers<string | undefined>();
      get(upstream.url, { agent, headers: fields }, (response) => {
        response.resume();
        response.on('end', () => answered.resolve(response.headers['www-authenticate']));
      }).on('error', answered.reject);
      return within(answered.promise, 'an answer');
    };
    const type2 = await ask({ ...marked('alice'), Authorization: `NTLM ${testType1()}` });
    const type3 = testType3(alice, type2?.slice('NTLM '.length) ?? '');
    await ask({ ...marked('alice'), Authorization: `NTLM ${type3}` });
    await ask(marked('bob'));
    agent.destroy();
    await assert.rejects(async () => upstream[Symbol.asyncDispose](), /identities mixed/);
  });
});

describe('assertTokensUsedOnce', () => {
  it('fails a token that is sent again, here on another socket', async () => {
    await using upstream = await withoutOracle();
    await using first = await RawClient.connect(upstream);
    await using second = await RawClient.connect(upstream);
    await first.request('GET /', { Authorization: `NTLM ${testType1()}` });
    const type2 = (await first.response()).field('www-authenticate')?.slice(5) ?? '';
    const authorization = { Authorization: `NTLM ${testType3(alice, type2)}` };
    await first.request('GET /', authorization);
    assert.equal((await first.response()).status, 200);
    assertTokensUsedOnce(upstream.journal);
    await second.request('GET /', authorization);
    assert.equal((await second.response()).status, 401);
    assert.throws(() => assertTokensUsedOnce(upstream.journal), /twice/);
  });

  it('fails a type 3 on a socket that has seen no type 2', async () => {
    await using upstream = await withoutOracle();
    await using first = await RawClient.connect(upstream);
    await using second = await RawClient.connect(upstream);
    await first.request('GET /', { Authorization: `NTLM ${testType1()}` });
    const type2 = (await first.response()).field('www-authenticate')?.slice(5) ?? '';
    await second.request('GET /', { Authorization: `NTLM ${testType3(alice, type2)}` });
    assert.equal((await second.response()).status, 401);
    assert.throws(() => assertTokensUsedOnce(upstream.journal), /without type 2 on sockets 2/);
  });
});

describe('assertLegsTogether', () => {
  it('passes a login and fails a request that comes between its legs', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await logIn(client, alice);
    assertLegsTogether(upstream.journal);
    await client.request('GET /', { Authorization: `NTLM ${testType1()}` });
    await client.response();
    await client.request('GET /between');
    await client.response();
    assert.throws(() => assertLegsTogether(upstream.journal), /socket 1: GET \/between/);
  });
});

describe('assertCleanWire', () => {
  const heads = {
    'a field line without a colon': 'GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n',
    'a NUL in a value': 'GET / HTTP/1.1\r\nHost: x\r\nX-Nul: a\0b\r\n\r\n',
    'a space before the colon': 'GET / HTTP/1.1\r\nHost : x\r\n\r\n',
    'a folded line': 'GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n',
    'a line without CR': 'GET / HTTP/1.1\nHost: x\n\n',
    'no Host': 'GET / HTTP/1.1\r\n\r\n',
    'Host twice': 'GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n',
    'two kinds of framing':
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'a chunk extension':
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n',
    'a signed length': 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx',
    'a request without a version': 'GET /\r\n\r\n',
  } as const;

  for (const [what, bytes] of Object.entries(heads)) {
    it(`fails ${what}`, async () => {
      const upstream = await startScriptedUpstream({ scheme: 'none' });
      await using client = await RawClient.connect(upstream);
      await client.send(bytes);
      assert.equal((await client.response()).status, 400);
      await assert.rejects(async () => upstream[Symbol.asyncDispose](), /unclean wire/);
    });
  }

  it('fails a request that is pipelined onto a socket with a login', async () => {
    await using upstream = await withoutOracle();
    await using client = await RawClient.connect(upstream);
    await logIn(client, alice);
    assertCleanWire(upstream.journal);
    await client.send('GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n');
    await client.response();
    await client.response();
    assert.throws(() => assertCleanWire(upstream.journal), /pipelined behind GET \/1/);
  });
});
