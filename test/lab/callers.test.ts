/** Callers of three kinds, mapped to principals at an NTLM and at Kerberos upstreams of a real server. */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { hashSync } from 'bcryptjs';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { startJwksServer } from '../support/jwks-server.ts';
import { goodClaims, ISSUER, jwks, signingKey, signToken } from '../support/tokens.ts';
import { LAB_USERS } from './components.ts';
import { kdcFile } from './kdc.ts';
import { useKerberosLab } from './kerberos-world.ts';
import type { LabFacts } from './lab.ts';

type Fields = Readonly<Record<string, string>>;

interface Answer {
  readonly status: number;
  readonly user: string;
}

interface Question {
  readonly path: string;
  readonly fields: Fields;
  readonly status: number;
  /** As the upstream must name him; empty where nobody may get there. */
  readonly user: string;
}

function ask(daemon: TestDaemon, { path, fields }: Question, agent: Agent): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const { port } = daemon.address();
  const sent = request({ host: '127.0.0.1', port, path, headers: fields, agent }, (response) => {
    response.resume();
    response.on('error', reject);
    response.on('end', () => {
      const user = String(response.headers['x-lab-user'] ?? '');
      resolve({ status: response.statusCode ?? 0, user });
    });
  });
  sent.on('error', reject);
  sent.end();
  return promise;
}

/** How many people of each kind are mapped to each of the two principals. */
const PEOPLE = 6;
const personOf = (kind: string, index: number): string => `${kind}-${index}`;
const principalOf = (index: number): 'alice' | 'bob' => (index % 2 === 0 ? 'alice' : 'bob');

const passwordOf = (user: string): string => `gate of ${user}`;

const basic = (user: string, password: string): Fields => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

const rules = (): string =>
  ['jwt', 'basic', 'header']
    .flatMap((kind) =>
      Array.from({ length: PEOPLE }, (_, index) => {
        const when = `client: ${kind}, subject: ${personOf(kind, index)}`;
        const claim = kind === 'jwt' ? `, claim: { groups: lab }` : '';
        return `{ when: { ${when}${claim} }, use: ${principalOf(index)} }`;
      }),
    )
    .join('\n      - ');

const startGateway = (lab: LabFacts, keys: string, users: string): Promise<TestDaemon> => {
  const { ports } = lab;
  const krb5Conf = kdcFile.krb5Conf(join(lab.folder, 'kdc'));
  return startDaemon({
    config: `version: 1
admin: { listen: 127.0.0.1:0 }
kerberos: { config: '${krb5Conf}' }
principals:
  alice: { username: 'LAB\\alice', kerberos: alice@LAB.TEST, password: { env: ALICE } }
  bob: { username: 'LAB\\bob', kerberos: bob@LAB.TEST, password: { env: BOB } }
upstreams:
  ntlm: { url: 'http://localhost:${ports.apacheMixed}', auth: { schemes: [ntlm] } }
  request: { url: 'http://localhost:${ports.apacheNegotiate}', auth: { schemes: [negotiate] } }
  bound: { url: 'http://localhost:${ports.apacheNegotiateBound}', auth: { schemes: [negotiate] } }
listeners:
  - name: gateway
    listen: 127.0.0.1:0
    clients:
      - jwt: { issuer: '${ISSUER}', audience: api, jwks: '${keys}' }
      - basic: { users: { env: USERS } }
      - header: { name: X-Remote-User, from: 127.0.0.1 }
    principal:
      - ${rules()}
    routes:
      - { path: /ntlm/, upstream: ntlm, stripPrefix: true }
      - { path: /request/, upstream: request, stripPrefix: true }
      - { path: /bound/, upstream: bound, stripPrefix: true }
`,
    secrets: { ALICE: LAB_USERS.alice, BOB: LAB_USERS.bob, USERS: users },
  });
};

/** Everything that is asked: people of all kinds at all upstreams, and those who must not get there. */
function questions(): Question[] {
  const key = signingKey({ algorithm: 'RS256' });
  const token = (claims: Record<string, unknown>, signer = key): Fields => ({
    authorization: `Bearer ${signToken(signer, goodClaims(Date.now(), { groups: ['x', 'lab'], ...claims }))}`,
  });
  const fieldsOf = (kind: string, user: string): Fields => {
    if (kind === 'jwt') return token({ sub: user });
    return kind === 'basic' ? basic(user, passwordOf(user)) : { 'x-remote-user': user };
  };
  const nameAt = (path: string, user: string): string =>
    path === '/ntlm/echo' ? `LAB\\${user}` : `${user}@LAB.TEST`;
  const paths = ['/ntlm/echo', '/request/echo', '/bound/echo'];
  const all: Question[] = [];
  for (const path of paths) {
    for (const kind of ['jwt', 'basic', 'header']) {
      for (let index = 0; index < PEOPLE; index += 1) {
        const user = nameAt(path, principalOf(index));
        all.push({ path, fields: fieldsOf(kind, personOf(kind, index)), status: 200, user });
      }
    }
    const nobody = { path, user: '' };
    const first = personOf('jwt', 0);
    all.push(
      { ...nobody, fields: fieldsOf('header', 'stranger'), status: 403 },
      { ...nobody, fields: token({ sub: first, groups: 'other' }), status: 403 },
      { ...nobody, fields: token({ sub: first, exp: 1 }), status: 401 },
      { ...nobody, fields: token({ sub: first, aud: 'other' }), status: 401 },
      {
        ...nobody,
        fields: token({ sub: first }, signingKey({ algorithm: 'RS256', nth: 1 })),
        status: 401,
      },
      { ...nobody, fields: basic(personOf('basic', 0), passwordOf('basic-1')), status: 401 },
    );
  }
  return all;
}

/** A generator of numbers below `limit`, the same in each run. */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

suite('a gateway for many', () => {
  test('R1 R53 three kinds of caller, 5,000 requests at random on shared connections: 0 wrong', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using idp = await startJwksServer(jwks(signingKey({ algorithm: 'RS256' })));
    const people = Array.from({ length: PEOPLE }, (_, index) => personOf('basic', index));
    const users = people.map((user) => `${user}:${hashSync(passwordOf(user), 4)}`).join('\n');
    await using daemon = await startGateway(lab, idp.url.href, users);
    await daemon.measured(
      (metrics) => metrics.sum('sidekerb_jwks_refreshes_total', { result: 'ok' }) > 0,
      'the keys are loaded',
    );
    const agent = new Agent({ keepAlive: true, maxSockets: 24 });
    const all = questions();
    const pick = numbers(20_261_201);
    const wrong: string[] = [];
    let left = 5000;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const question = all[pick(all.length)];
        if (question === undefined) continue;
        const { status, user } = await ask(daemon, question, agent);
        const isRight =
          status === question.status && user.toLowerCase() === question.user.toLowerCase();
        if (!isRight)
          wrong.push(
            `${question.path}: ${status} ${user}, not ${question.status} ${question.user}`,
          );
      }
    };
    await Promise.all(Array.from({ length: 24 }, lane));
    agent.destroy();
    assert.deepEqual(wrong.slice(0, 5), []);
    const metrics = await daemon.metrics();
    const rate = (cache: string): number =>
      metrics.sum('sidekerb_cache_hits_total', { cache }) /
      metrics.sum('sidekerb_cache_requests_total', { cache });
    assert.ok(rate('jwt') > 0.5, `hit rate of tokens ${rate('jwt')}`);
    assert.ok(rate('basic') > 0.8, `hit rate of passwords ${rate('basic')}`);
    assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
  });
});
