/** The demo's origin, judged by NTLM clients of other people and by exact bytes. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, it } from 'node:test';
import { createNtlmContext } from '../../../src/auth/ntlm/context.ts';
import { startDemoOrigin, type DemoOrigin, type OriginMode } from '../../../src/demo/origin.ts';
import { createNtlmIdentity } from '../../../src/identity/identity.ts';
import {
  curlAvailability,
  curlNtlm,
  requestsNtlm,
  requestsNtlmAvailability,
} from '../../support/external-clients.ts';
import { ntHash } from '../../support/ntlm-acceptor.ts';
import { RawClient, type RawResponse } from '../../support/raw-client.ts';
import { event } from '../../support/waiting.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

const alice = { user: 'DEMO\\alice', password: 'a secret' } as const;

async function origin(mode: OriginMode): Promise<DemoOrigin & AsyncDisposable> {
  const passwords = { 'DEMO\\alice': alice.password, 'DEMO\\bob': 'another' };
  const running = await startDemoOrigin({ port: 0, mode, passwords });
  return { ...running, [Symbol.asyncDispose]: () => running.close() };
}

function url({ port }: { port: number }, path = '/x'): string {
  return `http://127.0.0.1:${port}${path}`;
}

function context(): ReturnType<typeof createNtlmContext> {
  const identity = createNtlmIdentity({
    principal: 'alice',
    username: alice.user,
    workstation: 'TEST',
    ntHash: ntHashSecret(ntHash(alice.password)),
  });
  return createNtlmContext({
    identity,
    spn: 'HTTP/127.0.0.1',
    bindings: undefined,
    wall: () => Date.now(),
    random: (length) => new Uint8Array(length).fill(7),
  });
}

function credentials(token: Uint8Array): Record<string, string> {
  return { Authorization: `NTLM ${Buffer.from(token).toString('base64')}` };
}

async function challenge(client: RawClient, token: Uint8Array): Promise<Buffer> {
  await client.request('GET /x', credentials(token));
  const answer = await client.response();
  assert.equal(answer.status, 401);
  return Buffer.from(answer.field('www-authenticate')?.slice('NTLM '.length) ?? '', 'base64');
}

/** Logs `client` in and returns the answer together with the last token. */
async function logIn(client: RawClient): Promise<{ answer: RawResponse; token: Uint8Array }> {
  const login = context();
  const type2 = await challenge(client, login.step());
  const token = login.step(type2);
  await client.request('GET /x', credentials(token));
  return { answer: await client.response(), token };
}

for (const mode of ['story', 'fast'] as const) {
  describe(`${mode} origin and curl --ntlm`, curlAvailability(), () => {
    it('lets a right password in', async () => {
      await using server = await origin(mode);
      const answer = await curlNtlm({ ...alice, url: url(server), times: 2 });
      assert.equal(answer.status, 200);
    });

    it('refuses a wrong password', async () => {
      await using server = await origin(mode);
      const answer = await curlNtlm({ ...alice, password: 'wrong', url: url(server) });
      assert.equal(answer.status, 401);
    });

    it('refuses the password of another account', async () => {
      await using server = await origin(mode);
      const answer = await curlNtlm({
        user: 'DEMO\\bob',
        password: alice.password,
        url: url(server),
      });
      assert.equal(answer.status, 401);
    });

    it('takes a body with the last leg', async () => {
      await using server = await origin(mode);
      const body = 'x'.repeat(70_000);
      const answer = await curlNtlm({ ...alice, url: url(server), method: 'POST', body });
      assert.equal(answer.status, 200);
    });
  });

  describe(`${mode} origin and requests-ntlm`, requestsNtlmAvailability(), () => {
    it('lets a right password in, with a MIC', async () => {
      await using server = await origin(mode);
      const answer = await requestsNtlm({ ...alice, url: url(server), times: 2 });
      assert.equal(answer.status, 200);
    });

    it('refuses a wrong password', async () => {
      await using server = await origin(mode);
      const answer = await requestsNtlm({ ...alice, password: 'wrong', url: url(server) });
      assert.equal(answer.status, 401);
    });
  });

  describe(`${mode} origin and exact bytes`, () => {
    it('the login belongs to the socket: others stay outside', async () => {
      await using server = await origin(mode);
      await using first = await RawClient.connect(server);
      await using second = await RawClient.connect(server);
      const { answer } = await logIn(first);
      assert.equal(answer.status, 200);
      await first.request('GET /x');
      assert.equal((await first.response()).status, 200);
      await second.request('GET /x');
      const refused = await second.response();
      assert.equal(refused.status, 401);
      assert.equal(refused.field('www-authenticate'), 'NTLM');
    });

    it('a token that logged in one socket is refused on another', async () => {
      await using server = await origin(mode);
      await using first = await RawClient.connect(server);
      await using second = await RawClient.connect(server);
      const { token } = await logIn(first);
      await challenge(second, context().step());
      await second.request('GET /x', credentials(token));
      assert.equal((await second.response()).status, 401);
      await second.request('GET /x', credentials(token));
      assert.equal((await second.response()).status, 401, 'nor without a challenge of its own');
    });

    it('a further token ends the login of the socket', async () => {
      await using server = await origin(mode);
      await using client = await RawClient.connect(server);
      await logIn(client);
      await client.request('POST /x', {
        Authorization: 'NTLM AAAA',
        'Content-Length': '0',
      });
      const status = (await client.response()).status;
      await client.request('GET /x');
      // The fast origin reads no Authorization once a socket is logged in.
      const wanted = mode === 'fast' ? [200, 200] : [401, 401];
      assert.deepEqual([status, (await client.response()).status], wanted);
    });

    it('a message with a broken MIC is refused', async () => {
      await using server = await origin(mode);
      await using client = await RawClient.connect(server);
      const login = context();
      const token = Buffer.from(login.step(await challenge(client, login.step())));
      token[72] = (token[72] ?? 0) ^ 1;
      await client.request('GET /x', credentials(token));
      assert.equal((await client.response()).status, 401);
    });

    it('a HEAD request is answered without a body at every stage', async () => {
      await using server = await origin(mode);
      await using client = await RawClient.connect(server);
      await client.request('HEAD /x');
      assert.equal((await client.response('HEAD')).status, 401);
      await logIn(client);
      await client.request('HEAD /x');
      assert.equal((await client.response('HEAD')).status, 200);
      await client.request('GET /x');
      assert.equal((await client.response()).status, 200);
    });
  });
}

