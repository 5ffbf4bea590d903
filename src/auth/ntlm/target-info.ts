/**
 * Target info: the AV pairs of an NTLM challenge and response (MS-NLMP 2.2.2.1), and which of them
 * an initiator sends back.
 *
 * The target info of a response, in this order: the server's pairs as they came, without
 * MsvAvFlags' place being lost and without any MsvAvTargetName or MsvAvChannelBindings of the
 * server; then MsvAvFlags if a MIC is written, the channel bindings, the target name; then EOL.
 */
import { createHash } from 'node:crypto';

import { view } from './fields.ts';

/** The pair ids that mean something here. */
export const AV = {
  EOL: 0,
  NB_COMPUTER_NAME: 1,
  NB_DOMAIN_NAME: 2,
  DNS_COMPUTER_NAME: 3,
  DNS_DOMAIN_NAME: 4,
  FLAGS: 6,
  TIMESTAMP: 7,
  TARGET_NAME: 9,
  CHANNEL_BINDINGS: 10,
} as const;

/** Bit of MsvAvFlags: the AUTHENTICATE message carries a MIC. */
export const AV_FLAG_MIC = 0x2;

const HEADER_BYTES = 4;

export interface AvPair {
  readonly id: number;
  readonly value: Uint8Array;
}

/**
 * The pairs up to the first EOL, without it; bytes after the EOL are dropped. Undefined when the list
 * does not end in an empty EOL, a length runs over, a timestamp is not 8 bytes or flags are not 4, or
 * one of these two comes twice. Linear in the length of `bytes`.
 */
export function decodeTargetInfo(bytes: Uint8Array): AvPair[] | undefined {
  const list = view(bytes);
  const pairs: AvPair[] = [];
  const seen = new Set<number>();
  let at = 0;
  while (at + HEADER_BYTES <= list.length) {
    const id = list.readUInt16LE(at);
    const end = at + HEADER_BYTES + list.readUInt16LE(at + 2);
    if (end > list.length) return undefined;
    const value = list.subarray(at + HEADER_BYTES, end);
    if (id === AV.EOL) return value.length === 0 ? pairs : undefined;
    const size = FIXED_SIZES.get(id);
    if (size !== undefined) {
      if (value.length !== size || seen.has(id)) return undefined;
      seen.add(id);
    }
    pairs.push({ id, value });
    at = end;
  }
  return undefined;
}

const FIXED_SIZES: ReadonlyMap<number, number> = new Map([
  [AV.FLAGS, 4],
  [AV.TIMESTAMP, 8],
]);

/** The wire form of `pairs`, with the EOL that ends a list. */
export function encodeTargetInfo(pairs: readonly AvPair[]): Buffer {
  const total = pairs.reduce((sum, pair) => sum + HEADER_BYTES + pair.value.length, HEADER_BYTES);
  const list = Buffer.alloc(total);
  let at = 0;
  for (const { id, value } of pairs) {
    list.writeUInt16LE(id, at);
    list.writeUInt16LE(value.length, at + 2);
    list.set(value, at + HEADER_BYTES);
    at += HEADER_BYTES + value.length;
  }
  return list;
}

/** The value of the first pair with this id. */
export function findAv(pairs: readonly AvPair[], id: number): Uint8Array | undefined {
  return pairs.find((pair) => pair.id === id)?.value;
}

export interface ResponseTargetInfo {
  /** The server's pairs; empty when the challenge had none. */
  readonly received: readonly AvPair[];
  readonly withMic: boolean;
  /** Application data of RFC 5929 (`tls-server-end-point:` and the hash); undefined without TLS. */
  readonly bindings: Uint8Array | undefined;
  readonly spn: string | undefined;
}

/** The pairs that go into the response; see the header for their order. */
export function responseTargetInfo(facts: ResponseTargetInfo): AvPair[] {
  const pairs: AvPair[] = [];
  let flagsWritten = !facts.withMic;
  for (const pair of facts.received) {
    if (pair.id === AV.TARGET_NAME || pair.id === AV.CHANNEL_BINDINGS) continue;
    if (pair.id === AV.FLAGS) {
      pairs.push(avFlags(pair.value, facts.withMic));
      flagsWritten = true;
    } else {
      pairs.push(pair);
    }
  }
  if (!flagsWritten) pairs.push(avFlags(new Uint8Array(4), true));
  pairs.push({ id: AV.CHANNEL_BINDINGS, value: channelBindingsHash(facts.bindings) });
  if (facts.spn !== undefined) {
    pairs.push({ id: AV.TARGET_NAME, value: Buffer.from(facts.spn, 'utf16le') });
  }
  return pairs;
}

/** The server's MsvAvFlags with the MIC bit set exactly when a MIC is written. */
function avFlags(received: Uint8Array, withMic: boolean): AvPair {
  const value = Buffer.from(received);
  const others = value.readUInt32LE(0) & ~AV_FLAG_MIC;
  value.writeUInt32LE((withMic ? others | AV_FLAG_MIC : others) >>> 0, 0);
  return { id: AV.FLAGS, value };
}

/**
 * MsvAvChannelBindings: MD5 of the `gss_channel_bindings_struct` of RFC 2744 3.11 with the addresses
 * left out (MS-NLMP 2.2.2.1); 16 zero bytes without bindings.
 */
export function channelBindingsHash(bindings: Uint8Array | undefined): Buffer {
  if (bindings === undefined) return Buffer.alloc(16);
  return createHash('md5').update(channelBindingsStruct(bindings)).digest();
}

/** Two empty addresses (type 0, length 0), then length and bytes of the application data. */
export function channelBindingsStruct(bindings: Uint8Array): Buffer {
  const struct = Buffer.alloc(20 + bindings.length);
  struct.writeUInt32LE(bindings.length, 16);
  struct.set(bindings, 20);
  return struct;
}
