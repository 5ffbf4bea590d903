/**
 * The daemon as a forward proxy, straight to targets or behind a parent of the lab that asks for a login:
 * callers without credentials outside, bob at the parent.
 */
import type { TestContext } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { until } from '../support/waiting.ts';
import { useKerberosLab } from './kerberos-world.ts';
import { LAB_SECRETS, type LabPrincipal, principalLines } from './lab-daemon.ts';
import { type LabFacts, type LabPorts, useLab } from './lab.ts';
import { type SquidLine, squidLines } from './squid-log.ts';

/** A parent of the lab and how bob logs in there. */
export interface LabParent {
  readonly title: string;
  readonly port: keyof LabPorts;
  readonly principal: LabPrincipal;
  readonly schemes: string;
  /** bob in the parent's words. */
  readonly user: string;
  /** Further keys of `auth`. */
  readonly auth?: string;
}

const NTLM_BOB = {
  principal: 'bob',
  schemes: 'ntlm',
  user: 'LAB\\bob',
} as const;
const KERBEROS_BOB = {
  principal: 'bob-tickets',
  schemes: 'negotiate',
  user: 'bob@LAB.TEST',
} as const;
/** squid writes names of Basic in lower case. */
const BASIC_BOB = { principal: 'bob', schemes: 'basic', user: 'lab\\bob' } as const;
const IN_PLAIN_TEXT = 'dangerousPlaintextBasic: true';

export const NTLM_PARENT: LabParent = {
  title: 'an NTLM parent',
  port: 'squidNtlm',
  ...NTLM_BOB,
};
export const NEGOTIATE_PARENT: LabParent = {
  title: 'a Negotiate parent',
  port: 'squidNegotiate',
  ...KERBEROS_BOB,
};

/** Every parent of the lab with every login that it takes. */
export const PARENTS: readonly LabParent[] = [
  NTLM_PARENT,
  NEGOTIATE_PARENT,
  { title: 'a Basic parent', port: 'squidBasic', ...BASIC_BOB, auth: IN_PLAIN_TEXT },
  {
    title: 'a parent for all, by Negotiate',
    port: 'squidAll',
    ...KERBEROS_BOB,
  },
  { title: 'a parent for all, by NTLM', port: 'squidAll', ...NTLM_BOB },
  {
    title: 'a parent over TLS, by Negotiate',
    port: 'squidTls',
    ...KERBEROS_BOB,
  },
  { title: 'a parent over TLS, by NTLM', port: 'squidTls', ...NTLM_BOB },
  { title: 'a parent over TLS, by Basic', port: 'squidTls', ...BASIC_BOB },
  {
    title: "Apache's parent, by Kerberos",
    port: 'apacheParent',
    ...KERBEROS_BOB,
  },
  { title: "Apache's parent, by NTLM", port: 'apacheParent', ...NTLM_BOB },
  {
    title: "Apache's parent, by NTLM inside Negotiate",
    port: 'apacheParent',
    ...NTLM_BOB,
    schemes: 'negotiate',
  },
  {
    title: "Apache's parent that asks on each request",
    port: 'apacheParentPerRequest',
    ...KERBEROS_BOB,
  },
];

/** Every way that clients are tried on. */
export const FORWARD_WAYS: readonly {
  readonly title: string;
  readonly parent: LabParent | undefined;
}[] = [
  { title: 'straight to targets', parent: undefined },
  ...[NTLM_PARENT, NEGOTIATE_PARENT].map((parent) => ({
    title: `through ${parent.title}`,
    parent,
  })),
];

/** A forward listener of the daemon; disposing of it ends the daemon. */
export class ForwardLab {
  readonly lab: LabFacts;
  readonly daemon: TestDaemon;
  /** Through which every request goes; undefined: none. */
  readonly parent: LabParent | undefined;

  constructor(lab: LabFacts, daemon: TestDaemon, parent: LabParent | undefined) {
    this.lab = lab;
    this.daemon = daemon;
    this.parent = parent;
  }

