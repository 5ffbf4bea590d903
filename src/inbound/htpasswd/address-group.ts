/**
 * Which callers are one where room is shared out by address: those of one IPv4 address, of one IPv6 /64
 * (a single host has all of it to choose from), and all of a unix socket.
 */
import { parseIpAddress } from '../../http/forward-addresses.ts';

const MAPPED_PREFIX = 0xffffn;
const IPV4_BITS = 32n;
const HOST_BITS = 64n;

/** `address` as sockets have it; whatever is no IP address is a group of its own. */
export function addressGroup(address: string): string {
  const [bare = '', zone = ''] = address.split('%', 2);
  const value = parseIpAddress(bare);
  if (value === undefined) return address;
  if (value >> IPV4_BITS === MAPPED_PREFIX) return `ipv4 ${(value & 0xffff_ffffn).toString(16)}`;
  return `ipv6 ${(value >> HOST_BITS).toString(16)} ${zone}`;
}
