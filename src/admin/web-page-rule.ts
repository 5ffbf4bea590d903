/**
 * Keeps web pages away from the admin listener: which requests may be answered at all.
 *
 * The rule itself is `http/web-page.ts`, the same as on listeners; here it meets Node's headers and
 * the statuses (hostile rows D19, D20). Which endpoint answers is `endpoints.ts`.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { HostPattern } from '../config/config.ts';
import { type Authority, parseAuthority } from '../http/authority.ts';
import { acceptsHost, isForeignPage } from '../http/web-page.ts';

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
  const { headers, method } = facts;
  const host = parseAuthority(headers.host ?? '');
  if (rule.hosts !== undefined && !hostIsOurs(host, facts, rule)) {
    return { status: 421, error: 'misdirected' };
  }
  if (isForeignPage(pageFacts(facts), [])) return { status: 403, error: 'web-page-refused' };
  const field = headers['x-sidekerb-admin'];
  if (rule.adminField === 'needed' && method === 'POST' && field !== '1') {
    return { status: 403, error: 'admin-field-missing' };
  }
  return undefined;
}

const HTTP_PORT = 80;

function hostIsOurs(value: Authority | undefined, facts: PageFacts, rule: PageRule): boolean {
  if (value === undefined) return false;
  if (rule.hosts !== undefined && acceptsHost(rule.hosts, value, HTTP_PORT)) return true;
  return rule.everyAddress && value.host === facts.localAddress?.replace(/^::ffff:/, '');
}

// Node joins repeated fields with a comma, and a joined value is never one that is allowed.
function pageFacts({ headers, method }: PageFacts): Parameters<typeof isForeignPage>[0] {
  const text = (value: string | string[] | undefined): string | undefined =>
    Array.isArray(value) ? value.join(', ') : value;
  return {
    method,
    scheme: 'http',
    host: headers.host ?? '',
    origin: headers.origin,
    secFetchSite: text(headers['sec-fetch-site']),
    secFetchMode: text(headers['sec-fetch-mode']),
    secFetchDest: text(headers['sec-fetch-dest']),
    upgrade: headers.upgrade !== undefined,
  };
}
