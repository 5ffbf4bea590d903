/**
 * What remembers identity digests may decide faster, never otherwise: the nine tests of the pool key of
 * AsyncHttpClient (pull request 2389), in the terms of this code. A digest is remembered by the identity
 * itself, and by the fields of identities that were made anew.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { identityDigest, IdentityDigests } from '../../../src/identity/digest.ts';
import {
  createCombinedIdentity,
  createNtlmIdentity,
  type Identity,
  NO_IDENTITY,
  type NtlmIdentity,
  ownIdentity,
} from '../../../src/identity/identity.ts';
import { encodePartitionKey, type PartitionFacts } from '../../../src/pool/partition-key.ts';
import { collectGarbage } from '../../support/heap.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';
import { everyVariant, newAccount, newPerson, newTicket } from './every-field.ts';

const KINDS = { ntlm: newAccount, kerberos: newTicket, combined: newPerson } as const;

const facts = (origin: Identity, proxy: Identity): PartitionFacts => ({
  nextHop: { host: 'proxy.test', port: 8080, tls: false },
  origin: { scheme: 'http', host: 'origin.test', port: 80 },
  originIdentity: identityDigest(origin),
  proxyIdentity: identityDigest(proxy),
  transport: 't',
  upstream: 'u',
  scope: 's',
});
const atOrigin = (identity: Identity): string => encodePartitionKey(facts(identity, NO_IDENTITY));
const atProxy = (identity: Identity): string => encodePartitionKey(facts(NO_IDENTITY, identity));

/** An account of its own for each number. */
const account = (index: number): NtlmIdentity =>
  createNtlmIdentity({
    principal: `p${index}`,
    username: `CORP\\u${index}`,
    workstation: 'W',
    ntHash: ntHashSecret(index),
  });

