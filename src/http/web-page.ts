/**
 * Tells requests that a web page of somebody else made from those that a program or the user made.
 *
 * A browser carries any page's request to a loopback port, and a page under a rebound name can read
 * the answer as well. Host shows the second, Origin and Sec-Fetch-* show the first (hostile rows
 * D19, D20; config.md, "Web pages must not use us"). Pure; what is refused with which status is
 * decided by the listeners.
 */
import { type Authority, parseAuthority } from './authority.ts';

/** A Host value that a listener accepts. */
export interface AcceptedHost {
  /** Lower case, IPv6 without brackets; with `wildcard` the part after `*.`. */
  readonly host: string;
  readonly wildcard: boolean;
  /** undefined: any port. */
  readonly port: number | undefined;
}

/** Whether `value`, as parsed from Host, is one of `accepted`. */
export function acceptsHost(
  accepted: readonly AcceptedHost[],
  value: Authority,
  defaultPort: number,
): boolean {
  return accepted.some((pattern) => isHost(pattern, value, defaultPort));
}

/** Whether `value` is what `pattern` names. */
export function isHost(pattern: AcceptedHost, value: Authority, defaultPort: number): boolean {
  if (pattern.port !== undefined && pattern.port !== (value.port ?? defaultPort)) return false;
  if (!pattern.wildcard) return value.host === pattern.host;
  return value.host.endsWith(`.${pattern.host}`);
}

export interface PageFacts {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  /** Host as received. */
  readonly host: string;
  readonly origin: string | undefined;
  readonly secFetchSite: string | undefined;
  readonly secFetchMode: string | undefined;
  readonly secFetchDest: string | undefined;
  /** An Upgrade field is there. */
  readonly upgrade: boolean;
}

/** Whether a page of another origin made the request. `allowed`: origins that may, lower case. */
export function isForeignPage(facts: PageFacts, allowed: readonly string[]): boolean {
  if (isNavigation(facts)) return false;
  const { origin, secFetchSite } = facts;
  if (origin !== undefined) {
    if (allowed.includes(origin.toLowerCase())) return false;
    if (!isOwnOrigin(origin, facts)) return true;
  }
  return secFetchSite !== undefined && secFetchSite !== 'same-origin' && secFetchSite !== 'none';
}

const DEFAULT_PORT = { http: 80, https: 443 } as const;

function isOwnOrigin(origin: string, { scheme, host }: PageFacts): boolean {
  const prefix = `${scheme}://`;
  if (!origin.startsWith(prefix)) return false;
  const theirs = parseAuthority(origin.slice(prefix.length));
  const own = parseAuthority(host);
  if (theirs === undefined || own === undefined) return false;
  const port = DEFAULT_PORT[scheme];
  return theirs.host === own.host && (theirs.port ?? port) === (own.port ?? port);
}

// A person follows a link to a page behind the listener: the page that holds the link learns nothing.
function isNavigation(facts: PageFacts): boolean {
  return (
    facts.method === 'GET' &&
    facts.secFetchMode === 'navigate' &&
    facts.secFetchDest === 'document' &&
    !facts.upgrade
  );
}
