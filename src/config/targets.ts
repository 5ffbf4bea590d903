/**
 * Entries of a forward listener's `allow` and `direct` lists as the file writes them. Only their
 * form is judged here; matching them against a target is the forward listener's work.
 */

import { isIP } from 'node:net';
import { isAddressRange, parseHost } from './addresses.ts';

/** `host-glob:ports`, `CIDR:ports`, `!` in front to deny; ports are `443`, `8000-8999` or `*`. */
export function isAllowEntry(text: string): boolean {
  const found = /^!?(.+):([^:]+)$/.exec(text);
  if (found === null) return false;
  const [, host = '', ports = ''] = found;
  return isPorts(ports) && (isRange(host) || isGlob(host));
}

/** A name, `.suffix`, `*.suffix`, an address, a CIDR range, or one of these names with a port. */
export function isDirectEntry(text: string): boolean {
  if (isAddressRange(text) || isRange(text)) return true;
  const found = /^(.+?)(?::(\d{1,5}))?$/.exec(text);
  const [, host = '', port] = found ?? [];
  if (port !== undefined && !isPorts(port)) return false;
  return isRange(host) || isGlob(host.replace(/^\./, ''));
}

function isRange(text: string): boolean {
  const bracketed = /^\[(.+)\]((?:\/\d+)?)$/.exec(text);
  if (bracketed !== null) return isAddressRange(`${bracketed[1]}${bracketed[2]}`);
  return !text.includes(':') && isAddressRange(text);
}

function isGlob(text: string): boolean {
  if (text === '*') return true;
  return isIP(text) === 0 && parseHost(text.replaceAll('*', 'x')) !== undefined;
}

function isPorts(text: string): boolean {
  if (text === '*') return true;
  const [from, to = from, ...more] = text.split('-');
  const isPort = (port: string | undefined): port is string => /^\d{1,5}$/.test(port ?? '');
  if (!isPort(from) || !isPort(to) || more.length > 0) return false;
  return Number(from) >= 1 && Number(from) <= Number(to) && Number(to) <= 65_535;
}
