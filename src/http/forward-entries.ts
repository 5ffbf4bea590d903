/**
 * Entries of a forward listener's `allow` and `direct` lists: what the file may say, and which hosts
 * and ports an entry names (config.md, Forward targets). Which entry decides is `forward-rules.ts`'s.
 */
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import { type IpAddress, type IpRange, isInRange, parseIpRange } from './forward-addresses.ts';

/** Whom an entry names. A glob has `*`, which stands for any text, dots too. */
export type EntryHost =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'glob'; readonly glob: string }
  | { readonly kind: 'range'; readonly range: IpRange };

/** Both ends included. */
export interface PortRange {
  readonly from: number;
  readonly to: number;
}

export interface AllowEntry {
  /** `!` stands in front. */
  readonly denies: boolean;
  readonly host: EntryHost;
  readonly ports: PortRange;
}

export interface DirectEntry {
  readonly host: EntryHost;
  /** undefined: any port. */
  readonly port: number | undefined;
}

const ANY_PORT: PortRange = { from: 1, to: 65_535 };

/** `host-glob:ports`, `CIDR:ports`, `!` in front to deny; ports are `443`, `8000-8999` or `*`. */
export function parseAllowEntry(text: string): AllowEntry | undefined {
  const found = /^(!?)(.+):([^:]+)$/.exec(text);
  const [, sign, hostText = '', portsText = ''] = found ?? [];
  const ports = parsePorts(portsText);
  const host = parseRange(hostText) ?? parseName(hostText);
  if (ports === undefined || host === undefined) return undefined;
  return { denies: sign === '!', host, ports };
}

/**
 * A name, `.suffix` or `*.suffix` (what lies below it, not the name itself), an address or a CIDR
 * range, each with a port behind it or without.
 */
export function parseDirectEntry(text: string): DirectEntry | undefined {
  const whole = parseIpRange(text);
  if (whole !== undefined) return { host: { kind: 'range', range: whole }, port: undefined };
  const [, hostText = '', portText] = /^(.+?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const ports = portText === undefined ? undefined : parsePorts(portText);
  if (portText !== undefined && ports === undefined) return undefined;
  const host = parseRange(hostText) ?? parseName(hostText.replace(/^\./, '*.'));
  return host === undefined ? undefined : { host, port: ports?.from };
}

export const hasPort = (ports: PortRange, port: number): boolean =>
  port >= ports.from && port <= ports.to;

/** Whether a name or literal as written is the entry's; a range never names one. */
export function namesHost(entry: EntryHost, host: string): boolean {
  if (entry.kind === 'name') return entry.name === host;
  return entry.kind === 'glob' && isGlobMatch(entry.glob, host);
}

export const coversAddress = (entry: EntryHost, address: IpAddress): boolean =>
  entry.kind === 'range' && isInRange(address, entry.range);

function parseRange(text: string): EntryHost | undefined {
  const bracketed = /^\[(.+)\]((?:\/\d+)?)$/.exec(text);
  // Without brackets the colons of an IPv6 address could not be told from the one before a port.
  if (bracketed === null && text.includes(':')) return undefined;
  const range = parseIpRange(bracketed === null ? text : `${bracketed[1]}${bracketed[2]}`);
  return range === undefined ? undefined : { kind: 'range', range };
}

function parseName(text: string): EntryHost | undefined {
  if (text === '*') return { kind: 'glob', glob: text };
  if (!/^[\p{L}\p{M}\p{N}._*-]+$/u.test(text)) return undefined;
  const ascii = domainToASCII(text).replace(/\.$/, '');
  const label = /^(?:[a-z0-9_*-]{1,63}\.)*[a-z0-9_*-]{1,63}$/;
  // `*.` is not the same as `*`.
  if (ascii.length > 253 || !label.test(ascii) || ascii === '*') return undefined;
  if (ascii.includes('*')) return { kind: 'glob', glob: ascii };
  // Another spelling of an IPv4 address.
  return isIP(ascii) === 0 ? { kind: 'name', name: ascii } : parseRange(ascii);
}

function parsePorts(text: string): PortRange | undefined {
  if (text === '*') return ANY_PORT;
  const found = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  if (found === null) return undefined;
  const from = Number(found[1]);
  const to = Number(found[2] ?? found[1]);
  return from >= 1 && from <= to && to <= 65_535 ? { from, to } : undefined;
}

/** Linear in both lengths but for the product of the last `*`'s retries, which 253 bytes bound. */
function isGlobMatch(glob: string, text: string): boolean {
  let g = 0;
  let t = 0;
  let star = -1;
  let retry = 0;
  while (t < text.length) {
    if (glob[g] === '*') {
      star = g;
      retry = t;
      g += 1;
    } else if (g < glob.length && glob[g] === text[t]) {
      g += 1;
      t += 1;
    } else if (star >= 0) {
      retry += 1;
      t = retry;
      g = star + 1;
    } else {
      return false;
    }
  }
  while (glob[g] === '*') g += 1;
  return g === glob.length;
}
