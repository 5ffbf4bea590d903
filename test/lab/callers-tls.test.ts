/**
 * Callers of four kinds over TLS, by HTTP/1.1 and HTTP/2, at an NTLM and a Kerberos upstream of a real server:
 * tokens, tickets and passwords of many people on shared connections, certificates each on their own.
 */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { hashSync } from 'bcryptjs';
import type { KerberosIdentity } from '../../src/identity/identity.ts';
import { Authority, type IssuedCertificate } from '../support/authority.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { H2Client } from '../support/h2-client.ts';
import { startJwksServer } from '../support/jwks-server.ts';
import { goodClaims, ISSUER, jwks, signingKey, signToken } from '../support/tokens.ts';
import { LAB_USERS } from './components.ts';
import { kdcFile } from './kdc.ts';
import { identity, kerberosWorld, labKeytab, useKerberosLab } from './kerberos-world.ts';
import type { LabFacts } from './lab.ts';

type User = 'alice' | 'bob';
type Kind = 'jwt' | 'negotiate' | 'basic' | 'mtls';

const USERS = ['alice', 'bob'] as const;
const KINDS = ['jwt', 'negotiate', 'basic', 'mtls'] as const;
const PATHS = ['/ntlm/echo', '/request/echo'] as const;
const REQUESTS = 5000;
const LANES = 24;

const servers = new Authority('server authority');
const LOCAL = servers.issue('localhost', { names: 'DNS:localhost,IP:127.0.0.1' });
const clients = new Authority('caller authority');
const CERTIFICATES: Readonly<Record<User, IssuedCertificate>> = {
  alice: clients.issue('alice', { names: 'URI:spiffe://lab/alice' }),
  bob: clients.issue('bob', { names: 'URI:spiffe://lab/bob' }),
};

/** As rules name a caller of a kind. */
const SUBJECTS: Readonly<Record<Kind, (user: User) => string>> = {
  jwt: (user) => `token-${user}`,
  negotiate: (user) => `${user}@LAB.TEST`,
  basic: (user) => `gate-${user}`,
  mtls: (user) => `spiffe://lab/${user}`,
};

const passwordOf = (user: User): string => `gate of ${user}`;

function configText(lab: LabFacts, keys: string): string {
  const kdc = join(lab.folder, 'kdc');
  const rules = KINDS.flatMap((kind) =>
    USERS.map(
      (user) => `{ when: { client: ${kind}, subject: '${SUBJECTS[kind](user)}' }, use: ${user} }`,
    ),
  );
  return `version: 1
admin: { listen: 127.0.0.1:0 }
kerberos: { config: '${kdcFile.krb5Conf(kdc)}' }
principals:
  alice: { username: 'LAB\\alice', kerberos: alice@LAB.TEST, password: { env: ALICE } }
  bob: { username: 'LAB\\bob', kerberos: bob@LAB.TEST, password: { env: BOB } }
upstreams:
  ntlm: { url: 'http://localhost:${lab.ports.apacheMixed}', auth: { schemes: [ntlm] } }
  request: { url: 'http://localhost:${lab.ports.apacheNegotiate}', auth: { schemes: [negotiate] } }
listeners:
  - name: gateway
    listen: 127.0.0.1:0
    hosts: [localhost, 127.0.0.1]
    tls: { cert: ${LOCAL.certFile}, key: { file: ${LOCAL.keyFile} } }
    http2: true
    clients:
      - jwt: { issuer: '${ISSUER}', audience: api, jwks: '${keys}' }
      - negotiate: { keytab: '${kdcFile.serviceKeytab(kdc)}', spn: HTTP/localhost }
      - basic: { users: { env: USERS } }
      - mtls: { ca: ${clients.caFile} }
    principal:
      - ${rules.join('\n      - ')}
    routes:
      - { path: /ntlm/, upstream: ntlm, stripPrefix: true }
      - { path: /request/, upstream: request, stripPrefix: true }
`;
}

interface Answer {
  readonly status: number;
  readonly user: string;
}

/** One way to the gateway; the certificate of the connection is `owner`'s. */
interface Way {
  readonly owner: User | undefined;
  ask(path: string, authorization: string | undefined): Promise<Answer>;
}

function http1Way(daemon: TestDaemon, owner: User | undefined): Way & Disposable {
  const own = owner === undefined ? {} : CERTIFICATES[owner];
  const { cert, key } = { cert: undefined, key: undefined, ...own };
  const agent = new Agent({ keepAlive: true, maxSockets: 6, ca: servers.ca, cert, key });
  const { port } = daemon.address();
  return {
    owner,
    ask: (path, authorization) => {
      const { promise, resolve, reject } = Promise.withResolvers<Answer>();
      const headers = authorization === undefined ? {} : { authorization };
      const sent = request({ host: '127.0.0.1', port, path, agent, headers }, (response) => {
        response.resume();
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            user: String(response.headers['x-lab-user'] ?? ''),
          }),
        );
      });
      sent.on('error', reject);
      sent.end();
      return promise;
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

