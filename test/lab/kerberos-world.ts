/**
 * A Kerberos provider in front of the lab's realm: with a gate before the KDC that a test can make
 * silent, credential files of its own, and a client that sends a token and nothing else.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { type Agent, request } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { DeadlineWheel } from '../../src/deadlines.ts';
import { createKerberosProvider } from '../../src/auth/kerberos/kerberos-provider.ts';
import type { KerberosProvider } from '../../src/auth/kerberos/provider.ts';
import { createKerberosIdentity, type KerberosIdentity } from '../../src/identity/identity.ts';
import { Secret } from '../../src/identity/secret.ts';
import { noLog } from '../../src/log/log.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import type { Component } from './components.ts';
import { kdcFile, writeKrb5Conf } from './kdc.ts';
import { type LabFacts, useLab } from './lab.ts';
import { lacks } from './requires.ts';
import { credentialVersion } from '../support/versioned-secrets.ts';

/** Stands between clients and a KDC. */
export interface Gate extends AsyncDisposable {
  readonly port: number;
  /** Accepts and never answers while true. */
  isSilent: boolean;
}

/** A gate before the KDC at `port`. */
export async function openGate(port: number): Promise<Gate> {
  const sockets = new Set<Socket>();
  const gate = {
    port: 0,
    isSilent: false,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => sockets.delete(socket));
    if (gate.isSilent) return;
    const kdc = connect(port, '127.0.0.1');
    kdc.on('error', () => socket.destroy());
    socket.once('close', () => kdc.destroy());
    kdc.pipe(socket).pipe(kdc);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address === 'object' && address !== null) gate.port = address.port;
  return gate;
}

export interface KerberosWorld extends AsyncDisposable {
  /** For the test's own credential files. */
  readonly folder: string;
  readonly krb5Conf: string;
  readonly gate: Gate;
  readonly provider: KerberosProvider;
  /** Passwords by name of the principal; may be changed. */
  readonly passwords: Map<string, string>;
  readonly restarts: { count: number };
}

export interface WorldOptions {
  readonly identities: (folder: string) => readonly KerberosIdentity[];
  readonly passwords?: Readonly<Record<string, string>>;
  readonly deadlineMs?: number;
  /** Of tickets. */
  readonly lifetime?: string;
}

/** A provider whose KDC is the lab's, behind a gate. */
export async function kerberosWorld(lab: LabFacts, options: WorldOptions): Promise<KerberosWorld> {
  await using stack = new AsyncDisposableStack();
  const gate = stack.use(await openGate(lab.ports.kdc));
  const folder = mkdtempSync(join(temporaryFolder(), 'kerberos-'));
  const krb5Conf = join(folder, 'krb5.conf');
  writeKrb5Conf(krb5Conf, { port: gate.port, lifetime: options.lifetime ?? '10h' });
  const deadlines = new DeadlineWheel(systemClock);
  deadlines.start();
  stack.defer(() => deadlines.stop());
  const passwords = new Map(Object.entries(options.passwords ?? {}));
  const restarts = { count: 0 };
  const provider = createKerberosProvider({
    identities: options.identities(folder),
    passwords: ({ principal }) => {
      const password = passwords.get(principal);
      return password === undefined ? undefined : new Secret(password);
    },
    krb5Config: krb5Conf,
    deadlines,
    clock: systemClock,
    log: noLog,
    deadlineMs: options.deadlineMs ?? 5000,
    onHelperRestart: () => {
      restarts.count += 1;
    },
  });
  stack.defer(() => provider.close());
  const running = stack.move();
  return {
    folder,
    krb5Conf,
    gate,
    provider,
    passwords,
    restarts,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** An identity of the lab's realm. */
export function identity(
  name: string,
  source: KerberosIdentity['source'],
  credential = '',
): KerberosIdentity {
  const principal = `${name}-${source}`;
  return createKerberosIdentity({
    principal,
    name,
    source,
    credential,
    version: credentialVersion(),
  });
}

/** The keytab that the lab made for a user. */
export const labKeytab = (lab: LabFacts, user: string): string =>
  kdcFile.userKeytab(join(lab.folder, 'kdc'), user);

export interface NegotiateAnswer {
  readonly status: number;
  readonly user: string;
  /** The server's own token, which proves that it holds its key. */
  readonly token: Buffer | undefined;
}

/** Sends one token, and gives the answer. */
export async function sendToken(
  agent: Agent,
  port: number,
  token: Uint8Array,
): Promise<NegotiateAnswer> {
  const sent = request({
    agent,
    host: '127.0.0.1',
    port,
    path: '/echo',
    headers: {
      host: 'localhost',
      authorization: `Negotiate ${Buffer.from(token).toString('base64')}`,
    },
  });
  sent.end();
  const [response] = await once(sent, 'response');
  response.resume();
  await once(response, 'end');
  const field: unknown = response.headers['www-authenticate'];
  const text = typeof field === 'string' ? /^Negotiate (\S+)$/.exec(field)?.[1] : undefined;
  return {
    status: response.statusCode,
    user: String(response.headers['x-lab-user'] ?? ''),
    token: text === undefined ? undefined : Buffer.from(text, 'base64'),
  };
}

/** Tickets for `name` in a cache file, made by the machine's own kinit. */
export function kinit(
  world: Pick<KerberosWorld, 'krb5Conf'>,
  order: { name: string; password: string; file: string; life?: string },
): Promise<void> {
  const { name, password, file, life = '1h' } = order;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = execFile(
    'kinit',
    ['-l', life, '-c', `FILE:${file}`, name],
    { env: { KRB5_CONFIG: world.krb5Conf, PATH: process.env['PATH'] ?? '' } },
    (error) => (error === null ? resolve() : reject(error)),
  );
  child.stdin?.end(`${password}\n`);
  return promise;
}

/** The lab with a realm, and further `components`. Skips `t` where a server or the optional package is missing. */
export async function useKerberosLab(
  t: TestContext,
  ...components: Component[]
): Promise<LabFacts | undefined> {
  const lab = await useLab(t, 'apache', ...components);
  if (lab === undefined) return undefined;
  try {
    import.meta.resolve('kerberos');
  } catch {
    lacks(t, 'the npm package kerberos');
    return undefined;
  }
  return lab;
}
