/**
 * Who the daemon is towards an upstream: nobody, one NTLM account, one Kerberos principal, or both of
 * one person. An identity is decided once at the start of a request and never changes; lease and
 * release carry the same object (R14).
 */
import { freezeWithMemo, hasMemo } from './digest-memo.ts';
import { generationOf, type SecretVersion, type VersionedSecret } from './secret-version.ts';

/** No login: the connection stays untied. */
export interface NoIdentity {
  readonly kind: 'none';
}

/** One account and one version of its secret. */
export interface NtlmIdentity {
  readonly kind: 'ntlm';
  /** Name of the entry under `principals`. */
  readonly principal: string;
  /** As configured, in the case given; empty for a UPN or a bare user name. */
  readonly domain: string;
  /** As configured, in the case given; a UPN stays whole. */
  readonly user: string;
  /** What the AUTHENTICATE message says of the machine. */
  readonly workstation: string;
  /** NTOWFv1, 16 bytes: MD4 of the password in UTF-16LE. */
  readonly ntHash: VersionedSecret<Buffer>;
  /** Kept only where an upstream may be logged in to with the password itself. */
  readonly password: VersionedSecret<string> | undefined;
  /** Number of the hash's version; grows when its content changes (R15). */
  readonly generation: number;
  /** `domain\user`, or the user alone, case-folded: what a lockout is counted for. */
  readonly account: string;
}

/** Where the tickets of a Kerberos principal come from. */
export const KERBEROS_SOURCES = ['keytab', 'ccache', 'password', 'ambient', 'client'] as const;

export type KerberosSource = (typeof KERBEROS_SOURCES)[number];

/** One Kerberos principal and one version of its credential. */
export interface KerberosIdentity {
  readonly kind: 'kerberos';
  /** Name of the entry under `principals`. */
  readonly principal: string;
  /** `user@REALM`; undefined where the default ticket cache of the machine decides (`ambient`). */
  readonly name: string | undefined;
  readonly source: KerberosSource;
  /**
   * Path of the keytab or the credential cache; for a caller (`client`) the version of his password
   * (R47); empty for a password and for `ambient`.
   */
  readonly credential: string;
  /** Of the credential, wherever that lies. */
  readonly version: SecretVersion;
  /** Number of the version; grows when the credential's content changes (R15). */
  readonly generation: number;
  /** `name`, case-folded: what a lockout is counted for. Empty where there is no name. */
  readonly account: string;
}

/** One person who can log in by Kerberos and, where that is not offered, by NTLM. */
export interface CombinedIdentity {
  readonly kind: 'combined';
  /** Name of the entry under `principals`. */
  readonly principal: string;
  readonly kerberos: KerberosIdentity;
  readonly ntlm: NtlmIdentity;
  /** Version of the secret that both parts share. */
  readonly generation: number;
  /** The NTLM part's: a lockout follows the directory account. */
  readonly account: string;
}

/** Frozen, and with a memo for its digest, where this file made it. */
export type Identity = NoIdentity | NtlmIdentity | KerberosIdentity | CombinedIdentity;

/** Somebody, by whatever mechanism. */
export type LoginIdentity = Exclude<Identity, NoIdentity>;

/** Sent instead of the machine's name, which is nobody's business (protocol.md, Names). */
export const WORKSTATION = 'WORKSTATION';

/** The one absent identity. */
export const NO_IDENTITY: NoIdentity = freezeWithMemo({ kind: 'none' });

export interface NtlmIdentityFields {
  readonly principal: string;
  /** `DOMAIN\user`, `user@realm`, or `user`. */
  readonly username: string;
  readonly workstation: string;
  readonly ntHash: VersionedSecret<Buffer>;
  readonly password?: VersionedSecret<string> | undefined;
}

/**
 * Makes the identity of a principal. The name is split at the first backslash and never at `@`: a
 * UPN is sent whole with an empty domain. `.\user` names an account of the server itself, which is
 * written with an empty domain too. Field and hash input are the same strings (MS-NLMP 3.3.2).
 */
