/** A caller's own connection serves no request that the daemon makes as somebody else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PinnedConnection, type PinnedPlan } from '../../../src/relay/pinned.ts';
import type { Lease } from '../../../src/pool/lease.ts';
import type { UpstreamConnection } from '../../../src/upstream/connection.ts';
import type { UpstreamPartition } from '../../../src/relay/plan.ts';

const partition = (): UpstreamPartition => ({}) as unknown as UpstreamPartition;

const plan = (pinKey: string, of: UpstreamPartition): PinnedPlan => ({
  pinKey,
  partition: () => of,
});

class FakeLease {
  discarded: string | undefined;
  readonly connection = {
    isReusable: () => true,
    watchIdle: () => undefined,
    unwatchIdle: () => undefined,
  };

  discard(reason: string): void {
    this.discarded = reason;
  }
}

function keep(pinned: PinnedConnection, own: PinnedPlan): FakeLease {
  const lease = new FakeLease();
  pinned.end(lease as unknown as Lease<UpstreamConnection>, own, true);
  return lease;
}

test('it is taken for the same origin as the same one, and for nothing else (R1, R7, R15)', () => {
  const [alice, bob] = [partition(), partition()];
  const pinned = new PinnedConnection(() => undefined);
  const lease = keep(pinned, plan('http://a:80', alice));
  assert.equal(pinned.take(plan('http://b:80', alice)), undefined);
  // Another caller on the same connection, whose login at a parent on the way is another one.
  assert.equal(pinned.take(plan('http://a:80', bob)), undefined);
  assert.equal(pinned.wanted, false);
  assert.equal(pinned.take(plan('http://a:80', alice)), lease);
  assert.equal(pinned.wanted, true);
});

test('it is closed when another one takes its place, and when the caller leaves', () => {
  const pinned = new PinnedConnection(() => undefined);
  const first = keep(pinned, plan('http://a:80', partition()));
  const second = keep(pinned, plan('http://b:80', partition()));
  assert.equal(first.discarded, 'peer');
  pinned.drop();
  assert.equal(second.discarded, 'peer');
});