  /** What clients are given as their proxy. */
  get proxy(): string {
    return `http://${this.daemon.authority()}`;
  }

  /** What squid's log has about `authority` at the parent's port so far, login legs too. */
  lines(authority: string): SquidLine[] {
    if (this.parent === undefined) return [];
    const port = this.lab.ports[this.parent.port];
    return squidLines(this.lab, authority).filter((line) => line.port === port);
  }

  /**
   * Resolves with what the parent served at `authority`, once there are `count` lines of it in the log; throws
   * when one of them is not bob's. Without a parent there is nothing to wait for.
   */
  async served(authority: string, count: number): Promise<SquidLine[]> {
    const { parent } = this;
    if (parent === undefined) return [];
    const served = (): SquidLine[] => this.lines(authority).filter(({ status }) => status !== 407);
    await until(() => served().length >= count, `${count} lines of squid about ${authority}`);
    const others = served().filter(({ user }) => user !== parent.user);
    if (others.length > 0) throw new Error(`not as bob: ${JSON.stringify(others)}`);
    return served();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
  }
}

/** An upstream whose origin is logged in to as well. */
export interface LabIntranet {
  readonly url: string;
  readonly principal: LabPrincipal;
  readonly schemes: string;
}

/** Starts the daemon, before `parent` where there is one. */
export async function startForwardLab(
  lab: LabFacts,
  parent: LabParent | undefined,
  intranet?: LabIntranet,
): Promise<ForwardLab> {
  const logins = [parent, intranet].filter((login) => login !== undefined);
  const upstreams = [
    ...(parent === undefined ? [] : [parentLine(lab, parent)]),
    ...(intranet === undefined ? [] : [intranetLine(lab, intranet)]),
  ];
  const config = [
    'version: 1',
    'log: { access: false }',
    'admin: { listen: 127.0.0.1:0 }',
    ...principalLines(
      lab,
      logins.map(({ principal }) => principal),
    ),
    ...(upstreams.length === 0 ? [] : ['upstreams:', ...upstreams]),
    'listeners:',
    '  - name: egress',
    '    listen: 127.0.0.1:0',
    '    mode: forward',
    ...(parent === undefined ? [] : ['    via: [corp]']),
    ...(intranet === undefined ? [] : ['    origins: [intranet]']),
    "    allow: ['127.0.0.0/8:*', 'localhost:*']",
    '',
  ].join('\n');
  const daemon = await startDaemon({ config, secrets: LAB_SECRETS });
  return new ForwardLab(lab, daemon, parent);
}

function parentLine(lab: LabFacts, parent: LabParent): string {
  const address = `localhost:${lab.ports[parent.port]}`;
  const hop =
    parent.port === 'squidTls'
      ? `proxy: 'https://${address}', tls: { ca: '${lab.certificate}' }`
      : `proxy: 'http://${address}'`;
  return `  corp: { ${hop}, ${auth(parent, parent.auth)} }`;
}

function intranetLine(lab: LabFacts, intranet: LabIntranet): string {
  const { url } = intranet;
  const tls = url.startsWith('https:') ? `, tls: { ca: '${lab.certificate}' }` : '';
  return `  intranet: { url: '${url}', ${auth(intranet)}${tls} }`;
}

function auth(
  { principal, schemes }: Pick<LabParent, 'principal' | 'schemes'>,
  more?: string,
): string {
  const own = `principal: ${principal}, schemes: [${schemes}]`;
  return `auth: { ${more === undefined ? own : `${own}, ${more}`} }`;
}

/** The lab with what clients here need, `parent` too. Skips `t` where something is missing. */
export function useForwardLab(
  t: TestContext,
  parent: LabParent | undefined,
): Promise<LabFacts | undefined> {
  return parent === undefined ? useLab(t, 'front-end') : useKerberosLab(t, 'squid', 'front-end');
}
