/**
 * The daemon in front of the lab: one route for each real server and principal, in process for most
 * tests, as a process of its own where its memory is watched.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type Agent, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { kdcFile, REALM } from './kdc.ts';
import type { LabFacts } from './lab.ts';

/** Servers of the lab that take NTLM. */
export type NtlmServer = 'apache' | 'squid' | 'front-end' | 'channel-binding' | 'apache-tls';

/** Servers of the lab that a route may lead to. */
export type LabServer =
  NtlmServer | 'negotiate' | 'negotiate-bound' | 'negotiate-tls' | 'mixed' | 'lighttpd';

/** Principals by what they log in with. */
export type LabPrincipal =
  | 'alice'
  | 'bob'
  | 'wrong'
  /** alice by a keytab. */
  | 'alice-keytab'
  /** bob by tickets from his password. */
  | 'bob-tickets'
  | 'wrong-tickets'
  | 'wrong-both'
  /** Whoever the cache that KRB5CCNAME names belongs to. */
  | 'ambient'
  /** alice by Kerberos, and by NTLM where that fails or is not offered. */
  | 'alice-both';

export interface LabRoute {
  readonly path: string;
  readonly server: LabServer;
  readonly principal: LabPrincipal;
  /** Base path at the server. */
  readonly base?: string;
  /** Default: NTLM alone. */
  readonly schemes?: string;
  /** Default: that of the server's name. */
  readonly spn?: string;
  /** Default: auto. */
  readonly channelBinding?: 'required';
  /** Default: optional. */
  readonly mutual?: 'off' | 'required';
}

export const LAB_SECRETS = { ALICE: 'alicepw', BOB: 'bobpw', WRONG: 'not the password' } as const;

function serverUrl(lab: LabFacts, server: LabServer): string {
  const { ports } = lab;
  switch (server) {
    case 'apache':
      return `http://localhost:${ports.apacheNtlm}`;
    case 'apache-tls':
      return `https://localhost:${ports.apacheNtlmTls}`;
    case 'squid':
      return `http://localhost:${ports.squid}`;
    case 'front-end':
      return `http://localhost:${ports.frontEnd}`;
    case 'channel-binding':
      return `https://localhost:${ports.channelBinding}`;
    case 'negotiate':
      return `http://localhost:${ports.apacheNegotiate}`;
    case 'negotiate-bound':
      return `http://localhost:${ports.apacheNegotiateBound}`;
    case 'negotiate-tls':
      return `https://localhost:${ports.apacheNegotiateTls}`;
    case 'mixed':
      return `http://localhost:${ports.apacheMixed}`;
    case 'lighttpd':
      return `http://localhost:${ports.lighttpd}`;
    default:
      return server satisfies never;
  }
}

/** A configuration with one upstream per route, so that routes of one server share nothing but it. */
export function labConfig(lab: LabFacts, routes: readonly LabRoute[], pool = ''): string {
  const upstreams = routes.map((route, i) => {
    const { server, principal, base = '', schemes = 'ntlm', spn, mutual } = route;
    const { channelBinding = 'auto' } = route;
    const tls = /-tls$|^channel/.test(server) ? `, tls: { ca: '${lab.certificate}' }` : '';
    const own = [
      `principal: ${principal}`,
      `schemes: [${schemes}]`,
      `channelBinding: ${channelBinding}`,
      ...(spn === undefined ? [] : [`spn: ${spn}`]),
      ...(mutual === undefined ? [] : [`mutual: '${mutual}'`]),
    ];
    const auth = `auth: { ${own.join(', ')} }`;
    return `  u${i}: { url: '${serverUrl(lab, server)}${base}', ${auth}${tls}${pool} }`;
  });
  const lines = routes.map(
    ({ path }, i) => `      - { path: ${path}, upstream: u${i}, stripPrefix: true }`,
  );
  return [
    'version: 1',
    'log: { access: false }',
    'admin: { listen: 127.0.0.1:0 }',
    ...principalLines(
      lab,
      routes.map(({ principal }) => principal),
    ),
    'upstreams:',
    ...upstreams,
    'listeners:',
    '  - name: lab',
    '    listen: 127.0.0.1:0',
    '    mode: reverse',
    '    routes:',
    ...lines,
    '',
  ].join('\n');
}

/** The lines of a configuration about `names`; the realm is named only where one of them needs it. */
export function principalLines(lab: LabFacts, names: readonly LabPrincipal[]): string[] {
  const kdc = join(lab.folder, 'kdc');
  const entries: Readonly<Record<LabPrincipal, string>> = {
    alice: "username: 'LAB\\alice', password: { env: ALICE }",
    bob: "username: 'LAB\\bob', password: { env: BOB }",
    wrong: "username: 'LAB\\alice', password: { env: WRONG }",
    'alice-keytab': `kerberos: alice@${REALM}, keytab: '${kdcFile.userKeytab(kdc, 'alice')}'`,
    'bob-tickets': `kerberos: bob@${REALM}, password: { env: BOB }`,
    'wrong-tickets': `kerberos: bob@${REALM}, password: { env: WRONG }`,
    'wrong-both': `username: 'LAB\\bob', kerberos: bob@${REALM}, password: { env: WRONG }`,
    ambient: 'ambient: true',
    'alice-both': `username: 'LAB\\alice', kerberos: alice@${REALM}, password: { env: ALICE }`,
  };
  const used = new Set(names);
  const lines = [...used].map((name) => `  ${name}: { ${entries[name]} }`);
  const realm = [...used].some((name) => /kerberos|ambient/.test(entries[name]));
  const config = realm ? [`kerberos: { config: '${kdcFile.krb5Conf(kdc)}' }`] : [];
  return lines.length === 0 ? [] : [...config, 'principals:', ...lines];
}

