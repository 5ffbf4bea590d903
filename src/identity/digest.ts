/**
 * The identity digest: what stands for an identity in a partition key. Two identities have the same
 * digest exactly when a peer could not tell connections tied by them apart (R4, R6, R9, R47).
 *
 * An identity remembers its own. One that is made anew finds that of its equals by its fields, which
 * are no secrets; the HMAC is for fields that were not met before, or not for long.
 */
import { BoundedMap } from '../bounded-map.ts';
import { ProxyError } from '../errors.ts';
import { hasMemo, type IdentityDigest, rememberDigest, rememberedDigest } from './digest-memo.ts';
import type {
  CombinedIdentity,
  Identity,
  KerberosIdentity,
  NoIdentity,
  NtlmIdentity,
} from './identity.ts';
import { exactBytes, keyedDigest } from './process-key.ts';

export type { IdentityDigest } from './digest-memo.ts';

/** Left out of the digest: they follow from other fields when an identity is made. */
type DerivedField = 'account' | 'generation';
/** One encoder for each field of an identity; a new field does not compile before it has a row. */
type Encoders<I> = {
  readonly [K in Exclude<keyof I, DerivedField>]-?: (identity: I) => string;
};

/** A secret enters by its version, never itself. */
export const NTLM_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  domain: (identity) => identity.domain,
  user: (identity) => identity.user,
  workstation: (identity) => identity.workstation,
  ntHash: (identity) => identity.ntHash.version,
  // The mark keeps what is absent apart from every value.
  password: ({ password }) => (password === undefined ? '-' : `+${password.version}`),
} as const satisfies Encoders<NtlmIdentity>);

/** The credential itself stays with the helper process; its place and version stand for it. */
export const KERBEROS_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  // The nameless ambient identity is none of an empty name either (R5).
  name: (identity) => (identity.name === undefined ? '-' : `+${identity.name}`),
  source: (identity) => identity.source,
  // The version of a keytab follows from its keys, wherever the file is.
  credential: (identity) => (identity.source === 'keytab' ? '' : identity.credential),
  version: (identity) => identity.version,
} as const satisfies Encoders<KerberosIdentity>);

/** Both parts enter with all their fields. */
export const COMBINED_FIELDS = Object.freeze({
  kind: (identity) => identity.kind,
  principal: (identity) => identity.principal,
  kerberos: (identity) => encodeIdentity(identity.kerberos),
  ntlm: (identity) => encodeIdentity(identity.ntlm),
} as const satisfies Encoders<CombinedIdentity>);

/** How often a digest was asked for, and what became of those that were kept. */
export interface DigestCounts {
  readonly requests: number;
  /** Found on the identity, or with an equal one's fields. */
  readonly hits: number;
  /** Digests that left for room. */
  readonly evictions: number;
  /** Digests that are kept. */
  readonly entries: number;
}

/** Digests by the fields of identities; keeps neither identities nor what they hold. */
export class IdentityDigests {
  readonly #byFields: BoundedMap<IdentityDigest>;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** Keeps at most `max` digests; those used longest ago go first. */
  constructor(max: number) {
    this.#byFields = new BoundedMap(max, () => {
      this.#evictions += 1;
    });
  }

  get counts(): DigestCounts {
    return {
      requests: this.#hits + this.#misses,
      hits: this.#hits,
      evictions: this.#evictions,
      entries: this.#byFields.size,
    };
  }

  /** As `identityDigest`. */
  of(identity: Identity): IdentityDigest {
    const known = rememberedDigest(identity);
    if (known === undefined) return this.#find(identity);
    this.#hits += 1;
    return known;
  }

  #find(identity: Identity): IdentityDigest {
    const fields = encodeIdentity(identity);
    // An object of others may change at any time; nothing about it is kept.
    const known = hasMemo(identity) ? this.#byFields.find(fields) : undefined;
    if (known === undefined) return this.#compute(identity, fields);
    this.#hits += 1;
    rememberDigest(identity, known);
    return known;
  }

  #compute(identity: Identity, fields: string): IdentityDigest {
    this.#misses += 1;
    // Writing the bytes also makes `fields` one piece. Before, it is a list of parts, and a name can be
    // a part of the text that a caller sent, with the password in it: the map must not keep that alive.
    const digest = keyedDigest('identity', exactBytes(fields)).toString('hex') as IdentityDigest;
    if (!hasMemo(identity)) return digest;
    this.#byFields.keep(fields, digest);
    rememberDigest(identity, digest);
    return digest;
  }
}

const DIGESTS = new IdentityDigests(4096);

/**
 * The digest of `identity`: computed once where `identity.ts` made it, each time anew for any other
 * object, which may have changed since.
 *
 * Throws `internal` for a kind that has no encoding: it must not pass for "no identity" (R5).
 */
export const identityDigest = (identity: Identity): IdentityDigest => DIGESTS.of(identity);

/** Counts over the life of the process. */
export const identityDigestCounts = (): DigestCounts => DIGESTS.counts;

const NONE_ROWS = [(identity: NoIdentity) => identity.kind];
const NTLM_ROWS = Object.values(NTLM_FIELDS);
const KERBEROS_ROWS = Object.values(KERBEROS_FIELDS);
const COMBINED_ROWS = Object.values(COMBINED_FIELDS);

function encodeIdentity(identity: Identity): string {
  switch (identity.kind) {
    case 'none':
      return encodeRows(NONE_ROWS, identity);
    case 'ntlm':
      return encodeRows(NTLM_ROWS, identity);
    case 'kerberos':
      return encodeRows(KERBEROS_ROWS, identity);
    case 'combined':
      return encodeRows(COMBINED_ROWS, identity);
    default:
      identity satisfies never;
      return refuseKind();
  }
}

/** Each value with its length in front, the kind first: no two lists of values are alike (R6). */
function encodeRows<I>(rows: readonly ((identity: I) => string)[], identity: I): string {
  let fields = '';
  for (const encode of rows) {
    const value = encode(identity);
    fields += encodeLength(value.length) + value;
  }
  return fields;
}

/** One character where it fits: digits take three times as long. */
const encodeLength = (length: number): string =>
  length < LONG ? String.fromCharCode(length) : `${LONG_MARK}${length}:`;

const LONG = 0xffff;
const LONG_MARK = String.fromCharCode(LONG);

function refuseKind(): never {
  throw new ProxyError('internal', 'an identity of a kind that has no digest', {
    side: 'internal',
    stage: 'identify',
  });
}