async function http2Way(
  daemon: TestDaemon,
  owner: User | undefined,
): Promise<Way & AsyncDisposable> {
  const own =
    owner === undefined ? {} : { cert: CERTIFICATES[owner].cert, key: CERTIFICATES[owner].key };
  const authority = daemon.authority();
  const client = await H2Client.connect(`https://${authority}`, authority, {
    ca: servers.ca,
    ...own,
  });
  return {
    owner,
    ask: async (path, authorization) => {
      const fields = authorization === undefined ? {} : { authorization };
      const { status, headers } = await client.ask(`GET ${path}`, fields);
      return { status, user: String(headers['x-lab-user'] ?? '') };
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

/** A generator of numbers below `limit`, the same in each run. */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const nameAt = (path: string, user: User): string =>
  path.startsWith('/ntlm') ? `lab\\${user}` : `${user}@lab.test`;

suite('a TLS gateway for many', () => {
  test('R1 R53 four kinds of caller, 5,000 requests at random over HTTP/1.1 and HTTP/2: 0 wrong', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    await using stack = new AsyncDisposableStack();
    const idp = stack.use(await startJwksServer(jwks(signingKey({ algorithm: 'RS256' }))));
    const users = USERS.map((user) => `gate-${user}:${hashSync(passwordOf(user), 4)}`).join('\n');
    const daemon = stack.use(
      await startDaemon({
        config: configText(lab, idp.url.href),
        secrets: { ALICE: LAB_USERS.alice, BOB: LAB_USERS.bob, USERS: users },
      }),
    );
    await daemon.measured(
      (metrics) => metrics.sum('sidekerb_jwks_refreshes_total', { result: 'ok' }) > 0,
      'the keys are loaded',
    );
    const tickets = await ticketsOf(lab, stack);
    const owners = [undefined, ...USERS];
    const ways: Way[] = owners.map((owner) => stack.use(http1Way(daemon, owner)));
    for (const owner of owners) ways.push(stack.use(await http2Way(daemon, owner)));

    const pick = numbers(20_261_203);
    const one = <T>(list: readonly T[]): T => list[pick(list.length)] as T;
    const wrong: string[] = [];
    const count = new Map<string, number>();
    let left = REQUESTS;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const [path, way, who, kind] = [one(PATHS), one(ways), one(USERS), one(KINDS)];
        const { authorization, user, status } = await questionOf({ way, who, kind, tickets });
        const answer = await way.ask(path, authorization);
        const expected = user === undefined ? '' : nameAt(path, user);
        count.set(kind, (count.get(kind) ?? 0) + 1);
        if (answer.status === status && answer.user.toLowerCase() === expected) continue;
        wrong.push(
          `${kind} ${who} ${path}: ${answer.status} ${answer.user}, not ${status} ${expected}`,
        );
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    assert.deepEqual(wrong.slice(0, 5), []);
    for (const kind of KINDS) assert.ok((count.get(kind) ?? 0) > REQUESTS / 8, kind);
    const metrics = await daemon.metrics();
    assert.equal(metrics.sum('sidekerb_invariant_violations_total'), 0);
  });
});

interface Asked {
  readonly way: Way;
  readonly who: User;
  readonly kind: Kind;
  readonly tickets: (user: User) => Promise<string>;
}

/** What is sent, and whom the upstream must name. A certificate counts where nothing else was brought. */
async function questionOf({ way, who, kind, tickets }: Asked): Promise<{
  readonly authorization: string | undefined;
  readonly user: User | undefined;
  readonly status: number;
}> {
  switch (kind) {
    case 'jwt': {
      const key = signingKey({ algorithm: 'RS256' });
      const claims = goodClaims(Date.now(), { sub: SUBJECTS.jwt(who) });
      return { authorization: `Bearer ${signToken(key, claims)}`, user: who, status: 200 };
    }
    case 'basic': {
      const login = `${SUBJECTS.basic(who)}:${passwordOf(who)}`;
      const text = Buffer.from(login).toString('base64');
      return { authorization: `Basic ${text}`, user: who, status: 200 };
    }
    case 'negotiate':
      return { authorization: `Negotiate ${await tickets(who)}`, user: who, status: 200 };
    default:
      // As the connection is: nobody's, or its owner's.
      return {
        authorization: undefined,
        user: way.owner,
        status: way.owner === undefined ? 401 : 200,
      };
  }
}

/** Fresh tokens of the two, from the machine's own Kerberos. */
async function ticketsOf(
  lab: LabFacts,
  stack: AsyncDisposableStack,
): Promise<(user: User) => Promise<string>> {
  const of = (user: User): KerberosIdentity =>
    identity(`${user}@LAB.TEST`, 'keytab', labKeytab(lab, user));
  const identities = { alice: of('alice'), bob: of('bob') };
  const kerberos = stack.use(
    await kerberosWorld(lab, { identities: () => Object.values(identities) }),
  );
  const never = new AbortController().signal;
  return async (user) => {
    const initiation = await kerberos.provider.initiate(identities[user], 'HTTP/localhost', never);
    initiation.dispose();
    return Buffer.from(initiation.token).toString('base64');
  };
}