export const startLabDaemon = (
  lab: LabFacts,
  routes: readonly LabRoute[],
  pool = '',
  environment: Readonly<Record<string, string>> = {},
): Promise<TestDaemon> =>
  startDaemon({
    config: labConfig(lab, routes, pool),
    secrets: { ...LAB_SECRETS, ...environment },
  });

export interface LabAnswer {
  readonly status: number;
  readonly user: string;
  /** Port of the upstream socket. */
  readonly port: string;
  /** Whom a parent knows, and the port of its client's socket. */
  readonly parentUser: string;
  readonly parentPort: string;
  readonly challenge: string | undefined;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

export interface Upload {
  readonly method: 'POST' | 'PUT';
  /** Pieces that are written one after the other with back-pressure. */
  readonly pieces: Iterable<Buffer>;
  /** undefined: chunked. */
  readonly length: number | undefined;
}

/** One request to the daemon with Node's own client; `path` may be a whole URL, for a forward listener. */
export function labRequest(
  port: number,
  path: string,
  options: { readonly agent?: Agent; readonly upload?: Upload } = {},
): Promise<LabAnswer> {
  const { upload, agent } = options;
  const framing =
    upload === undefined
      ? {}
      : upload.length === undefined
        ? { 'transfer-encoding': 'chunked' }
        : { 'content-length': String(upload.length) };
  const headers = path.startsWith('/') ? framing : { ...framing, host: new URL(path).host };
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method: upload?.method ?? 'GET',
        headers,
        ...(agent === undefined ? {} : { agent }),
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const field = (name: string): string | undefined => {
            const value = incoming.headers[name];
            return Array.isArray(value) ? value.join(', ') : value;
          };
          resolve({
            status: incoming.statusCode ?? 0,
            user: field('x-lab-user') ?? '',
            port: field('x-lab-port') ?? '',
            parentUser: field('x-lab-parent-user') ?? '',
            parentPort: field('x-lab-parent-port') ?? '',
            challenge: field('www-authenticate'),
            retryAfter: field('retry-after'),
            body: Buffer.concat(chunks).toString(),
          });
        });
      },
    );
    outgoing.on('error', reject);
    if (upload === undefined) outgoing.end();
    else void sendPieces(outgoing, upload.pieces);
  });
}

async function sendPieces(
  outgoing: ReturnType<typeof request>,
  pieces: Iterable<Buffer>,
): Promise<void> {
  for (const piece of pieces) if (!outgoing.write(piece)) await once(outgoing, 'drain');
  outgoing.end();
}

/** The daemon as a process; disposing of it ends it by SIGTERM. */
export interface LabProcessDaemon extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
}

/** Starts `sidekerb run` with a configuration whose listener has the port given. */
export async function startDaemonProcess(
  lab: LabFacts,
  routes: readonly LabRoute[],
  port: number,
): Promise<LabProcessDaemon> {
  await using stack = new AsyncDisposableStack();
  const file = join(temporaryFolder(), `sidekerb-${port}.yaml`);
  const text = labConfig(lab, routes).replace(
    '    listen: 127.0.0.1:0',
    `    listen: 127.0.0.1:${port}`,
  );
  writeFileSync(file, text.replace('admin: { listen: 127.0.0.1:0 }\n', ''));
  const main = join(import.meta.dirname, '..', '..', 'cmd', 'sidekerb.ts');
  const child = spawn(process.execPath, [main, 'run', '--config', file], {
    env: { ...LAB_SECRETS, PATH: '/usr/bin:/bin' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stack.defer(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  createInterface({ input: child.stdout }).on('line', () => undefined);
  const { pid } = child;
  if (pid === undefined) throw new Error('the daemon did not start');
  await untilListening(port);
  const running = stack.move();
  return { port, pid, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function untilListening(port: number): Promise<void> {
  const end = performance.now() + 20_000;
  while (performance.now() < end) {
    try {
      await labRequest(port, '/nothing-is-here');
      return;
    } catch {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  throw new Error('the daemon did not listen');
}

/** A number of /proc/PID/status in bytes. */
export function memoryOf(pid: number, name: 'VmHWM' | 'VmRSS'): number {
  const line = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(
    readFileSync(`/proc/${pid}/status`, 'latin1'),
  );
  return Number(line?.[1]) * 1024;
}

/** Lets the peak start again from what is resident now (proc(5), clear_refs). */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}
