/**
 * Partitions for requests that began before a reload: one that looks for a connection again, because
 * its partition retired, opens it with the secret in force and not with the one it began with (R15).
 */
import { identityDigest } from '../identity/digest.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { PartitionInput } from '../pool/partition.ts';
import type { LoginIdentity } from './identities.ts';

/** By principal name. */
export type Identities = ReadonlyMap<string, LoginIdentity>;

/** The same request with the current secrets of its principals. */
export function withCurrentSecrets(input: PartitionInput, current: Identities): PartitionInput {
  const identity = currentOf(input.identity, current);
  const parentIdentity = currentOf(input.parentIdentity ?? NO_IDENTITY, current);
  const isSame = identity === input.identity;
  if (isSame && parentIdentity === (input.parentIdentity ?? NO_IDENTITY)) return input;
  return {
    ...input,
    identity,
    originIdentity: identityDigest(identity),
    ...(input.parentIdentity === undefined
      ? {}
      : { parentIdentity, proxyIdentity: identityDigest(parentIdentity) }),
  };
}

// A name that means another account now is not who the request began as.
function currentOf(identity: Identity, current: Identities): Identity {
  if (identity.kind === 'none') return identity;
  const known = current.get(identity.principal);
  return known?.kind === identity.kind && known.account === identity.account ? known : identity;
}