describe('story origin', () => {
  it('says user, socket and the number of the request', async () => {
    await using server = await origin('story');
    await using client = await RawClient.connect(server);
    await logIn(client);
    await client.request('POST /y?z', { 'Content-Length': '3' }, 'abc');
    const answer = await client.response();
    assert.deepEqual(answer.json(), {
      user: 'DEMO\\alice',
      socket: 1,
      request: 2,
      method: 'POST',
      target: '/y?z',
      bodyBytes: 3,
    });
  });
});

describe('fast origin', () => {
  it('tells how often it has answered GET requests, of all connections, and does not count that', async () => {
    await using server = await origin('fast');
    await using one = await RawClient.connect(server);
    await using other = await RawClient.connect(server);
    const told = async (): Promise<string> => {
      await other.request('GET /answered');
      return String((await other.response()).body);
    };
    await logIn(one);
    await logIn(other);
    const before = Number(await told());
    for (const path of ['/tiny', '/16k']) {
      await one.request(`GET ${path}`);
      await one.response();
    }
    assert.equal(await told(), String(before + 2));
    assert.equal(await told(), String(before + 2));
  });

  it('answers by path, and pipelined requests in order, however the bytes are cut', async () => {
    await using server = await origin('fast');
    await using client = await RawClient.connect(server);
    await logIn(client);
    const heads = ['GET /tiny', 'GET /16k', 'GET /chunked', 'GET /headers']
      .map((line) => `${line} HTTP/1.1\r\nHost: x\r\n\r\n`)
      .join('');
    await client.send(
      `${heads}POST / HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\n12345`,
      'every-byte',
    );
    const answers: RawResponse[] = [];
    for (let count = 0; count < 5; count += 1) answers.push(await client.response());
    assert.deepEqual(
      answers.map(({ body }) => body.length),
      [13, 16384, 4096, 13, 2],
    );
    assert.equal(answers[3]?.fields.length, 50);
  });

  it('drops a head that does not end', async () => {
    await using server = await origin('fast');
    await using client = await RawClient.connect(server);
    await client.send(`GET / HTTP/1.1\r\nX: ${'x'.repeat(70_000)}`);
    await client.gone();
  });

  it('asks for no login with --auth off, as a process of its own', async () => {
    const program = new URL('../../../src/demo/origin.ts', import.meta.url).pathname;
    const child = spawn(process.execPath, [program, '--mode', 'fast', '--auth', 'off'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const line: unknown = JSON.parse(String(await event(child.stdout, 'data')));
      const { port } = line as { port: number };
      await using client = await RawClient.connect({ port });
      await client.request('GET /tiny');
      assert.equal((await client.response()).body.toString(), 'Hello, world!');
    } finally {
      const gone = event(child, 'exit');
      child.kill('SIGTERM');
      assert.equal(await gone, 0);
    }
  });
});
