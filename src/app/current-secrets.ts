/**
 * Partitions for requests that began before a reload: one that looks for a connection again, because
 * its partition retired, opens it with the secret in force and not with the one it began with (R15).
 */
import { identityDigest } from '../identity/digest.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { PartitionInput } from '../pool/partition.ts';
import type { LoginIdentity } from '../identity/identity.ts';

export class CurrentSecrets {
  /** Of any configuration. What callers bring is their own and never exchanged. */
  readonly #configured = new WeakSet<Identity>();
  #current: ReadonlyMap<string, LoginIdentity> = new Map();

  /** The identities in force from now on, by principal name. */
  use(identities: ReadonlyMap<string, LoginIdentity>): void {
    this.#current = identities;
    for (const identity of identities.values()) this.#configured.add(identity);
  }

  /** The same request with the current secrets of its principals. */
  apply(input: PartitionInput): PartitionInput {
    const parent = input.parentIdentity ?? NO_IDENTITY;
    const identity = this.#currentOf(input.identity);
    const parentIdentity = this.#currentOf(parent);
    if (identity === input.identity && parentIdentity === parent) return input;
    return {
      ...input,
      identity,
      originIdentity: identityDigest(identity),
      ...(parent.kind === 'none'
        ? {}
        : { parentIdentity, proxyIdentity: identityDigest(parentIdentity) }),
    };
  }

  // A name that means another account now is not who the request began as.
  #currentOf(identity: Identity): Identity {
    if (identity.kind === 'none' || !this.#configured.has(identity)) return identity;
    const known = this.#current.get(identity.principal);
    return known?.account === identity.account ? known : identity;
  }
}
