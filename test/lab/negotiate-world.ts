/**
 * A gateway that knows its callers by Kerberos tickets, in front of a real NTLM server, and callers who
 * have some: their tokens come from the machine's own Kerberos, and the gateway's proof is checked by it.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { KerberosInitiation } from '../../src/auth/kerberos/provider.ts';
import type { KerberosIdentity } from '../../src/identity/identity.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { kdcFile } from './kdc.ts';
import {
  identity,
  kerberosWorld,
  type KerberosWorld,
  labKeytab,
  useKerberosLab,
} from './kerberos-world.ts';
import { LAB_SECRETS } from './lab-daemon.ts';
import type { LabFacts } from './lab.ts';

/** The gateway's own name, and another one in the same keytab. */
export const SPN = 'HTTP/localhost';
export const OTHER_SPN = 'HTTP/origin.lab.test';

export type User = 'alice' | 'bob';

const never = new AbortController().signal;

export interface WorldSetup {
  /** Further settings of the client entry, after a comma. */
  readonly client?: string;
  /** Entries of `clients` behind it, after a comma. */
  readonly clients?: string;
  /** The whole listener's further lines; default: a reverse listener with a route to the NTLM server. */
  readonly listener?: string;
  /** Before the listeners. */
  readonly top?: string;
}

export class NegotiateWorld implements AsyncDisposable {
  readonly lab: LabFacts;
  readonly daemon: TestDaemon;
  readonly #kerberos: KerberosWorld;
  readonly #identities: Readonly<Record<User, KerberosIdentity>>;

  constructor(
    lab: LabFacts,
    daemon: TestDaemon,
    kerberos: KerberosWorld,
    identities: Readonly<Record<User, KerberosIdentity>>,
  ) {
    this.lab = lab;
    this.daemon = daemon;
    this.#kerberos = kerberos;
    this.#identities = identities;
  }

  /** undefined where the machine lacks something; the test is skipped then. */
  static async start(t: TestContext, setup: WorldSetup = {}): Promise<NegotiateWorld | undefined> {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return undefined;
    await using stack = new AsyncDisposableStack();
    const daemon = stack.use(
      await startDaemon({ config: configText(lab, setup), secrets: LAB_SECRETS }),
    );
    const one = (user: User): KerberosIdentity =>
      identity(`${user}@LAB.TEST`, 'keytab', labKeytab(lab, user));
    const identities = { alice: one('alice'), bob: one('bob') };
    const kerberos = stack.use(
      await kerberosWorld(lab, { identities: () => Object.values(identities) }),
    );
    stack.move();
    return new NegotiateWorld(lab, daemon, kerberos, identities);
  }

  /** A fresh token; its owner checks the proof of the gateway by it. */
  initiate(user: User, spn = SPN): Promise<KerberosInitiation> {
    return this.#kerberos.provider.initiate(this.#identities[user], spn, never);
  }

  async token(user: User, spn = SPN): Promise<Buffer> {
    const initiation = await this.initiate(user, spn);
    initiation.dispose();
    return Buffer.from(initiation.token);
  }

  /** One request with this token, on a connection of its own or on `client`. */
  async ask(token: Uint8Array | undefined, client?: RawClient): Promise<RawResponse> {
    const fields = token === undefined ? {} : negotiate(token);
    if (client === undefined) return await this.daemon.ask('GET /echo', fields);
    await client.request('GET /echo', { Host: this.daemon.authority(), ...fields });
    return await client.response();
  }

  /** Ends the acceptor helpers of this process. */
  killHelpers(): void {
    for (const pid of acceptorHelpers()) process.kill(pid, 'SIGKILL');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kerberos[Symbol.asyncDispose]();
    await this.daemon[Symbol.asyncDispose]();
  }
}

export const negotiate = (
  token: Uint8Array,
  field = 'Authorization',
): Readonly<Record<string, string>> => ({
  [field]: `Negotiate ${Buffer.from(token).toString('base64')}`,
});

/** The gateway's own token in an answer; fails where there is none. */
export function proofIn(answer: RawResponse, field = 'WWW-Authenticate'): Buffer {
  const [text = '', ...others] = answer.all(field).filter((one) => one.startsWith('Negotiate '));
  assert.deepEqual(others, []);
  assert.notEqual(text, '', `no token in ${field} of ${answer.status}`);
  return Buffer.from(text.slice('Negotiate '.length), 'base64');
}

/** Who the server behind the gateway says that asks it. */
export const userIn = (answer: RawResponse): string =>
  `${answer.status} ${(answer.field('X-Lab-User') ?? '').toLowerCase()}`;

function configText(lab: LabFacts, setup: WorldSetup): string {
  const { client = '', clients = '' } = setup;
  const kdc = join(lab.folder, 'kdc');
  const own = `keytab: '${kdcFile.serviceKeytab(kdc)}', spn: ${SPN}${client}`;
  const rules = ['alice', 'bob'].map(
    (user) => `{ when: { client: negotiate, subject: ${user}@LAB.TEST }, use: ${user} }`,
  );
  const reverse = `principal: [${rules.join(', ')}]
    routes: [{ upstream: ntlm }]`;
  return `version: 1
admin: { listen: 127.0.0.1:0 }
kerberos: { config: '${kdcFile.krb5Conf(kdc)}' }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE } }
  bob: { username: 'LAB\\bob', password: { env: BOB } }
upstreams:
  ntlm: { url: 'http://localhost:${lab.ports.apacheNtlm}', auth: { schemes: ntlm } }
  open: { url: 'http://localhost:${lab.ports.apacheOpen}' }
  request: { url: 'http://localhost:${lab.ports.apacheNegotiate}' }
  away: { url: 'http://localhost:1' }
${setup.top ?? ''}
listeners:
  - name: gateway
    listen: 127.0.0.1:0
    hosts: [localhost, 127.0.0.1]
    clients: [negotiate: { ${own} }${clients}]
    ${setup.listener ?? reverse}
`;
}

/** Children of this process that have a keytab to accept with. */
function acceptorHelpers(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isOwnChild(pid) && /\0KRB5_KTNAME=/.test(`\0${textOf(pid, 'environ')}`));
}

const isOwnChild = (pid: number): boolean =>
  new RegExp(`^PPid:\\s+${process.pid}$`, 'm').test(textOf(pid, 'status'));

function textOf(pid: number, file: 'environ' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    // It ended meanwhile, or is somebody else's.
    return '';
  }
}
