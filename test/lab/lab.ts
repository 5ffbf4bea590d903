/**
 * A lab of real servers on loopback: a Kerberos realm; origins that log callers in with NTLM or
 * Kerberos (Apache, squid, lighttpd, a front end, and one that insists on channel bindings); and parent
 * proxies that do (squid, Apache).
 *
 * Each lab has a folder of its own under the temporary directory and a block of ports of its own, so
 * that two can run side by side. A test run starts one and its files share it (global-setup.ts).
 */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { COMPONENTS, LAB_USERS, missingFor } from './components.ts';
import type { Component } from './components.ts';
import { startApache } from './components/apache.ts';
import type { ApachePorts } from './components/apache.ts';
import { startChannelBindingOrigin } from './components/channel-binding.ts';
import { startCntlm } from './components/cntlm.ts';
import { makeCertificate } from './components/files.ts';
import { startFrontEnd } from './components/front-end.ts';
import { startLighttpd } from './components/lighttpd.ts';
import { startSquid } from './components/squid.ts';
import type { SquidPorts } from './components/squid.ts';
import { startWinbind } from './components/winbind.ts';
import type { Verifier } from './components/winbind.ts';
import { startKdc } from './kdc.ts';
import { takePortBlock } from './ports.ts';
import type { LabProcess } from './processes.ts';
import { lacks } from './requires.ts';

/** Every port of a lab, in the order of its block of ports. */
const PORTS = [
  'apacheOpen',
  'apacheNtlm',
  'apacheNtlmTls',
  /** The accelerator: an origin. */
  'squid',
  'frontEnd',
  'channelBinding',
  'kdc',
  /** Kerberos on each request. */
  'apacheNegotiate',
  /** Kerberos, and the login belongs to the connection. */
  'apacheNegotiateBound',
  /** Kerberos and NTLM inside Negotiate, and NTLM; the login belongs to the connection. */
  'apacheMixed',
  'apacheOpenTls',
  /** The password itself: Digest at /digest/, Basic at /basic/. */
  'apachePassword',
  /** Kerberos on each request, over TLS. */
  'apacheNegotiateTls',
  /** A parent: Kerberos, NTLM inside Negotiate, and NTLM; the login belongs to the connection. */
  'apacheParent',
  /** A parent: Kerberos on each request. */
  'apacheParentPerRequest',
  /** A parent without a login. */
  'squidOpen',
  /** Parents with one scheme each; every login belongs to the connection, but Basic. */
  'squidNegotiate',
  'squidNtlm',
  'squidBasic',
  /** A parent that offers Negotiate, NTLM and Basic. */
  'squidAll',
  /** The same over TLS. */
  'squidTls',
  /** Kerberos on each request, and no token of the server's. */
  'lighttpd',
  /** For callers without credentials: bob at squid's NTLM port. */
  'cntlm',
] as const;

export type LabPorts = Readonly<Record<(typeof PORTS)[number], number>>;

/** Where the servers of a lab are. Ports of a component that was not started are closed. */
export interface LabFacts {
  readonly components: readonly Component[];
  /** Holds a folder for each component with its configuration and logs. */
  readonly folder: string;
  /** The certificate of the TLS hosts, in PEM; it is its own issuer. */
  readonly certificate: string;
  readonly ports: LabPorts;
}

/** A running lab. Disposing of it stops every server and removes the folder. */
export interface Lab extends LabFacts, AsyncDisposable {}

const VARIABLE = 'SIDEKERB_LAB';
const BEHIND = {
  kdc: [],
  winbind: [],
  apache: ['kdc'],
  squid: ['winbind', 'kdc', 'apache'],
  'front-end': ['winbind'],
  'channel-binding': [],
  lighttpd: ['kdc'],
  cntlm: ['kdc', 'winbind', 'apache', 'squid'],
} as const satisfies Record<Component, readonly Component[]>;
const OVER_TLS: readonly Component[] = ['apache', 'squid', 'channel-binding'];

/**
 * Starts `components` and what stands behind them, as an unprivileged user when run as root. Throws
 * with the end of the server's log when one does not come up; nothing is left running then.
 */
