/**
 * What the rest of the daemon knows of Kerberos: a token for one use, and the check of the peer's
 * answer. How tokens come about is decided behind `kerberos-provider.ts`.
 */
import type { KerberosIdentity } from '../../identity/identity.ts';

/** One started security context. Its owner ends it by `dispose`, also after `finish`. */
export interface KerberosInitiation {
  /** SPNEGO NegTokenInit with a Kerberos AP-REQ; written to a peer at most once (R32). */
  readonly token: Uint8Array;
  /** Checks the peer's SPNEGO token. Rejects with `mutual-failed`. */
  finish(token: Uint8Array): Promise<void>;
  /** Frees the context; may be called twice. */
  dispose(): void;
}

/** Tokens for Kerberos identities. */
export interface KerberosProvider {
  /** False once it is known that the package `kerberos` is missing. */
  readonly available: boolean;
  /**
   * A fresh token of `identity` for the service `spn` (`HTTP/host`). Rejects within the deadline
   * with kdc-timeout, kdc-unreachable, credential-expired, credential-missing, credential-rejected,
   * clock-skew, spn-unknown, mechanism-failed or mechanism-unavailable, or with the reason of `signal`.
   */
  initiate(
    identity: KerberosIdentity,
    spn: string,
    signal: AbortSignal,
  ): Promise<KerberosInitiation>;
  /**
   * Credential files or passwords may have changed; `identities` are those in force from now on, if
   * they changed too. Keytabs are merged again, caches copied again, passwords turned into tickets
   * again where they differ. Never rejects.
   */
  refresh(identities?: readonly KerberosIdentity[]): Promise<void>;
  /** Ends the helpers and removes all tickets. May be called twice. */
  close(): Promise<void>;
}
