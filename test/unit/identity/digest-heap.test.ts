/** What is remembered for a digest keeps nothing secret alive, nor the text that a caller sent (R46). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { identityDigest } from '../../../src/identity/digest.ts';
import { decodeBasic } from '../../../src/inbound/basic-credentials.ts';
import type { BasicCaller } from '../../../src/inbound/caller.ts';
import { CallerIdentities } from '../../../src/proxy/caller-identities.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { collectGarbage, heapHolds } from '../../support/heap.ts';
import { until } from '../../support/waiting.ts';

/** The caller of a field value with this pair, as from a connection. */
function callerOf(pair: Buffer): BasicCaller {
  const value = Buffer.from(`Basic ${pair.toString('base64')}`);
  const caller = decodeBasic(value, 0, value.length);
  assert.ok(caller !== undefined);
  return caller;
}

interface Digested {
  readonly canary: Buffer;
  readonly refs: readonly WeakRef<object>[];
  /** All that keeps them. */
  readonly callers: object[];
}

/** Digests the identity of a caller, in a place of its own so that nothing of it stays on the stack. */
function digestCaller(): Digested {
  // Bytes: as a string it would be on the heap by itself.
  const canary = Buffer.from(randomBytes(12).toString('hex'));
  // A name of this length is a view into what was sent, password and all.
  const caller = callerOf(Buffer.concat([Buffer.from('a-name-of-some-length:'), canary]));
  const identities = new CallerIdentities({
    deadlines: new FakeClock().deadlines,
    max: 1,
    realms: { default: 'CORP.EXAMPLE', known: ['CORP.EXAMPLE'] },
    keepsPasswords: true,
  });
  const identity = identities.of('caller', caller);
  assert.ok(identity.kind === 'combined' && identity.ntlm.password !== undefined);
  const all = [identity, identity.kerberos, identity.ntlm];
  for (const one of all) identityDigest(one);
  const objects = [...all, identity.ntlm.ntHash, identity.ntlm.password, caller, caller.password];
  return { canary, refs: objects.map((one) => new WeakRef(one)), callers: [caller, ...all] };
}

test('R46 a digest keeps neither an identity nor its secrets alive, nor what a caller sent', async () => {
  const { canary, refs, callers } = digestCaller();
  assert.ok(await heapHolds(canary), 'the password of a caller who is here');
  callers.length = 0;
  await until(() => {
    collectGarbage();
    return refs.every((ref) => ref.deref() === undefined);
  }, 'identities, secrets and the caller are gone');
  assert.equal(await heapHolds(canary), false);
});
