/** Which secret a request that waits over a reload goes on with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CurrentSecrets } from '../../../src/app/current-secrets.ts';
import { identityDigest } from '../../../src/identity/digest.ts';
import {
  createNtlmIdentity,
  type Identity,
  NO_IDENTITY,
  type NtlmIdentity,
} from '../../../src/identity/identity.ts';
import type { PartitionInput } from '../../../src/pool/partition.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

function ntlm(principal: string, username: string, content: number): NtlmIdentity {
  const ntHash = ntHashSecret(content);
  return createNtlmIdentity({ principal, username, workstation: 'W', ntHash });
}

function input(identity: Identity, parentIdentity?: Identity): PartitionInput {
  return {
    nextHop: { host: 'h', port: 1, tls: false },
    origin: { scheme: 'http', host: 'h', port: 1 },
    originIdentity: identityDigest(identity),
    proxyIdentity: identityDigest(parentIdentity ?? NO_IDENTITY),
    transport: 'plain',
    upstream: 'u',
    scope: '',
    identity,
    ...(parentIdentity === undefined ? {} : { parentIdentity }),
    context: undefined,
  };
}

const inForce = (...identities: NtlmIdentity[]): Map<string, NtlmIdentity> =>
  new Map(identities.map((one) => [one.principal, one]));

test('R15 both hops go on with the secret in force', () => {
  const secrets = new CurrentSecrets();
  const [origin, parent] = [ntlm('o', 'D\\o', 1), ntlm('p', 'D\\p', 1)];
  const [newOrigin, newParent] = [ntlm('o', 'D\\O', 2), ntlm('p', 'D\\p', 2)];
  secrets.use(inForce(origin, parent));
  const before = input(origin, parent);
  assert.equal(secrets.apply(before), before);
  secrets.use(inForce(newOrigin, newParent));
  assert.deepEqual(secrets.apply(before), input(newOrigin, newParent));
  assert.deepEqual(secrets.apply(input(NO_IDENTITY, parent)), input(NO_IDENTITY, newParent));
  assert.deepEqual(secrets.apply(input(origin)), input(newOrigin));
});

test('R14 a name that is gone or means another account changes nobody', () => {
  const secrets = new CurrentSecrets();
  const [one, two] = [ntlm('one', 'D\\one', 1), ntlm('two', 'D\\two', 1)];
  secrets.use(inForce(one, two));
  secrets.use(inForce(ntlm('one', 'D\\other', 2)));
  for (const who of [one, two]) {
    const before = input(who, who);
    assert.equal(secrets.apply(before), before);
  }
});

test('what a caller brought is never exchanged for a secret of the configuration', () => {
  const secrets = new CurrentSecrets();
  const brought = ntlm('caller', 'D\\alice', 7);
  secrets.use(inForce(ntlm('caller', 'D\\alice', 1)));
  const before = input(brought);
  assert.equal(secrets.apply(before), before);
});
