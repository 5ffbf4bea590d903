/**
 * Decides when two connections may stand in for each other: exactly when their partition keys are
 * equal (I2). No other module compares identities, hops or transport settings. Which origin, hop and
 * identity a request has is decided by its caller, once (R14).
 */
import type { IdentityDigest } from '../identity/digest.ts';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';

/** All facts of a partition in one string; equal strings are equal facts (R6, R9). */
export type PartitionKey = string & { readonly brand: 'PartitionKey' };

/** What the connection is made to: a host and port, or a Unix socket. */
export type NextHop =
  | { readonly host: string; readonly port: number; readonly tls: boolean }
  | { readonly socketPath: string; readonly tls?: boolean };

/**
 * Whom a connection of the partition may serve. `any` is for absolute-form requests through a parent
 * proxy without a login at the origin, and for nothing else (R8).
 */
export type KeyedOrigin =
  { readonly scheme: string; readonly host: string; readonly port: number } | 'any';

/** Everything that keeps two connections apart. Strings are taken as they are, without folding. */
export interface PartitionFacts {
  readonly nextHop: NextHop;
  readonly origin: KeyedOrigin;
  readonly originIdentity: IdentityDigest;
  readonly proxyIdentity: IdentityDigest;
  /** Content digest of the transport profile: TLS settings, source address and the like (R11). */
  readonly transport: string;
  /** Name of the upstream: its limits and settings are its own (R24). */
  readonly upstream: string;
  /** What a login is made for: scheme, SPN, channel-binding policy. */
  readonly scope: string;
}

const HEX_DIGITS_OF_ID = 8;

type KeyFields = {
  readonly [K in keyof PartitionFacts]-?: (facts: PartitionFacts) => readonly string[];
};

/** One encoder for each fact; a new fact does not compile before it has a row. */
const KEY_FIELDS: KeyFields = Object.freeze({
  nextHop: ({ nextHop }) => encodeHop(nextHop),
  origin: ({ origin }) =>
    origin === 'any' ? ['any'] : ['one', origin.scheme, origin.host, String(origin.port)],
  originIdentity: (facts) => [facts.originIdentity],
  proxyIdentity: (facts) => [facts.proxyIdentity],
  transport: (facts) => [facts.transport],
  upstream: (facts) => [facts.upstream],
  scope: (facts) => [facts.scope],
});

/**
 * Encodes `facts` without ambiguity: each list of strings has its count, each string its length in
 * front, so that no separator inside a value can be taken for a border (R6).
 */
export function encodePartitionKey(facts: PartitionFacts): PartitionKey {
  const lists = Object.values(KEY_FIELDS).map((encode) => encodeList(encode(facts)));
  return lists.join('') as PartitionKey;
}

/** A short name of the partition for people. Opaque, different in every process, not for equality. */
export function partitionId(key: PartitionKey): string {
  return keyedDigest('partition', exactBytes(key)).toString('hex').slice(0, HEX_DIGITS_OF_ID);
}

function encodeHop(hop: NextHop): readonly string[] {
  const tls = hop.tls === true ? 'tls' : 'plain';
  if ('socketPath' in hop) return ['unix', hop.socketPath, tls];
  return ['tcp', hop.host, String(hop.port), tls];
}

function encodeList(values: readonly string[]): string {
  return `${values.length};${values.map((value) => `${value.length}:${value}`).join('')}`;
}
