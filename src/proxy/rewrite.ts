/**
 * Makes fields of a response that name the upstream name the listener instead.
 *
 * Location, Content-Location and Refresh: only where they point at the upstream's origin and base
 * path. Set-Cookie: Domain, Path and Secure likewise. Everything else passes as it is. Nothing here
 * follows a redirect (R28).
 */
import type { ResponseRewriter } from '../relay/plan.ts';
import { RESPONSE_FIELD } from '../wire/response-head.ts';

export interface RewriteFacts {
  /** Of the upstream: `https://crm.corp.example` without the default port. */
  readonly upstreamScheme: 'http' | 'https';
  readonly upstreamHost: string;
  readonly upstreamPort: number;
  /** '' or `/base`. */
  readonly basePath: string;
  /** What the route takes off and `basePath` stands for, without trailing slash: '' or `/crm`. */
  readonly routePrefix: string;
  readonly listenerScheme: 'http' | 'https';
  /** The caller's Host is sent upstream, so the upstream may name it too. */
  readonly sendsCallerHost: boolean;
  readonly location: boolean;
  readonly cookies: boolean;
}

const DEFAULT_PORTS = { http: 80, https: 443 } as const;

export function createRewriter(facts: RewriteFacts): ResponseRewriter | undefined {
  if (!facts.location && !facts.cookies) return undefined;
  const attributes = facts.cookies ? attributesOf(facts) : undefined;
  return {
    concerns: (id, buffer, start, end) => {
      if (id !== RESPONSE_FIELD.setCookie) return facts.location;
      return attributes !== undefined && hasAttribute(buffer, start, end, attributes);
    },
    rewrite: (id, value, callerHost) => {
      if (id === RESPONSE_FIELD.setCookie) {
        return facts.cookies ? rewriteCookie(facts, value) : undefined;
      }
      if (!facts.location) return undefined;
      if (id === RESPONSE_FIELD.refresh) return rewriteRefresh(facts, value, callerHost);
      return rewriteLocation(facts, value, callerHost);
    },
  };
}

interface Attributes {
  /** In lower case. */
  readonly names: readonly Buffer[];
  /** By byte: 1 = one of the names begins so, in either case. */
  readonly initials: Uint8Array;
  /** Bytes of the shortest name. */
  readonly shortest: number;
}

/** The attributes of a cookie that may change between these two places. */
function attributesOf({
  basePath,
  routePrefix,
  listenerScheme,
  upstreamScheme,
}: RewriteFacts): Attributes {
  const names = ['domain'];
  if (basePath !== routePrefix) names.push('path');
  if (listenerScheme === 'http' && upstreamScheme === 'https') names.push('secure');
  const initials = new Uint8Array(256);
  for (const name of names) {
    initials[name.charCodeAt(0)] = 1;
    initials[name.toUpperCase().charCodeAt(0)] = 1;
  }
  return {
    names: names.map((name) => Buffer.from(name)),
    initials,
    shortest: Math.min(...names.map(({ length }) => length)),
  };
}

const SEMICOLON = 0x3b;
const NO_BREAK_SPACE = 0xa0;

/** Whether an attribute of one of these names may stand in a cookie: most have none, and no text is made of them. */
function hasAttribute(
  buffer: Buffer,
  start: number,
  end: number,
  { names, initials, shortest }: Attributes,
): boolean {
  // An attribute has a semicolon before it and its name behind that.
  const last = end - shortest;
  for (let at = start; at < last; at += 1) {
    if (buffer[at] !== SEMICOLON) continue;
    let name = at + 1;
    while (name < end && isBlank(buffer[name] ?? 0)) name += 1;
    if (initials[buffer[name] ?? 0] !== 1) continue;
    for (const wanted of names) if (startsWith(buffer, name, end, wanted)) return true;
  }
  return false;
}

/** What `trim` takes for white space, of the bytes that a field may have. */
const isBlank = (byte: number): boolean => byte <= 0x20 || byte === NO_BREAK_SPACE;

function startsWith(buffer: Buffer, start: number, end: number, lowerCase: Buffer): boolean {
  if (end - start < lowerCase.length) return false;
  for (let i = 0; i < lowerCase.length; i += 1) {
    if (((buffer[start + i] ?? 0) | 0x20) !== lowerCase[i]) return false;
  }
  return true;
}

