/**
 * A lab of real servers on loopback: a Kerberos realm, Apache, squid and a front end that log callers
 * in with NTLM or Kerberos, and an origin that insists on channel bindings.
 *
 * Each lab has a folder of its own under the temporary directory and a block of ports of its own, so
 * that two can run side by side. A test run starts one and its files share it (global-setup.ts).
 */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  COMPONENTS,
  LAB_USERS,
  makeCertificate,
  missingFor,
  startApache,
  startChannelBindingOrigin,
  startFrontEnd,
  startSquid,
  startWinbind,
} from './components.ts';
import type { Component, Verifier } from './components.ts';
import { startKdc } from './kdc.ts';
import { takePortBlock } from './ports.ts';
import type { LabProcess } from './processes.ts';
import { lacks } from './requires.ts';

/** Where the servers of a lab are. Ports of a component that was not started are closed. */
export interface LabFacts {
  readonly components: readonly Component[];
  /** Holds a folder for each component with its configuration and logs. */
  readonly folder: string;
  /** The certificate of the TLS hosts, in PEM; it is its own issuer. */
  readonly certificate: string;
  readonly ports: {
    readonly apacheOpen: number;
    readonly apacheNtlm: number;
    readonly apacheNtlmTls: number;
    readonly squid: number;
    readonly frontEnd: number;
    readonly channelBinding: number;
    readonly kdc: number;
    /** Kerberos on each request. */
    readonly apacheNegotiate: number;
    /** Kerberos, and the login belongs to the connection. */
    readonly apacheNegotiateBound: number;
    /** Kerberos and NTLM inside Negotiate, and NTLM; the login belongs to the connection. */
    readonly apacheMixed: number;
  };
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
} as const satisfies Record<Component, readonly Component[]>;

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
  const ports = {
    apacheOpen: base + 1,
    apacheNtlm: base + 2,
    apacheNtlmTls: base + 3,
    squid: base + 4,
    frontEnd: base + 5,
    channelBinding: base + 6,
    kdc: base + 7,
    apacheNegotiate: base + 8,
    apacheNegotiateBound: base + 9,
    apacheMixed: base + 10,
  };
  const certificate = join(folder, 'tls.crt');
  if (wanted.has('apache') || wanted.has('channel-binding')) await makeCertificate(folder);
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

async function startAll(
  wanted: ReadonlySet<Component>,
  lab: string,
  ports: LabFacts['ports'],
  started: (server: LabProcess) => void,
): Promise<void> {
  const folderOf = (component: Component): string => {
    const folder = join(lab, component);
    mkdirSync(folder);
    return folder;
  };
  const withCertificate = (folder: string): string => {
    for (const file of ['tls.crt', 'tls.key']) copyFileSync(join(lab, file), join(folder, file));
    return folder;
  };
  let verifier: Verifier | undefined;
  const needVerifier = (): Verifier => {
    if (verifier === undefined) throw new Error('winbind is started before what asks it');
    return verifier;
  };
  const start = {
    kdc: () => startKdc(folderOf('kdc'), ports.kdc, LAB_USERS),
    winbind: async () => {
      const [winbindd, found] = await startWinbind(folderOf('winbind'));
      verifier = found;
      return winbindd;
    },
    apache: () =>
      startApache(
        withCertificate(folderOf('apache')),
        {
          open: ports.apacheOpen,
          ntlm: ports.apacheNtlm,
          ntlmTls: ports.apacheNtlmTls,
          negotiate: ports.apacheNegotiate,
          negotiateBound: ports.apacheNegotiateBound,
          mixed: ports.apacheMixed,
        },
        join(lab, 'kdc'),
      ),
    squid: () =>
      startSquid(
        folderOf('squid'),
        { accelerator: ports.squid, origin: ports.apacheOpen },
        needVerifier(),
      ),
    'front-end': () => startFrontEnd(folderOf('front-end'), ports.frontEnd, needVerifier()),
    'channel-binding': () =>
      startChannelBindingOrigin(withCertificate(folderOf('channel-binding')), ports.channelBinding),
  } satisfies Record<Component, () => Promise<LabProcess>>;
  for (const component of wanted) started(await start[component]());
}