describe('the digest of an identity, remembered', () => {
  test('1 is computed once for an object of ours, and each time for one that may change', () => {
    const digests = new IdentityDigests(100);
    const identity = newAccount();
    const first = digests.of(identity);
    assert.equal(digests.of(identity), first);
    assert.deepEqual(digests.counts, { requests: 2, hits: 1, evictions: 0, entries: 1 });
    const thawed = { ...identity };
    for (const misses of [1, 2, 3]) {
      assert.equal(digests.of(thawed), first);
      assert.equal(digests.counts.requests - digests.counts.hits, misses + 1);
    }
    assert.equal(digests.counts.entries, 1);
  });

  for (const [kind, make] of Object.entries(KINDS)) {
    test(`1 is found on the object itself, whatever table is asked: ${kind}`, () => {
      const first = new IdentityDigests(8);
      const identity = make();
      const digest = first.of(identity);
      const second = new IdentityDigests(8);
      assert.equal(second.of(identity), digest);
      assert.deepEqual(second.counts, { requests: 1, hits: 1, evictions: 0, entries: 0 });
      // An equal one is found in the table that has its fields, and in no other.
      assert.equal(first.of(make()), digest);
      assert.deepEqual(first.counts, { requests: 2, hits: 1, evictions: 0, entries: 1 });
      assert.equal(second.of(make()), digest);
      assert.deepEqual(second.counts, { requests: 2, hits: 1, evictions: 0, entries: 1 });
    });

    test(`2 is the one that is computed without a memory, at both hops: ${kind}`, () => {
      const identity = make();
      const computed = new IdentityDigests(1).of({ ...identity });
      assert.equal(identityDigest(identity), computed);
      assert.equal(identityDigest(identity), computed);
      assert.equal(identityDigest(make()), computed, 'found by its fields');
      assert.equal(atOrigin(identity), atOrigin({ ...identity }));
      assert.equal(atProxy(identity), atProxy({ ...identity }));
    });
  }

  // Threads have keys of their own here (R47), and no identity passes from one to another.
  test('2 two threads never agree on one', async () => {
    const path = (name: string): string =>
      new URL(`../../../src/identity/${name}.ts`, import.meta.url).href;
    const script = `
      import { parentPort } from 'node:worker_threads';
      import { identityDigest } from ${JSON.stringify(path('digest'))};
      import { NO_IDENTITY } from ${JSON.stringify(path('identity'))};
      parentPort.postMessage(identityDigest(NO_IDENTITY));`;
    const source = new URL(`data:text/javascript,${encodeURIComponent(script)}`);
    const answers = await Promise.all(
      [1, 2].map(async () => {
        const { promise, resolve, reject } = Promise.withResolvers<unknown>();
        const worker = new Worker(source);
        worker.once('message', resolve);
        worker.once('error', reject);
        const answer = await promise;
        await worker.terminate();
        return answer;
      }),
    );
    assert.equal(new Set([...answers, identityDigest(NO_IDENTITY)]).size, 3);
  });

  test('3 separates every field at both hops, with everything remembered already', () => {
    const warm = everyVariant();
    for (const { thawed, own } of warm) {
      identityDigest(own ?? thawed);
      identityDigest(ownIdentity(thawed as Parameters<typeof ownIdentity>[0]));
    }
    for (const key of [atOrigin, atProxy]) {
      const keys = warm.map(({ own, thawed }) => key(own ?? thawed));
      assert.equal(new Set(keys).size, warm.length);
      assert.deepEqual(
        everyVariant().map(({ own, thawed }) => key(own ?? thawed)),
        keys,
        'made anew',
      );
    }
  });

  test('4 is shared by equal identities that were made separately', () => {
    for (const make of Object.values(KINDS)) {
      const digests = new IdentityDigests(100);
      const all = Array.from({ length: 50 }, () => digests.of(make()));
      assert.equal(new Set(all).size, 1);
      const { requests, hits } = digests.counts;
      assert.equal(requests - hits, 1, 'one HMAC for all');
    }
  });

  test('5 moves with an object that is changed after it was digested', () => {
    const thawed = { ...newAccount() };
    const before = identityDigest(thawed);
    Object.assign(thawed, { user: 'other' });
    const after = identityDigest(thawed);
    assert.notEqual(after, before);
    assert.equal(after, identityDigest(ownIdentity(thawed)));
    assert.throws(() => Object.assign(newAccount(), { user: 'other' }), TypeError);
  });

  test('5 is never remembered of a combined identity with a part that may change', () => {
    const part = { ...newAccount() };
    const foreign = { ...createCombinedIdentity(newTicket(), newAccount()), ntlm: part };
    const frozen = Object.freeze({ ...foreign });
    const joined = createCombinedIdentity(newTicket(), part);
    const digests = new IdentityDigests(8);
    const all = [foreign, frozen, joined];
    const before = all.map((one) => digests.of(one));
    assert.equal(new Set(before).size, 1);
    Object.assign(part, { user: 'other', ntHash: ntHashSecret(2) });
    const [ofForeign, ofFrozen, ofJoined] = all.map((one) => digests.of(one));
    assert.notEqual(ofForeign, before[0]);
    assert.equal(ofFrozen, ofForeign);
    assert.equal(ofJoined, before[2], 'it was made of a copy');
    assert.equal(digests.counts.entries, 1);
  });

  test('6 stays that of its identity when many share a small memory', () => {
    const digests = new IdentityDigests(16);
    const wanted = Array.from({ length: 200 }, (_, i) => new IdentityDigests(1).of(account(i)));
    assert.equal(new Set(wanted).size, 200);
    for (let round = 0; round < 3; round += 1) {
      for (let i = 0; i < 200; i += 1) {
        const at = (i * 37 + round) % 200;
        assert.equal(digests.of(account(at)), wanted[at]);
        assert.equal(digests.of(account(at)), wanted[at], 'made anew');
      }
    }
    assert.ok(digests.counts.evictions > 100);
    assert.ok(digests.counts.entries <= 16);
  });

  test('7 is kept beside others as long as there is room, and the oldest use makes room', () => {
    const digests = new IdentityDigests(2);
    const misses = (): number => digests.counts.requests - digests.counts.hits;
    const find = (index: number): number => {
      const before = misses();
      digests.of(account(index));
      return misses() - before;
    };
    assert.deepEqual([1, 2, 1, 2].map(find), [1, 1, 0, 0], 'both stay');
    assert.deepEqual([1, 3, 1, 2].map(find), [0, 1, 0, 1], 'what was used last stays');
  });

  test('8 keeps neither the identity nor its secret alive', async () => {
    const made = (): { identity: WeakRef<object>; secret: WeakRef<object> } => {
      const ntHash = ntHashSecret(8_000_001);
      const fields = { principal: 'gone', username: 'CORP\\gone', workstation: 'W', ntHash };
      const identity = createNtlmIdentity(fields);
      identityDigest(identity);
      return { identity: new WeakRef(identity), secret: new WeakRef(ntHash) };
    };
    const { identity, secret } = made();
    // References that were looked at live until the turn is over.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    assert.equal(identity.deref(), undefined);
    assert.equal(secret.deref(), undefined);
  });

  test('9 of an origin login and of the same login at a proxy are two keys', () => {
    for (const make of Object.values(KINDS)) assert.notEqual(atOrigin(make()), atProxy(make()));
    const both = encodePartitionKey(facts(newAccount(), newAccount()));
    assert.equal(new Set([atOrigin(newAccount()), atProxy(newAccount()), both]).size, 3);
  });
});
