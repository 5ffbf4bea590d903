/** Caps, eviction, the queue, and the bound on partitions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NO_IDENTITY } from '../../../src/identity/identity.ts';
import { ALICE, BOB, type FakePartition, ntlm, PoolWorld, WIDE } from './pool-world.ts';

const SITE = { upstream: 'site' } as const;

test('R44 a principal has no more connections at an upstream than its cap, over all partitions', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 2 }, site: {} } });
  const one = world.partition({ scope: 'one' });
  const two = world.partition({ scope: 'two' });
  world.connect(one);
  world.connect(two);
  assert.equal(world.ask(one).leases.length, 0);
  assert.equal(world.pendingCount, 0);
  world.ask(world.partition({ identity: BOB }));
  world.ask(world.partition(SITE));
  assert.equal(world.pendingCount, 2, 'another principal and another upstream are free to open');
});

test('R44 without a login the cap of a principal does not apply', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 1, maxConnections: 3 } } });
  const partition = world.partition({ identity: NO_IDENTITY });
  for (let i = 0; i < 5; i += 1) world.ask(partition);
  assert.equal(world.openings.length, 3);
});

test('R44 an upstream has no more connections than its cap, openings included', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 2 }, site: {} } });
  world.connect(world.partition());
  world.ask(world.partition({ identity: BOB }));
  world.ask(world.partition({ identity: ntlm('carol') }));
  assert.equal(world.openings.length, 2);
  world.ask(world.partition(SITE));
  assert.equal(world.openings.length, 3);
});

test('R44 all upstreams together have no more connections than the cap of the pool', () => {
  const limits = { upstreamConnections: 2 };
  const world = new PoolWorld({ limits, upstreams: { crm: {}, site: {} } });
  world.connect(world.partition());
  world.ask(world.partition(SITE));
  world.ask(world.partition({ identity: BOB }));
  world.ask(world.partition({ ...SITE, identity: BOB }));
  assert.equal(world.openings.length, 2);
});

test('R44 at the cap of an upstream, its least recently used idle connection makes room', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 3 } } });
  const [ofAlice] = world.warm(world.partition());
  const [ofBob] = world.warm(world.partition({ identity: BOB }));
  world.connect(world.partition({ identity: ntlm('carol') }));
  // Alice's becomes the more recently used one.
  world.ask(world.partition()).lease.release();
  world.ask(world.partition({ identity: ntlm('dave') }));
  assert.deepEqual([ofAlice?.destroyed, ofBob?.destroyed], [[], ['evicted']]);
  assert.equal(world.pendingCount, 1);
});

test('R44 at the cap of the pool, the least recently used idle connection of all makes room', () => {
  const limits = { upstreamConnections: 2 };
  const world = new PoolWorld({ limits, upstreams: { crm: {}, site: {} } });
  const [atSite] = world.warm(world.partition(SITE));
  const [atCrm] = world.warm(world.partition());
  world.ask(world.partition({ identity: BOB }));
  assert.deepEqual([atSite?.destroyed, atCrm?.destroyed], [['evicted'], []]);
});

test('R44 at the cap of a principal, only an idle connection of its own makes room', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 1 } } });
  const [ofBob] = world.warm(world.partition({ identity: BOB }));
  const [ofAlice] = world.warm(world.partition({ scope: 'one' }));
  world.ask(world.partition({ scope: 'two' }));
  assert.deepEqual([ofBob?.destroyed, ofAlice?.destroyed], [[], ['evicted']]);
  assert.equal(world.pendingCount, 1);
});

test('R44 nothing is evicted for a request that could not open all the same', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 2, maxHandshakes: 1 } } });
  const [idle] = world.warm(world.partition());
  world.ask(world.partition({ identity: BOB }));
  world.ask(world.partition({ identity: ntlm('carol') }));
  assert.deepEqual(idle?.destroyed, []);
  world.gate = (): boolean => false;
  world.openNext();
  assert.deepEqual(idle?.destroyed, []);
});

test('R44 a connection that becomes idle makes room for a waiter of another partition', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const alice = world.connect(world.partition());
  const bob = world.ask(world.partition({ identity: BOB }));
  alice.lease.release();
  assert.deepEqual(alice.lease.connection.destroyed, ['evicted']);
  world.openNext();
  assert.equal(bob.leases.length, 1);
});

test('with a full shelf the least recently used idle connection goes, not the one that comes back', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxIdle: 2 } } });
  const [first, second] = world.warm(world.partition(), 2);
  const [third] = world.warm(world.partition({ identity: BOB }));
  assert.deepEqual(
    [first, second, third].map((connection) => connection?.destroyed),
    [['evicted'], [], []],
  );
});

test('without a shelf every connection closes when it comes back', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxIdle: 0 } } });
  const [connection] = world.warm(world.partition());
  assert.deepEqual(connection?.destroyed, ['evicted']);
  assert.equal(world.of().open, 0);
});

test('requests of a partition are served in the order they came', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const partition = world.partition();
  const holder = world.connect(partition, 'a');
  const waiting = ['b', 'c', 'd'].map((name) => world.ask(partition, name));
  holder.lease.release();
  for (const { lease } of waiting) lease.release();
  assert.deepEqual(holder.lease.connection.carried, ['a', 'b', 'c', 'd']);
  assert.deepEqual(world.of().leaseCounts, { new: 1, waited: 3 });
});

test('a released connection goes to its own partition before older waiters of others', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const alice = world.connect(world.partition());
  const bob = world.ask(world.partition({ identity: BOB }));
  const again = world.ask(world.partition());
  alice.lease.release();
  assert.deepEqual([again.leases.length, bob.leases.length], [1, 0]);
});

test('a freed permit goes to the oldest waiter that may use it', () => {
  const upstreams = { crm: { maxConnections: 3, maxPerPrincipal: 2 } };
  const world = new PoolWorld({ upstreams });
  const alice = [1, 2].map(() => world.connect(world.partition()));
  const bob = world.connect(world.partition({ identity: BOB }));
  world.ask(world.partition(), 'alice, over her cap');
  world.ask(world.partition({ identity: ntlm('carol') }), 'carol');
  world.ask(world.partition({ identity: ntlm('dave') }), 'dave');
  bob.lease.discard('error');
  assert.equal(world.pending.request, 'carol');
  world.openNext();
  alice[0]?.lease.discard('error');
  assert.equal(world.pending.request, 'alice, over her cap');
});

test('a freed permit goes by arrival, not by which partition was waited for first', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const holder = world.connect(world.partition({ identity: ntlm('carol') }));
  const gone = world.ask(world.partition());
  world.ask(world.partition({ identity: BOB }), 'bob');
  world.ask(world.partition(), 'alice');
  world.pool.cancel(gone);
  holder.lease.discard('error');
  assert.equal(world.pending.request, 'bob');
});

test('a request that asks from inside a callback does not overtake those who wait', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const holder = world.connect(world.partition());
  const bob = world.ask(world.partition({ identity: BOB }), 'bob');
  world.ask(world.partition({ identity: ntlm('carol') }), 'carol');
  bob.onRefused = (): void => {
    world.onOpen = (): void => undefined;
    world.ask(world.partition({ identity: ntlm('dave') }), 'dave');
  };
  world.onOpen = (opening) => opening.fail();
  holder.lease.discard('error');
  assert.equal(world.pending.request, 'carol');
  assert.equal(world.pendingCount, 1);
});

test('a request does not overtake its own partition when the gate opened unnoticed', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  world.gate = ({ openings }): boolean => openings.size > 0;
  world.ask(partition, 'first');
  world.gate = ({ openings }): boolean => openings.size === 0;
  world.ask(partition, 'second');
  assert.deepEqual(
    world.openings.map(({ request }) => request),
    ['first'],
  );
});

test('a request waits no longer than its deadline, within 100 ms', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1, waitMs: 250 } } });
  const holder = world.connect(world.partition());
  world.clock.advance(13);
  const request = world.ask(world.partition());
  world.clock.advance(249);
  assert.equal(request.refusal, undefined);
  world.clock.advance(101);
  assert.equal(request.refusal, 'pool-wait-timeout');
  assert.deepEqual(world.of().leaseCounts, { new: 1, timeout: 1 });
  assert.ok((world.of().waits[0] ?? 0) >= 0.25);
  holder.lease.release();
  assert.equal(request.leases.length, 0);
  assert.equal(world.of().gauges.waiters, 0);
});

test('the deadline of the queue ends when the opening begins', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1, waitMs: 250 } } });
  const holder = world.connect(world.partition());
  const request = world.ask(world.partition());
  holder.lease.discard('error');
  world.clock.advance(10_000);
  assert.equal(request.refusal, undefined);
  world.openNext();
  assert.equal(request.leases.length, 1);
});

test('a full queue refuses at once and says when to come back', () => {
  const upstreams = { crm: { maxConnections: 1, maxWaiters: 2, waitMs: 5000 }, site: {} };
  const world = new PoolWorld({ upstreams });
  const [alice, bob] = [world.partition(), world.partition({ identity: BOB })];
  world.connect(alice);
  assert.equal(world.ask(alice).refusal, undefined);
  assert.equal(world.ask(bob).refusal, undefined);
  const refused = world.ask(bob);
  assert.equal(refused.refusal, 'pool-queue-full');
  assert.equal(refused.errors[0]?.retryAfterMs, 5000);
  assert.deepEqual(world.of().leaseCounts, { new: 1, rejected: 1 });
  world.ask(world.partition(SITE));
  assert.equal(world.pendingCount, 1, 'the queue of one upstream does not fill another');
});

test('a request that left the queue is not served, and the next one moves up', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const holder = world.connect(world.partition());
  const gone = world.ask(world.partition());
  const next = world.ask(world.partition());
  world.pool.cancel(gone);
  world.pool.cancel(gone);
  holder.lease.release();
  assert.deepEqual([gone.leases.length, gone.errors.length, next.leases.length], [0, 0, 1]);
  world.clock.advance(10_000);
  assert.equal(gone.errors.length, 0);
});

test('a request that was served cannot be cancelled any more', () => {
  const world = new PoolWorld();
  const request = world.connect(world.partition());
  world.pool.cancel(request);
  assert.deepEqual(request.lease.connection.destroyed, []);
  request.lease.release();
  assert.equal(world.violations, 0);
});

test('R44 the partition unused for longest retires when there is no room for another', () => {
  const world = new PoolWorld({ limits: { partitions: 2 } });
  const alice = world.partition();
  const bob = world.partition({ identity: BOB });
  const [ofAlice] = world.warm(alice);
  const [ofBob] = world.warm(bob);
  world.ask(alice).lease.release();
  const carol = world.partition({ identity: ntlm('carol') });
  assert.deepEqual([alice.retired, bob.retired, carol.retired], [false, true, false]);
  assert.deepEqual([ofAlice?.destroyed, ofBob?.destroyed], [[], ['evicted']]);
  assert.equal(world.of().gauges.partitions, 2);
  const again = world.partition({ identity: BOB });
  assert.notEqual(again, bob);
});

test('R44 a partition that leases, opens or is waited for stays, and the newcomer is refused', () => {
  const world = new PoolWorld({
    limits: { partitions: 1 },
    upstreams: { crm: { maxConnections: 1 } },
  });
  const alice = world.partition();
  const request = world.ask(alice);
  const bob = world.partition({ identity: BOB });
  assert.equal(world.ask(bob).refusal, 'connection-limit');
  world.openNext();
  const waiting = world.ask(alice);
  assert.equal(world.ask(bob).refusal, 'connection-limit');
  request.lease.release();
  assert.equal(world.ask(bob).refusal, 'connection-limit');
  waiting.lease.release();
  world.ask(bob);
  assert.equal(world.pending.partition, bob);
  assert.equal(alice.retired, true);
  assert.equal(world.partition({ identity: BOB }), bob);
});

test('R44 of two partitions with one key, only the one that got in is used', () => {
  const world = new PoolWorld({ limits: { partitions: 1 } });
  const holder = world.connect(world.partition({ identity: ALICE }));
  const [one, two] = [world.partition({ identity: BOB }), world.partition({ identity: BOB })];
  holder.lease.release();
  world.ask(one);
  const refused = world.ask(two);
  assert.equal(refused.errors[0]?.retry, 'safe');
  assert.deepEqual([two.retired, world.partition({ identity: BOB })], [true, one]);
});

test('new limits of an upstream hold at once for what is idle, and for the rest on return', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 4 } } });
  const leased = [1, 2].map(() => world.connect(world.partition({ identity: BOB })));
  world.warm(world.partition(), 2);
  world.pool.addUpstream('crm', { ...WIDE, maxConnections: 1 });
  assert.deepEqual(world.of().closedCounts, { evicted: 2 });
  leased[0]?.lease.release();
  assert.equal(world.of().open, 1);
  leased[1]?.lease.release();
  assert.deepEqual([world.of().open, world.of().gauges.tied.idle], [1, 1]);
});

test('a lowered cap of a principal holds for what comes back', () => {
  const world = new PoolWorld();
  const leased = [1, 2, 3].map(() => world.connect(world.partition()));
  const [idle] = world.warm(world.partition({ scope: 'other' }));
  world.pool.addUpstream('crm', { ...WIDE, maxPerPrincipal: 2 });
  assert.deepEqual(idle?.destroyed, ['evicted']);
  for (const { lease } of leased) lease.release();
  assert.deepEqual(
    leased.map(({ lease }) => lease.connection.destroyed),
    [['evicted'], [], []],
  );
});

test('wider limits of an upstream serve those who wait', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  world.connect(world.partition());
  world.ask(world.partition());
  world.pool.addUpstream('crm', WIDE);
  assert.equal(world.pendingCount, 1);
});

test('R44 maxPerPrincipal binds the identity at a parent where there is none at the origin', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 2 } } });
  const tunnel = (host: string, parentIdentity: typeof ALICE): FakePartition => {
    const origin = { scheme: 'tunnel', host, port: 443 };
    return world.partition({ identity: NO_IDENTITY, parentIdentity, origin });
  };
  world.connect(tunnel('a.example', ALICE));
  world.connect(tunnel('b.example', ALICE));
  world.ask(tunnel('c.example', ALICE));
  assert.equal(world.pendingCount, 0);
  assert.equal(world.ask(tunnel('c.example', BOB)).leases.length, 0);
  assert.equal(world.pendingCount, 1);
});
