/**
 * The identity digest: what stands for an identity in a partition key. Two identities have the same
 * digest exactly when a peer could not tell connections tied by them apart (R4, R6, R9, R47).
 */
import { ProxyError } from '../errors.ts';
import type { CombinedIdentity, Identity, KerberosIdentity, NtlmIdentity } from './identity.ts';
import { exactBytes, keyedDigest } from './process-key.ts';

/** HMAC-SHA256 under a random key of the process, in full width, hexadecimal. */
export type IdentityDigest = string & { readonly brand: 'IdentityDigest' };

/** Left out of the digest: `account` follows from the names. */
type DerivedField = 'account';
/** One encoder for each field of an identity; a new field does not compile before it has a row. */
type Encoders<I> = {
  readonly [K in Exclude<keyof I, DerivedField>]-?: (identity: I) => string;
};

/**
 * The secret enters by its version and by its keyed fingerprint, never itself: two configurations
 * may give one principal different secrets of the same version.
 */
export const NTLM_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  domain: (identity) => identity.domain,
  user: (identity) => identity.user,
  workstation: (identity) => identity.workstation,
  ntHash: (identity) => identity.ntHash.fingerprint(),
  password: ({ password }) => (password === undefined ? '-' : `+${password.fingerprint()}`),
  generation: (identity) => String(identity.generation),
} as const satisfies Encoders<NtlmIdentity>);

/** The credential itself stays with the helper process; its place and version stand for it. */
export const KERBEROS_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  // The mark keeps the nameless ambient identity apart from every name, the empty one included (R5).
  name: (identity) => (identity.name === undefined ? '-' : `+${identity.name}`),
  source: (identity) => identity.source,
  // The version of a keytab follows from its keys, wherever the file is.
  credential: (identity) => (identity.source === 'keytab' ? '' : identity.credential),
  generation: (identity) => String(identity.generation),
} as const satisfies Encoders<KerberosIdentity>);

/** Both parts enter by their own digests. */
export const COMBINED_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  kerberos: (identity) => identityDigest(identity.kerberos),
  ntlm: (identity) => identityDigest(identity.ntlm),
  generation: (identity) => String(identity.generation),
} as const satisfies Encoders<CombinedIdentity>);

/** Identities are frozen, so a digest once computed holds for the life of its object. */
const memo = new WeakMap<Identity, IdentityDigest>();

/**
 * The digest of `identity`, computed once per object.
 *
 * Throws `internal` for a kind that has no encoding: it must not pass for "no identity" (R5).
 */
export function identityDigest(identity: Identity): IdentityDigest {
  const known = memo.get(identity);
  if (known !== undefined) return known;
  const fields = encodeFields(identity).map(exactBytes);
  const digest = keyedDigest('identity', ...fields).toString('hex') as IdentityDigest;
  memo.set(identity, digest);
  return digest;
}

function encodeFields(identity: Identity): string[] {
  switch (identity.kind) {
    case 'none':
      return [identity.kind];
    case 'ntlm':
      return Object.entries(NTLM_FIELDS).flatMap(([name, encode]) => [name, encode(identity)]);
    case 'kerberos':
      return Object.entries(KERBEROS_FIELDS).flatMap(([name, encode]) => [name, encode(identity)]);
    case 'combined':
      return Object.entries(COMBINED_FIELDS).flatMap(([name, encode]) => [name, encode(identity)]);
    default:
      identity satisfies never;
      return refuseKind();
  }
}

function refuseKind(): never {
  throw new ProxyError('internal', 'an identity of a kind that has no digest', {
    side: 'internal',
    stage: 'identify',
  });
}
