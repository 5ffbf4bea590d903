/**
 * Addresses as the file writes them: where a listener listens, which Host values it accepts, and
 * ranges of addresses. Pure text; nothing is looked up.
 */

import { BlockList, isIP, isIPv4 } from 'node:net';
import { domainToASCII } from 'node:url';
import type { HostPattern, ListenAddress } from './config.ts';

/** Longest path of a unix socket: sun_path less its final NUL, the smaller of Linux and macOS. */
const MAX_SOCKET_PATH = 103;

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `unix:/path`; undefined for anything else. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length);
    const fits =
      path.startsWith('/') && !path.endsWith('/') && Buffer.byteLength(path) <= MAX_SOCKET_PATH;
    return fits ? { kind: 'unix', path } : undefined;
  }
  const [written, port] = splitHostPort(text);
  if (written === undefined || port === undefined) return undefined;
  // One family for `localhost`: the system's order of lookup would otherwise choose.
  const host = written === 'localhost' ? '127.0.0.1' : written;
  if (isIP(host) === 0 || host.includes('%')) return undefined;
  return { kind: 'tcp', host, port, loopback: isLoopback(host) };
}

/** 127.0.0.0/8, ::1, and the former as IPv4-mapped IPv6. */
export function isLoopback(address: string): boolean {
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8, 'ipv4');
  loopback.addAddress('::1', 'ipv6');
  return loopback.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

/** True where two listeners cannot both have these addresses. */
export function collide(a: ListenAddress, b: ListenAddress): boolean {
  if (a.kind === 'unix' || b.kind === 'unix') {
    return a.kind === 'unix' && b.kind === 'unix' && a.path === b.path;
  }
  if (a.port !== b.port || a.port === 0) return false;
  if (isWildcard(a.host) || isWildcard(b.host)) {
    // `::` takes IPv4 too unless the system says otherwise; 0.0.0.0 leaves IPv6 alone.
    return a.host === '::' || b.host === '::' || isIP(a.host) === isIP(b.host);
  }
  return canonicalAddress(a.host) === canonicalAddress(b.host);
}

/** `name`, `*.name`, an IPv4 literal or `[IPv6]`, with a port or without. */
export function parseHostPattern(text: string): HostPattern | undefined {
  const wildcard = text.startsWith('*.');
  const rest = wildcard ? text.slice(2) : text;
  const [host, port] = /:\d+$/.test(rest) ? splitHostPort(rest) : [unbracket(rest), undefined];
  if (host === undefined || (port === undefined && /:\d+$/.test(rest) && !rest.endsWith(']')))
    return undefined;
  const name = parseHost(host, rest.startsWith('['));
  if (name === undefined || port === 0 || (wildcard && isIP(name) !== 0)) return undefined;
  return { host: name, wildcard, port };
}

/** A host in its one form: lower case ASCII without trailing dot, or a canonical IP literal. */
export function parseHost(host: string, bracketed = false): string | undefined {
  if (bracketed || host.includes(':')) {
    return bracketed && isIP(host) === 6 && !host.includes('%')
      ? canonicalAddress(host)
      : undefined;
  }
  if (!/^[\p{L}\p{M}\p{N}._-]+$/u.test(host)) return undefined;
  const ascii = domainToASCII(host).replace(/\.$/, '');
  const isName = ascii.length <= 253 && /^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}$/.test(ascii);
  return isName ? ascii : undefined;
}

/** An IP address, or a range `address/bits`. */
export function isAddressRange(text: string): boolean {
  const [address, bits, ...more] = text.split('/');
  const family = isIP(address ?? '');
  if (family === 0 || more.length > 0 || text.includes('%')) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
  );
}

/** `host:port` with brackets around IPv6; both undefined where the text is something else. */
export function splitHostPort(
  text: string,
): readonly [string, number] | readonly [undefined, undefined] {
  const found = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/.exec(text);
  const port = Number(found?.[2]);
  if (found === null || port > 65_535) return [undefined, undefined];
  return [unbracket(found[1] ?? '').toLowerCase(), port];
}

function unbracket(text: string): string {
  return text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || canonicalAddress(host) === '::';
}

function canonicalAddress(address: string): string {
  return isIPv4(address) ? address : new URL(`http://[${address}]`).hostname.slice(1, -1);
}