/** The listener's spelling of a URL or absolute path of the upstream; undefined: not the upstream's. */
export function rewriteLocation(
  facts: RewriteFacts,
  value: string,
  callerHost: string,
): string | undefined {
  // A reference without scheme and authority: only the path changes.
  if (value.startsWith('/') && !value.startsWith('//')) {
    const path = rewritePath(facts, value);
    return path === value ? undefined : path;
  }
  const match = /^(?:([a-z][a-z0-9+.-]*):)?\/\/([^/?#]*)(.*)$/i.exec(value);
  if (match === null) return undefined;
  const [, scheme, authority = '', rest = ''] = match;
  if (!isUpstream(facts, scheme?.toLowerCase(), authority.toLowerCase(), callerHost))
    return undefined;
  const path = rewritePath(facts, rest.startsWith('/') ? rest : `/${rest}`);
  if (path === undefined) return undefined;
  // An HTTP/1.0 caller may send no Host: the path alone then leads to the listener.
  return callerHost === '' ? path : `${facts.listenerScheme}://${callerHost}${path}`;
}

function isUpstream(
  facts: RewriteFacts,
  scheme: string | undefined,
  authority: string,
  callerHost: string,
): boolean {
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') return false;
  const effective = scheme ?? facts.upstreamScheme;
  const sameScheme = effective === facts.upstreamScheme;
  const named = authorityParts(authority, DEFAULT_PORTS[effective]);
  if (sameScheme && named?.host === facts.upstreamHost && named.port === facts.upstreamPort)
    return true;
  return facts.sendsCallerHost && sameScheme && authority === callerHost.toLowerCase();
}

function authorityParts(
  authority: string,
  defaultPort: number,
): { readonly host: string; readonly port: number } | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:@]+))(?::(\d{1,5}))?$/.exec(authority);
  if (match === null) return undefined;
  const host = (match[1] ?? match[2] ?? '').replace(/\.$/, '');
  return { host, port: match[3] === undefined ? defaultPort : Number(match[3]) };
}

/** Base path off, route's prefix on; undefined when the path lies outside the base path. */
function rewritePath(facts: RewriteFacts, target: string): string | undefined {
  const { basePath, routePrefix } = facts;
  if (!isUnder(target, basePath)) return undefined;
  if (basePath === routePrefix) return target;
  const rest = target.slice(basePath.length);
  const joined = `${routePrefix}${rest}`;
  return joined.startsWith('/') ? joined : `/${joined}`;
}

function isUnder(target: string, basePath: string): boolean {
  if (!target.startsWith(basePath)) return false;
  const after = target[basePath.length];
  return after === undefined || after === '/' || after === '?' || after === '#';
}

/** `5; url=…`; the form is a convention of browsers (HTML, "shared declarative refresh steps"). */
function rewriteRefresh(
  facts: RewriteFacts,
  value: string,
  callerHost: string,
): string | undefined {
  const match = /^(\d+(?:\.\d*)?[ \t]*[;,][ \t]*(?:url[ \t]*=[ \t]*)?)(["']?)/i.exec(value);
  if (match === null) return undefined;
  const [start, , quote = ''] = match;
  const end = quote === '' ? value.length : value.lastIndexOf(quote);
  if (end < start.length) return undefined;
  const changed = rewriteLocation(facts, value.slice(start.length, end), callerHost);
  return changed === undefined ? undefined : `${start}${changed}${value.slice(end)}`;
}

function rewriteCookie(facts: RewriteFacts, value: string): string | undefined {
  const parts = value.split(';');
  const kept = parts.flatMap((part, index) => {
    if (index === 0) return [part];
    const equals = part.indexOf('=');
    const content = equals < 0 ? '' : part.slice(equals + 1).trim();
    switch (
      part
        .slice(0, equals < 0 ? undefined : equals)
        .trim()
        .toLowerCase()
    ) {
      case 'domain':
        // The cookie then belongs to the host that the caller used.
        return namesUpstream(facts, content) ? [] : [part];
      case 'path': {
        // Anything else stands for the path of the request (RFC 6265 5.2.4).
        const path = content.startsWith('/') ? rewritePath(facts, content) : undefined;
        return path === undefined || path === content ? [part] : [` Path=${path}`];
      }
      case 'secure':
        return facts.listenerScheme === 'http' && facts.upstreamScheme === 'https' ? [] : [part];
      default:
        return [part];
    }
  });
  const changed = kept.join(';');
  return changed === value ? undefined : changed;
}

function namesUpstream({ upstreamHost }: RewriteFacts, domain: string): boolean {
  const name = domain.replace(/^\./, '').toLowerCase();
  return upstreamHost === name || upstreamHost.endsWith(`.${name}`);
}
