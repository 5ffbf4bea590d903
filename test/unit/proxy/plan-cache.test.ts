/** Whose plans a forward listener keeps, how many, and how long. */
import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'node:test';
import { createNtlmIdentity, type Identity } from '../../../src/identity/identity.ts';
import type { HopIdentities } from '../../../src/proxy/hop-identities.ts';
import { PlanCache } from '../../../src/proxy/plan-cache.ts';
import { until } from '../../support/waiting.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

const identity = (username: string): Identity =>
  createNtlmIdentity({
    principal: 'caller',
    username,
    workstation: 'W',
    ntHash: ntHashSecret(),
  });

function caller(username: string, self = identity(username)): HopIdentities {
  const nobody = (): never => assert.fail('not asked');
  return { key: username, self, atParent: nobody, atOrigin: nobody };
}

/** As a plan is: it knows as whom it is. */
const plan = (self: Identity): object => ({ self });

test('a caller gets what was kept for him, and nobody else does (R1)', () => {
  const cache = new PlanCache<object>(10);
  const [alice, bob] = [caller('alice'), caller('bob')];
  const kept = plan(alice.self);
  cache.keep('a.test:443', alice, kept);
  assert.equal(cache.find('a.test:443', alice), kept);
  assert.equal(cache.find('a.test:443', bob), undefined);
  assert.equal(cache.find('b.test:443', alice), undefined);
  // Two who are one identity to every hop, and not to a login of their own.
  assert.equal(cache.find('a.test:443', caller('carol', alice.self)), undefined);
});

test('the one used longest ago goes first, whose ever it is (I12)', () => {
  const cache = new PlanCache<object>(2);
  const [alice, bob] = [caller('alice'), caller('bob')];
  cache.keep('a', alice, plan(alice.self));
  cache.keep('b', bob, plan(bob.self));
  cache.find('a', alice);
  cache.keep('c', bob, plan(bob.self));
  assert.deepEqual(
    [cache.find('a', alice), cache.find('b', bob), cache.find('c', bob)].map(Boolean),
    [true, false, true],
  );
});

test('it keeps no identity that is used nowhere else (R46)', async () => {
  const cache = new PlanCache<object>(10);
  const gone = new WeakRef(caller('alice').self);
  const keep = (self: Identity | undefined): void => {
    if (self !== undefined) cache.keep('a', caller('alice', self), plan(self));
  };
  keep(gone.deref());
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await until(() => {
    collect();
    return gone.deref() === undefined;
  }, 'the identity is gone');
});
