/** Who a caller is, as far as the listener's own check has found out. */
import type { ClientCertificate } from '../identity/client-certificate.ts';
import type { Secret } from '../identity/secret.ts';
import type { JsonObject } from '../identity/strict-json.ts';

/** Brought no credentials, on a listener that takes such callers. */
export interface NoCaller {
  readonly kind: 'none';
}

/** Brought a user name and a password. */
export interface BasicCaller {
  readonly kind: 'basic';
  /** As sent, in the case given; never empty, no control characters. */
  readonly user: string;
  /** May be empty; no control characters. */
  readonly password: Secret<string>;
  /** Keyed digest of both in full width: equal exactly for equal credentials (R47, R49). */
  readonly digest: string;
  /** The listener's own user file knows the password; else nobody has verified it yet. */
  readonly verified: boolean;
}

/** What a token says, deeply frozen; objects have no prototype. */
export type Claims = JsonObject;

/** Brought a token that one of the listener's issuers has signed for it. */
export interface JwtCaller {
  readonly kind: 'jwt';
  readonly issuer: string;
  /** `sub`; undefined where the token names nobody. */
  readonly subject: string | undefined;
  readonly claims: Claims;
}

/** Named by a trusted proxy in front of the listener. */
export interface HeaderCaller {
  readonly kind: 'header';
  readonly user: string;
}

/** Named by the certificate of his TLS connection. */
export interface MtlsCaller {
  readonly kind: 'mtls';
  readonly user: string;
  readonly certificate: ClientCertificate;
}

/** Brought a Kerberos ticket for the listener's service name. */
export interface NegotiateCaller {
  readonly kind: 'negotiate';
  /** `user@REALM`, with the case that the KDC gave it. */
  readonly subject: string;
}

/** Frozen. One object for as long as a connection brings the same bytes. */
export type Caller =
  NoCaller | BasicCaller | JwtCaller | NegotiateCaller | HeaderCaller | MtlsCaller;

/** The one caller without a name. */
export const NO_CALLER: NoCaller = Object.freeze({ kind: 'none' });

/** What rules compare with `subject`, and upstreams are told; undefined where there is no name. */
export function subjectOf(caller: Caller): string | undefined {
  switch (caller.kind) {
    case 'none':
      return undefined;
    case 'jwt':
    case 'negotiate':
      return caller.subject;
    default:
      return caller.user;
  }
}

/** Who a caller is was found out, and not only said by himself. Of nobody there is nothing to find out. */
export const isVerified = (caller: Caller): boolean => caller.kind !== 'basic' || caller.verified;
