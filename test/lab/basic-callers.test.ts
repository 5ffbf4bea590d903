/** Callers who bring their own user name and password, logged in by Kerberos and NTLM at real servers. */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { kdcFile } from './kdc.ts';
import { useKerberosLab } from './kerberos-world.ts';
import type { LabFacts } from './lab.ts';

interface Answer {
  readonly status: number;
  readonly user: string;
  /** Port of the upstream socket. */
  readonly port: string;
  readonly challenge: string | undefined;
  readonly reason: string;
}

/** One request as `who`, `user:password`. */
function ask(
  daemon: TestDaemon,
  path: string,
  who: string | undefined,
  agent?: Agent,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const sent = request(
    {
      host: '127.0.0.1',
      port: daemon.address().port,
      path,
      ...(who === undefined ? {} : { auth: who }),
      ...(agent === undefined ? {} : { agent }),
    },
    (response) => {
      const field = (name: string): string => String(response.headers[name] ?? '');
      response.resume();
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          user: field('x-lab-user'),
          port: field('x-lab-port'),
          challenge: response.headers['www-authenticate'],
          reason: /details="([^"]+)"/.exec(field('proxy-status'))?.[1] ?? '',
        }),
      );
    },
  );
  sent.on('error', reject);
  sent.end();
  return promise;
}

const startGateway = (lab: LabFacts): Promise<TestDaemon> => {
  const { ports } = lab;
  const krb5Conf = kdcFile.krb5Conf(join(lab.folder, 'kdc'));
  return startDaemon({
    config: `version: 1
admin: { listen: 127.0.0.1:0 }
kerberos: { config: '${krb5Conf}' }
principals: { caller: { from: client } }
upstreams:
  request: { url: 'http://localhost:${ports.apacheNegotiate}', auth: { schemes: [negotiate] } }
  bound: { url: 'http://localhost:${ports.apacheNegotiateBound}', auth: { schemes: [negotiate] } }
  mixed: { url: 'http://localhost:${ports.apacheMixed}' , auth: { schemes: [negotiate, ntlm] } }
listeners:
  - name: gateway
    listen: 127.0.0.1:0
    clients: [basic: { pass: true, realm: LAB }]
    principal: [{ when: { client: basic }, use: caller }]
    routes:
      - { path: /request/, upstream: request, stripPrefix: true }
      - { path: /bound/, upstream: bound, stripPrefix: true }
      - { path: /mixed/, upstream: mixed, stripPrefix: true }
`,
  });
};

suite('a Basic caller', () => {
  for (const path of ['/request/echo', '/bound/echo', '/mixed/echo']) {
    test(`${path}: alice is alice by Kerberos; with a wrong password right after, she is refused`, async (t) => {
      const lab = await useKerberosLab(t);
      if (lab === undefined) return;
      await using daemon = await startGateway(lab);
      const right = await ask(daemon, path, 'alice:alicepw');
      assert.deepEqual([right.status, right.user], [200, 'alice@LAB.TEST'], right.reason);
      const wrong = await ask(daemon, path, 'alice:alicePW');
      assert.equal(wrong.status, 401);
      assert.equal(wrong.challenge, 'Basic realm="LAB", charset="UTF-8"');
      assert.equal(wrong.reason, 'credential-rejected');
      const bob = await ask(daemon, path, 'bob:bobpw');
      assert.deepEqual([bob.status, bob.user], [200, 'bob@LAB.TEST'], bob.reason);
      const again = await ask(daemon, path, 'alice:alicepw');
      assert.deepEqual([again.status, again.user], [200, 'alice@LAB.TEST'], again.reason);
    });
  }

  test('is one and the same by any spelling of the realm, and NTLM with a domain', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startGateway(lab);
    for (const name of ['alice', 'alice@LAB.TEST', 'alice@lab.test']) {
      const { status, user, reason } = await ask(daemon, '/mixed/echo', `${name}:alicepw`);
      assert.deepEqual([status, user], [200, 'alice@LAB.TEST'], `${name}: ${reason}`);
    }
    const domain = await ask(daemon, '/mixed/echo', 'LAB\\alice:alicepw');
    assert.equal(domain.status, 200, domain.reason);
    assert.match(domain.user, /^LAB\\alice$/i);
  });

  test('alice right, alice wrong and bob, 30 in flight: everybody is who he is, or refused', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startGateway(lab);
    assert.equal((await ask(daemon, '/request/echo', 'alice:alicepw')).status, 200);
    const agent = new Agent({ keepAlive: true, maxSockets: 30 });
    const seen = { alice: new Set<string>(), bob: new Set<string>(), wrong: new Set<string>() };
    const sockets = { alice: new Set<string>(), bob: new Set<string>() };
    let asked = 0;
    const work = async (): Promise<void> => {
      while (asked < 600) {
        asked += 1;
        const path = asked % 2 === 0 ? '/request/echo' : '/bound/echo';
        const who = (['alice', 'bob', 'wrong'] as const)[asked % 3] ?? 'wrong';
        const secret = { alice: 'alice:alicepw', bob: 'bob:bobpw', wrong: 'alice:guess' }[who];
        const answer = await ask(daemon, path, secret, agent);
        seen[who].add(`${answer.status} ${answer.user}`);
        if (who !== 'wrong') sockets[who].add(answer.port);
      }
    };
    await Promise.all(Array.from({ length: 30 }, work));
    agent.destroy();
    assert.deepEqual([...seen.alice], ['200 alice@LAB.TEST']);
    assert.deepEqual([...seen.bob], ['200 bob@LAB.TEST']);
    assert.deepEqual([...seen.wrong].toSorted(), ['401 ', '503 ']);
    assert.deepEqual([...sockets.alice.intersection(sockets.bob)], []);
  });

  test('is counted by the guard for what the KDC refuses', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using daemon = await startGateway(lab);
    assert.equal((await ask(daemon, '/request/echo', 'bob:bobpw')).status, 200);
    const statuses: number[] = [];
    for (const name of ['bob', 'BOB', 'bob@lab.test', 'bob', 'bob']) {
      statuses.push(
        (await ask(daemon, '/request/echo', `${name}:guess-${statuses.length}`)).status,
      );
    }
    assert.deepEqual(statuses, [401, 401, 401, 503, 503]);
    const right = await ask(daemon, '/request/echo', 'bob:bobpw');
    assert.deepEqual([right.status, right.user], [200, 'bob@LAB.TEST'], right.reason);
  });
});