export async function startLab(components: readonly Component[]): Promise<Lab> {
  const wanted = withDependencies(components);
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'sidekerb-lab-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const { base } = stack.use(await takePortBlock());
  const ports = Object.fromEntries(PORTS.map((name, i) => [name, base + 1 + i])) as LabPorts;
  const certificate = join(folder, 'tls.crt');
  if (OVER_TLS.some((component) => wanted.has(component))) await makeCertificate(folder);
  await startAll(wanted, folder, ports, (server) => stack.defer(() => server.stop()));
  const running = stack.move();
  return {
    components: [...wanted],
    folder,
    certificate,
    ports,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** The components that this machine can run, with everything behind them. */
export function possibleComponents(): Component[] {
  return COMPONENTS.filter((component) => absentFor([component]).length === 0);
}

/** Makes a running lab known to the test files that are started from now on. */
export function shareLab(facts: LabFacts): void {
  const { components, folder, certificate, ports } = facts;
  process.env[VARIABLE] = JSON.stringify({ components, folder, certificate, ports });
}

let ownLab: Promise<Lab> | undefined;

/**
 * The lab of this test run. A test file that is run by itself starts one of its own at the first
 * call. Skips `t` and gives undefined where the machine lacks something; throws under CI=true.
 */
export async function useLab(
  t: TestContext,
  ...components: Component[]
): Promise<LabFacts | undefined> {
  const absent = absentFor(components);
  if (absent.length > 0) {
    lacks(t, absent.join(', '));
    return undefined;
  }
  const shared = process.env[VARIABLE];
  if (shared !== undefined) return JSON.parse(shared) as LabFacts;
  ownLab ??= startOwnLab();
  return ownLab;
}

async function startOwnLab(): Promise<Lab> {
  const lab = await startLab(possibleComponents());
  // The tests are over when nothing is left to do; the hooks of node:test belong to one test each here.
  process.once('beforeExit', () => void lab[Symbol.asyncDispose]());
  return lab;
}

function absentFor(components: readonly Component[]): string[] {
  return [...withDependencies(components)].flatMap((component) => missingFor(component));
}

function withDependencies(components: readonly Component[]): Set<Component> {
  const wanted = new Set(components.flatMap((component) => [...BEHIND[component], component]));
  return new Set(COMPONENTS.filter((component) => wanted.has(component)));
}

/** Starts each server as soon as those behind it are up. When one fails, the others are waited for first. */
async function startAll(
  wanted: ReadonlySet<Component>,
  lab: string,
  ports: LabPorts,
  started: (server: LabProcess) => void,
): Promise<void> {
  const starters = startersOf(lab, ports);
  const starts = new Map<Component, Promise<void>>();
  const isUp = async (component: Component): Promise<void> => starts.get(component);
  for (const component of wanted) {
    const behind = BEHIND[component].map((one) => isUp(one));
    const start = async (): Promise<void> => {
      await Promise.all(behind);
      started(await starters[component]());
    };
    starts.set(component, start());
  }
  const ends = await Promise.allSettled(starts.values());
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

function startersOf(lab: string, ports: LabPorts): Record<Component, () => Promise<LabProcess>> {
  const folderOf = (component: Component): string => {
    const folder = join(lab, component);
    mkdirSync(folder);
    return folder;
  };
  const withCertificate = (component: Component): string => {
    const folder = folderOf(component);
    for (const file of ['tls.crt', 'tls.key']) copyFileSync(join(lab, file), join(folder, file));
    return folder;
  };
  const kdc = join(lab, 'kdc');
  let verifier: Verifier | undefined;
  const needVerifier = (): Verifier => {
    if (verifier === undefined) throw new Error('winbind is started before what asks it');
    return verifier;
  };
  return {
    kdc: () => startKdc(folderOf('kdc'), ports.kdc, LAB_USERS),
    winbind: async () => {
      const [winbindd, found] = await startWinbind(folderOf('winbind'));
      verifier = found;
      return winbindd;
    },
    apache: () => startApache(withCertificate('apache'), apachePorts(ports), kdc),
    squid: () =>
      startSquid(withCertificate('squid'), squidPorts(ports), { verifier: needVerifier(), kdc }),
    'front-end': () => startFrontEnd(folderOf('front-end'), ports.frontEnd, needVerifier()),
    'channel-binding': () =>
      startChannelBindingOrigin(withCertificate('channel-binding'), ports.channelBinding),
    cntlm: () => startCntlm(folderOf('cntlm'), { own: ports.cntlm, parent: ports.squidNtlm }),
    lighttpd: () => startLighttpd(folderOf('lighttpd'), ports.lighttpd, kdc),
  };
}

function apachePorts(ports: LabPorts): ApachePorts {
  return {
    open: ports.apacheOpen,
    ntlm: ports.apacheNtlm,
    ntlmTls: ports.apacheNtlmTls,
    negotiate: ports.apacheNegotiate,
    negotiateBound: ports.apacheNegotiateBound,
    mixed: ports.apacheMixed,
    openTls: ports.apacheOpenTls,
    password: ports.apachePassword,
    negotiateTls: ports.apacheNegotiateTls,
    parent: ports.apacheParent,
    parentPerRequest: ports.apacheParentPerRequest,
  };
}

function squidPorts(ports: LabPorts): SquidPorts {
  return {
    accelerator: ports.squid,
    origin: ports.apacheOpen,
    open: ports.squidOpen,
    negotiate: ports.squidNegotiate,
    ntlm: ports.squidNtlm,
    basic: ports.squidBasic,
    all: ports.squidAll,
    tls: ports.squidTls,
  };
}
