/**
 * URLs and names of services as the file writes them. Pure text; nothing is looked up.
 */

import type { TargetUrl } from './config.ts';
import { parseHost } from './addresses.ts';

const DEFAULT_PORTS = { http: 80, https: 443 } as const;

/** A path that can be put in front of another one: no query, no dot segments, no odd bytes. */
const PATH = /^(?:\/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*$/;

const DOT_SEGMENT = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i;

const ENCODED_SEPARATOR = /%2f|%5c|%00/i;

/** The target of `http://host[:port][/base]` or https; otherwise what is wrong with it. */
export function parseTargetUrl(text: string): TargetUrl | { readonly fault: string } {
  const found = /^(https?):\/\/([^/?#]*)([^?#]*)(.*)$/is.exec(text);
  if (found === null) return { fault: 'wanted: http://HOST[:PORT][/PATH] or https' };
  const [, rawScheme = '', authority = '', path = '', rest = ''] = found;
  if (authority.includes('@')) return { fault: 'a url must not hold a user name or password' };
  if (rest !== '') return { fault: 'a url must not have a query or a fragment' };
  const scheme = rawScheme.toLowerCase() === 'https' ? 'https' : 'http';
  const place = parseAuthority(authority, DEFAULT_PORTS[scheme]);
  if (place === undefined) return { fault: 'the host or port of the url is malformed' };
  if (!isPlainPath(path)) return { fault: 'the path of the url is malformed or has dot segments' };
  return {
    scheme,
    ...place,
    authority: formatAuthority(place.host, place.port, DEFAULT_PORTS[scheme]),
    basePath: path.replace(/\/+$/, ''),
  };
}

/** True for a path without query, dot segments, encoded separators and doubled slashes. */
export function isPlainPath(path: string): boolean {
  return (
    PATH.test(path) &&
    !DOT_SEGMENT.test(path) &&
    !ENCODED_SEPARATOR.test(path) &&
    !path.includes('//')
  );
}

/** A web origin in its one form, `scheme://host[:port]` in lower case, or undefined. */
export function parseOrigin(text: string): string | undefined {
  const target = parseTargetUrl(text);
  if ('fault' in target || target.basePath !== '' || text.endsWith('/')) return undefined;
  return `${target.scheme}://${target.authority}`;
}

/** `service/host`, with a port and a realm if need be. */
export function isSpn(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9_-]*\/[A-Za-z0-9._-]+(?::\d{1,5})?(?:@[A-Za-z0-9._-]+)?$/.test(text);
}

/** A header field name. RFC 9110 5.6.2. */
export function isFieldName(text: string): boolean {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(text);
}

/** Fields that decide framing, routing or credentials, or that the daemon writes itself. */
const TAKEN_FIELDS =
  /^(?:host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|te|trailer|upgrade|http2-settings|expect|accept|max-forwards|authorization|cookie|origin|sec-.*|via|forwarded|x-forwarded-(?:for|host|proto|port)|x-real-ip|x-sidekerb-.*)$/;

/** The name of a field that may say who a caller is. */
export function isIdentityField(text: string): boolean {
  return isFieldName(text) && !TAKEN_FIELDS.test(text.toLowerCase().replaceAll(/[_.]/g, '-'));
}

/** Where the keys of an issuer are: a URL of http or https without userinfo, else a path. */
export function isJwksSource(text: string): boolean {
  if (!isUrl(text)) return true;
  const url = URL.parse(text);
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  return isWeb && url.username === '' && url.password === '' && url.hash === '';
}

/** True for `scheme://…`, false for a path. */
export const isUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/** Host and port as in a Host field: brackets for IPv6, the port only where it is not the default. */
export function formatAuthority(host: string, port: number, defaultPort: number): string {
  const written = host.includes(':') ? `[${host}]` : host;
  return port === defaultPort ? written : `${written}:${port}`;
}

function parseAuthority(
  text: string,
  defaultPort: number,
): { host: string; port: number } | undefined {
  const found = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text);
  if (found === null) return undefined;
  const [, literal, name, digits] = found;
  const host = literal === undefined ? parseHost(name ?? '') : parseHost(literal, true);
  const port = digits === undefined ? defaultPort : Number(digits);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}
