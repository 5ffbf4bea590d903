/**
 * Keeps web pages away from the admin listener: which requests may be answered at all.
 *
 * A browser carries a page's request to any address, and a page under a rebound name can also read
 * the answer. The Host value shows the second, Origin and Sec-Fetch-Site show the first (D19, D20).
 * Pure; which endpoint answers is `endpoints.ts`.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { HostPattern } from '../config/config.ts';

/** What of a request the rule looks at. */
export interface PageFacts {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** Address on which the connection came in; undefined on a unix socket. */
  readonly localAddress: string | undefined;
}

export interface PageRule {
  /** undefined: any Host value, as on unix sockets and on probes. */
  readonly hosts: readonly HostPattern[] | undefined;
  /** The listener is bound to every address of the machine: the one that was dialled is its own. */
  readonly everyAddress: boolean;
  /** Whether a POST must carry `X-Sidekerb-Admin: 1`, which no form and no simple fetch can. */
  readonly adminField: 'needed' | 'not-needed';
}

export interface PageRefusal {
  readonly status: 403 | 421;
  readonly error: 'misdirected' | 'web-page-refused' | 'admin-field-missing';
}

/** Names under which a listener on this machine may always be called. */
export const OWN_HOSTS: readonly HostPattern[] = ['localhost', '127.0.0.1', '::1'].map((host) => ({
  host,
  wildcard: false,
  port: undefined,
}));

/** Why this request is not answered; undefined when it is. */
export function refuseWebPage(facts: PageFacts, rule: PageRule): PageRefusal | undefined {
  const host = parseHost(facts.headers.host ?? '');
  if (rule.hosts !== undefined && !hostIsOurs(host, facts, rule)) {
    return { status: 421, error: 'misdirected' };
  }
  if (comesFromForeignPage(facts, host) && !isNavigation(facts)) {
    return { status: 403, error: 'web-page-refused' };
  }
  if (
    rule.adminField === 'needed' &&
    facts.method === 'POST' &&
    facts.headers['x-sidekerb-admin'] !== '1'
  ) {
    return { status: 403, error: 'admin-field-missing' };
  }
  return undefined;
}

interface HostValue {
  /** Lower case, IPv6 without brackets. */
  readonly host: string;
  readonly port: number | undefined;
}

const HOST = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?$/;

function parseHost(value: string): HostValue | undefined {
  const match = HOST.exec(value.toLowerCase());
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) return undefined;
  const port = match?.[3];
  return { host, port: port === undefined ? undefined : Number(port) };
}

function hostIsOurs(value: HostValue | undefined, facts: PageFacts, rule: PageRule): boolean {
  if (value === undefined) return false;
  if (rule.hosts?.some((pattern) => matches(pattern, value)) === true) return true;
  return rule.everyAddress && value.host === facts.localAddress?.replace(/^::ffff:/, '');
}

function matches(pattern: HostPattern, value: HostValue): boolean {
  if (pattern.port !== undefined && pattern.port !== (value.port ?? HTTP_PORT)) return false;
  if (!pattern.wildcard) return value.host === pattern.host;
  return value.host.endsWith(`.${pattern.host}`);
}

const HTTP_PORT = 80;

// Node joins repeated fields with a comma, and a joined value equals none of the values below.
function comesFromForeignPage(facts: PageFacts, host: HostValue | undefined): boolean {
  const { origin } = facts.headers;
  const site = facts.headers['sec-fetch-site'];
  if (origin !== undefined && !isOwnOrigin(origin, host)) return true;
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

function isOwnOrigin(origin: string, host: HostValue | undefined): boolean {
  if (host === undefined || !origin.startsWith('http://')) return false;
  const own = parseHost(origin.slice('http://'.length));
  return own?.host === host.host && (own.port ?? HTTP_PORT) === (host.port ?? HTTP_PORT);
}

/** A person follows a link to a page of ours: the page that holds the link learns nothing. */
function isNavigation(facts: PageFacts): boolean {
  return (
    facts.method === 'GET' &&
    facts.headers['sec-fetch-mode'] === 'navigate' &&
    facts.headers['sec-fetch-dest'] === 'document' &&
    facts.headers.upgrade === undefined
  );
}