export function createNtlmIdentity(fields: NtlmIdentityFields): NtlmIdentity {
  const { principal, workstation, ntHash, password } = fields;
  const { domain, user } = splitUserName(fields.username);
  const account = foldCase(domain === '' ? user : `${domain}\\${user}`);
  return makeNtlm({ principal, domain, user, workstation, ntHash, password, account });
}

export interface KerberosIdentityFields {
  readonly principal: string;
  /** `user@REALM`, or undefined for `ambient`. */
  readonly name: string | undefined;
  readonly source: KerberosSource;
  /** As in `KerberosIdentity`. */
  readonly credential: string;
  readonly version: SecretVersion;
}

/** Makes the identity of a Kerberos principal. The name is kept in the case given (RFC 4120 6.1). */
export function createKerberosIdentity(fields: KerberosIdentityFields): KerberosIdentity {
  const { principal, name, source, credential, version } = fields;
  const account = foldCase(name ?? '');
  return makeKerberos({ principal, name, source, credential, version, account });
}

/** Joins the two ways in which one entry under `principals` can log in. */
export function createCombinedIdentity(
  kerberos: KerberosIdentity,
  ntlm: NtlmIdentity,
): CombinedIdentity {
  return makeCombined({ kerberos, ntlm, account: ntlm.account });
}

/** The same identity, counted for another account in lockouts. */
export function withAccount<I extends LoginIdentity>(identity: I, account: string): I;
export function withAccount(identity: LoginIdentity, account: string): LoginIdentity {
  return makeLogin({ ...identity, account });
}

/** The identity itself where this file made it; else a copy that nobody can change. */
export function ownIdentity<I extends LoginIdentity>(identity: I): I;
export function ownIdentity(identity: LoginIdentity): LoginIdentity {
  return hasMemo(identity) ? identity : makeLogin(identity);
}

/** What does not follow from other fields. */
type Made<I> = Readonly<Omit<I, 'kind' | 'generation'>>;

function makeLogin(identity: LoginIdentity): LoginIdentity {
  switch (identity.kind) {
    case 'ntlm':
      return makeNtlm(identity);
    case 'kerberos':
      return makeKerberos(identity);
    case 'combined':
      return makeCombined(identity);
    default:
      return identity satisfies never;
  }
}

// One literal for each kind: objects of one shape are read faster, and nothing else gets in.

function makeNtlm(from: Made<NtlmIdentity>): NtlmIdentity {
  const { ntHash } = from;
  return freezeWithMemo({
    kind: 'ntlm',
    principal: from.principal,
    domain: from.domain,
    user: from.user,
    workstation: from.workstation,
    ntHash,
    password: from.password,
    generation: generationOf(ntHash.version),
    account: from.account,
  });
}

function makeKerberos(from: Made<KerberosIdentity>): KerberosIdentity {
  const { version } = from;
  return freezeWithMemo({
    kind: 'kerberos',
    principal: from.principal,
    name: from.name,
    source: from.source,
    credential: from.credential,
    version,
    generation: generationOf(version),
    account: from.account,
  });
}

function makeCombined(
  from: Pick<CombinedIdentity, 'kerberos' | 'ntlm' | 'account'>,
): CombinedIdentity {
  const ntlm = ownIdentity(from.ntlm);
  return freezeWithMemo({
    kind: 'combined',
    principal: ntlm.principal,
    kerberos: ownIdentity(from.kerberos),
    ntlm,
    generation: ntlm.generation,
    account: from.account,
  });
}

/**
 * False when nobody can say who the identity is: the machine's default ticket cache may change hands
 * at any time. Connections that such a login tied serve one request (R5).
 */
export function isNamed(identity: Identity): boolean {
  return identity.kind !== 'kerberos' || identity.name !== undefined;
}

function splitUserName(name: string): { domain: string; user: string } {
  const at = name.indexOf('\\');
  if (at < 0) return { domain: '', user: name };
  const domain = name.slice(0, at);
  return { domain: domain === '.' ? '' : domain, user: name.slice(at + 1) };
}

/** Upper case first: it joins letters that have several lower-case forms. */
function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}
