/**
 * Makes the identities of the configured principals, and numbers the versions of their secrets.
 */
import { ntowfv1 } from '../auth/ntlm/ntlmv2.ts';
import type { PrincipalConfig } from '../config/config.ts';
import { createNtlmIdentity, type NtlmIdentity } from '../identity/identity.ts';
import { keyedDigest } from '../identity/process-key.ts';
import { Secret } from '../identity/secret.ts';

/** Sent instead of the machine's name, which is nobody's business (protocol.md, Names). */
const WORKSTATION = 'WORKSTATION';

/**
 * Numbers secrets: equal content has the same number, other content another one, also between
 * principals that share an account. Keeps keyed digests, never a secret (R46, R47).
 */
export class Generations {
  readonly #numbers = new Map<string, number>();

  number(ntHash: Secret<Buffer>): number {
    const digest = keyedDigest('secret version', ntHash.reveal()).toString('hex');
    const known = this.#numbers.get(digest);
    if (known !== undefined) return known;
    const next = this.#numbers.size + 1;
    this.#numbers.set(digest, next);
    return next;
  }
}

/** The identity of a principal; a password becomes its NT hash here and is kept no longer. */
export function createIdentity(principal: PrincipalConfig, generations: Generations): NtlmIdentity {
  const ntHash =
    principal.kind === 'nt-hash'
      ? principal.ntHash
      : new Secret(ntowfv1(principal.password.reveal()));
  return createNtlmIdentity({
    principal: principal.name,
    username: principal.username,
    workstation: WORKSTATION,
    ntHash,
    generation: generations.number(ntHash),
  });
}
