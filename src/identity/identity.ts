/**
 * Who the daemon is towards an upstream: nobody, or one NTLM account. An identity is decided once at
 * the start of a request and never changes; lease and release carry the same object (R14).
 */
import type { Secret } from './secret.ts';

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
  readonly ntHash: Secret<Buffer>;
  /** Version of the secret; grows when its content changes (R15). */
  readonly generation: number;
  /** `domain\user`, or the user alone, case-folded: what a lockout is counted for. */
  readonly account: string;
}

/** Frozen. */
export type Identity = NoIdentity | NtlmIdentity;

/** The one absent identity. */
export const NO_IDENTITY: NoIdentity = Object.freeze({ kind: 'none' });

export interface NtlmIdentityFields {
  readonly principal: string;
  /** `DOMAIN\user`, `user@realm`, or `user`. */
  readonly username: string;
  readonly workstation: string;
  readonly ntHash: Secret<Buffer>;
  readonly generation: number;
}

/**
 * Makes the identity of a principal. The name is split at the first backslash and never at `@`: a
 * UPN is sent whole with an empty domain. `.\user` names an account of the server itself, which is
 * written with an empty domain too. Field and hash input are the same strings (MS-NLMP 3.3.2).
 */
export function createNtlmIdentity(fields: NtlmIdentityFields): NtlmIdentity {
  const { domain, user } = splitUserName(fields.username);
  return Object.freeze({
    kind: 'ntlm',
    principal: fields.principal,
    domain,
    user,
    workstation: fields.workstation,
    ntHash: fields.ntHash,
    generation: fields.generation,
    account: foldCase(domain === '' ? user : `${domain}\\${user}`),
  });
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
