/**
 * IP addresses as numbers: their ranges, and the kinds of places that a caller of a forward proxy
 * must not reach by a wildcard (hostile rows D12, D13). IPv4 is read as IPv4-mapped IPv6, so that
 * every spelling of an address is one number. Names and rules are judged elsewhere.
 */
import { isIPv4, isIPv6 } from 'node:net';

/** An address as a 128-bit number; IPv4 lies in `::ffff:0:0/96`. */
export type IpAddress = bigint & { readonly brand: 'IpAddress' };

/** All addresses that share the first `bits` bits with `address`. */
export interface IpRange {
  readonly address: IpAddress;
  /** 0 to 128; of an IPv4 range, 96 more than written. */
  readonly bits: number;
}

/** Where an address leads. `reserved` is no single host on any network: multicast, broadcast. */
export type AddressClass =
  'public' | 'private' | 'loopback' | 'link-local' | 'metadata' | 'reserved';

const BITS = 128;
const IPV4_BITS = 32n;
const MAPPED = 0xffffn << IPV4_BITS;
const LOW_32 = 0xffff_ffffn;

/** Parses an IPv4 or IPv6 literal without brackets; undefined for anything else, zone ids too. */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return branded(MAPPED | readIpv4(text));
  if (!isIPv6(text) || text.includes('%')) return undefined;
  return branded(readIpv6(text));
}

/** Parses `address` or `address/bits`. Bits behind the prefix may be set; they do not count. */
export function parseIpRange(text: string): IpRange | undefined {
  const [written = '', bits, ...more] = text.split('/');
  const address = parseIpAddress(written);
  if (address === undefined || more.length > 0) return undefined;
  const most = written.includes(':') ? BITS : 32;
  if (bits === undefined) return { address, bits: BITS };
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > most) return undefined;
  return { address, bits: Number(bits) + BITS - most };
}

/** Whether the range has the address. */
export function isInRange(address: IpAddress, range: IpRange): boolean {
  const rest = BigInt(BITS - range.bits);
  return address >> rest === range.address >> rest;
}

/** `0.0.0.0` or `::`: no address of a peer, yet many systems connect it to themselves. */
export const isUnspecified = (address: IpAddress): boolean => address === 0n || address === MAPPED;

/** The IPv4 address that a translator or tunnel on the way would take out of an IPv6 address. */
export function embeddedIpv4(address: IpAddress): IpAddress | undefined {
  for (const { range, shift, inverted } of EMBEDDING) {
    if (!isInRange(address, range)) continue;
    const low = (address >> shift) & LOW_32;
    return branded(MAPPED | (inverted ? low ^ LOW_32 : low));
  }
  return undefined;
}

/** Where the address leads; one with an IPv4 address inside leads where that one does. */
export function addressClass(address: IpAddress): AddressClass {
  for (const [kind, ranges] of CLASSES) {
    if (ranges.some((range) => isInRange(address, range))) return kind;
  }
  const inner = embeddedIpv4(address);
  return inner === undefined ? 'public' : addressClass(inner);
}

const branded = (value: bigint): IpAddress => value as IpAddress;

function readIpv4(text: string): bigint {
  return text.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

function readIpv6(text: string): bigint {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const plain = dotted === null ? text : `${dotted[1]}${asGroups(readIpv4(dotted[2] ?? ''))}`;
  const [before = '', after] = plain.split('::');
  const left = groupsOf(before);
  const right = after === undefined ? [] : groupsOf(after);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0n);
  return [...left, ...zeros, ...right].reduce((value, group) => (value << 16n) | group, 0n);
}

const asGroups = (ipv4: bigint): string =>
  `${(ipv4 >> 16n).toString(16)}:${(ipv4 & 0xffffn).toString(16)}`;

const groupsOf = (text: string): bigint[] =>
  text === '' ? [] : text.split(':').map((group) => BigInt(`0x${group}`));

function ranges(texts: string): IpRange[] {
  return texts.split(' ').map((text) => {
    const range = parseIpRange(text);
    if (range === undefined) throw new Error(`no range: ${text}`);
    return range;
  });
}

/** The first kind that has the address decides; `::` and 0.0.0.0/8 are this very machine. */
const CLASSES: readonly (readonly [AddressClass, readonly IpRange[]])[] = [
  // Clouds in turn: common, AWS tasks, AWS pods; AWS, GCP, Scaleway; Alibaba, Azure, Oracle.
  ['metadata', ranges('169.254.169.254 169.254.170.2 169.254.170.23')],
  ['metadata', ranges('fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42')],
  ['metadata', ranges('100.100.100.200 168.63.129.16 192.0.0.192')],
  ['loopback', ranges('127.0.0.0/8 0.0.0.0/8 ::1 ::')],
  ['link-local', ranges('169.254.0.0/16 fe80::/10')],
  ['private', ranges('10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15')],
  ['private', ranges('fc00::/7 fec0::/10 64:ff9b:1::/48')],
  ['reserved', ranges('224.0.0.0/3 ff00::/8')],
];

/** RFC 6052 2.1, RFC 3056 2, RFC 4380 4, RFC 4291 2.5.5.1: where the IPv4 address stands. */
const EMBEDDING = [
  { text: '64:ff9b::/96', shift: 0n, inverted: false },
  { text: '2002::/16', shift: 80n, inverted: false },
  { text: '2001::/32', shift: 0n, inverted: true },
  { text: '::/96', shift: 0n, inverted: false },
].flatMap(({ text, ...facts }) => ranges(text).map((range) => ({ range, ...facts })));
