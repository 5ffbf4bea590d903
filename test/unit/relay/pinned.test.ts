/** A caller's own connection serves no request that the daemon makes as somebody else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PinnedConnection } from '../../../src/relay/pinned.ts';
import type { Lease } from '../../../src/pool/lease.ts';
import type { UpstreamConnection } from '../../../src/upstream/connection.ts';
import type { UpstreamPartition } from '../../../src/relay/plan.ts';

interface FakePartition {
  retired: boolean;
}

const partition = (): FakePartition => ({ retired: false });

const take = (pinned: PinnedConnection, key: string, of: FakePartition): unknown =>
  pinned.take(key, of as unknown as UpstreamPartition);

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

/** A request on a connection of its own, which is kept then. */
function keep(pinned: PinnedConnection, key: string, of: FakePartition): FakeLease {
  const lease = new FakeLease();
  take(pinned, key, of);
  pinned.end(lease as unknown as Lease<UpstreamConnection>, key, true);
  return lease;
}

test('it is taken for the same origin as the same one, and for nothing else (R1, R7, R15)', () => {
  const [alice, bob] = [partition(), partition()];
  const pinned = new PinnedConnection(() => undefined);
  const lease = keep(pinned, 'http://a:80', alice);
  assert.equal(take(pinned, 'http://b:80', alice), undefined);
  // Another caller on the same connection, whose login at a parent on the way is another one.
  assert.equal(take(pinned, 'http://a:80', bob), undefined);
  assert.equal(pinned.wanted, false);
  assert.equal(take(pinned, 'http://a:80', alice), lease);
  assert.equal(pinned.wanted, true);
});

test('it is closed once its partition was retired, in use or not (R15, R50)', () => {
  const pinned = new PinnedConnection(() => undefined);
  const own = partition();
  const lease = keep(pinned, 'http://a:80', own);
  own.retired = true;
  assert.equal(take(pinned, 'http://a:80', partition()), undefined);
  assert.equal(lease.discarded, 'peer');
  const other = partition();
  const inUse = new FakeLease();
  take(pinned, 'http://a:80', other);
  other.retired = true;
  pinned.end(inUse as unknown as Lease<UpstreamConnection>, 'http://a:80', true);
  assert.equal(inUse.discarded, 'error');
});

test('it is closed when another one takes its place, and when the caller leaves', () => {
  const pinned = new PinnedConnection(() => undefined);
  const first = keep(pinned, 'http://a:80', partition());
  const second = keep(pinned, 'http://b:80', partition());
  assert.equal(first.discarded, 'peer');
  pinned.drop();
  assert.equal(second.discarded, 'peer');
});
