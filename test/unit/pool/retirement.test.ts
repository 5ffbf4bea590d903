/** Rotation, flush, drain and shutdown: what exists is not lent again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NO_IDENTITY } from '../../../src/identity/identity.ts';
import { BOB, ntlm, PoolWorld } from './pool-world.ts';

test('R15 after a secret was rotated, nothing of the older generation is lent', () => {
  const world = new PoolWorld();
  const old = world.partition({ identity: ntlm('alice', { secret: 1 }) });
  const leased = world.connect(old);
  const [idle] = world.warm(old);
  world.pool.retirePrincipal('alice', 'rotated');
  assert.deepEqual(idle?.destroyed, ['rotated'], 'idle ones close now');
  const renewed = world.partition({ identity: ntlm('alice', { secret: 2 }) });
  assert.notEqual(renewed, old);
  const request = world.connect(renewed);
  assert.equal(world.of().gauges.tied.draining, 1);
  leased.lease.release();
  assert.deepEqual(leased.lease.connection.destroyed, ['rotated'], 'leased ones close on return');
  request.lease.release();
  assert.equal(world.ask(renewed).lease.connection, request.lease.connection);
});

test('R15 an opening with the older secret is aborted, and its request told to ask again', () => {
  const world = new PoolWorld();
  world.onAbort = (opening) => opening.ok(9);
  const request = world.ask(world.partition());
  world.pool.retirePrincipal('alice', 'rotated');
  assert.deepEqual(request.leases, []);
  assert.deepEqual([request.refusal, request.errors[0]?.retry], ['upstream-closed', 'safe']);
  assert.deepEqual(world.of().closedCounts, { rotated: 1 });
});

test('R15 waiters of the older generation are told to ask again, and may do so at once', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const holder = world.connect(world.partition());
  const waiting = world.ask(world.partition());
  const renewed = { identity: ntlm('alice', { secret: 2 }) };
  waiting.onRefused = (): void => world.pool.acquire(world.partition(renewed), waiting);
  world.pool.retirePrincipal('alice', 'rotated');
  assert.equal(waiting.errors[0]?.retry, 'safe');
  holder.lease.release();
  assert.equal(world.pending.partition, world.partition(renewed));
});

test('R15 a partition that was held since before the rotation lends nothing', () => {
  const world = new PoolWorld();
  const held = world.partition();
  world.warm(held);
  world.pool.retirePrincipal('alice', 'rotated');
  assert.equal(held.retired, true);
  assert.deepEqual([world.ask(held).errors[0]?.retry, world.openings.length], ['safe', 1]);
});

test('R15 a partition that had no room yet does not outlive the rotation', () => {
  const world = new PoolWorld({ limits: { partitions: 1 } });
  const holder = world.connect(world.partition({ identity: BOB }));
  const outside = world.partition({ identity: ntlm('alice') });
  world.pool.retirePrincipal('alice', 'rotated');
  holder.lease.release();
  assert.equal(world.ask(outside).errors[0]?.retry, 'safe');
  assert.equal(outside.retired, true);
});

test('a request that is cancelled by another one of a retired partition is told nothing', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxHandshakes: 1 } } });
  const [first, second] = [world.ask(world.partition()), world.ask(world.partition())];
  for (const request of [first, second]) {
    request.onRefused = (): void => {
      world.pool.cancel(first);
      world.pool.cancel(second);
    };
  }
  world.pool.retirePrincipal('alice');
  assert.equal(first.errors.length + second.errors.length, 1);
  world.ask(world.partition());
  assert.equal(world.pendingCount, 1);
});

test('R50 a flush reaches connections that were leased before it', () => {
  const world = new PoolWorld();
  const leased = [1, 2].map(() => world.connect(world.partition()));
  world.pool.retirePrincipal('alice');
  assert.deepEqual(
    leased.map(({ lease }) => lease.connection.destroyed),
    [[], []],
    'an exchange that runs is not cut',
  );
  leased[0]?.lease.release();
  leased[1]?.lease.discard('error');
  assert.deepEqual(world.of().closedCounts, { flushed: 1, error: 1 });
  assert.deepEqual([world.of().open, world.violations], [0, 0]);
  assert.equal(world.ask(world.partition()).leases.length, 0);
});

test('R50 a snapshot shows a flushed partition as long as something runs in it', () => {
  const world = new PoolWorld();
  world.onAbort = (): void => undefined;
  const shown = (): readonly unknown[] =>
    (world.pool.snapshot().upstreams[0]?.partitions ?? []).map(({ retired, counts }) => [
      retired,
      counts.leased + counts.idle,
      counts.draining,
      counts.opening,
    ]);
  const leased = world.connect(world.partition());
  world.ask(world.partition());
  world.pool.retirePrincipal('alice');
  assert.deepEqual(shown(), [[true, 0, 1, 1]]);
  const bob = world.ask(world.partition({ identity: BOB }));
  world.openings.at(-1)?.ok(5);
  bob.lease.release();
  leased.lease.release();
  assert.deepEqual(shown(), [
    [false, 1, 0, 0],
    [true, 0, 0, 1],
  ]);
  world.failNext();
  assert.deepEqual(shown(), [[false, 1, 0, 0]]);
});

test('R50 a flush leaves other principals alone', () => {
  const world = new PoolWorld();
  world.warm(world.partition());
  const [ofBob] = world.warm(world.partition({ identity: BOB }));
  const [plain] = world.warm(world.partition({ identity: NO_IDENTITY }));
  world.pool.retirePrincipal('alice');
  assert.deepEqual([ofBob?.destroyed, plain?.destroyed], [[], []]);
  assert.deepEqual(world.of().closedCounts, { flushed: 1 });
});

test('R50 a flush reaches the partitions that log in as the principal at a parent proxy', () => {
  const world = new PoolWorld();
  const parent = { identity: NO_IDENTITY, parentIdentity: ntlm('alice') };
  const [connection] = world.warm(world.partition(parent));
  world.pool.retirePrincipal('alice');
  assert.deepEqual(connection?.destroyed, ['flushed']);
});

test('R50 a drain reaches all of an upstream and nothing else', () => {
  const world = new PoolWorld({ upstreams: { crm: {}, site: {} } });
  const leased = world.connect(world.partition());
  const [idle] = world.warm(world.partition({ identity: BOB }));
  const [atSite] = world.warm(world.partition({ upstream: 'site' }));
  world.pool.retireWhere(({ upstream }) => upstream === 'crm', 'flushed');
  leased.lease.release();
  assert.deepEqual(
    [leased.lease.connection, idle, atSite].map((connection) => connection?.destroyed),
    [['flushed'], ['flushed'], []],
  );
});

test('R44 draining connections of a principal count against its cap', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 1 } } });
  const leased = world.connect(world.partition());
  world.pool.retirePrincipal('alice');
  const request = world.ask(world.partition());
  assert.equal(world.pendingCount, 0);
  leased.lease.release();
  world.openNext();
  assert.equal(request.leases.length, 1);
});

test('what a retired partition frees goes to those who wait elsewhere', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const leased = world.connect(world.partition());
  const bob = world.ask(world.partition({ identity: BOB }));
  world.pool.retirePrincipal('alice');
  assert.equal(world.pendingCount, 0);
  leased.lease.release();
  world.openNext();
  assert.equal(bob.leases.length, 1);
});

test('a closed pool closes what is idle, refuses who waits or comes, and waits for leases', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 2 } } });
  const leased = world.connect(world.partition());
  const [idle] = world.warm(world.partition({ identity: BOB }));
  const opening = world.ask(world.partition());
  const waiting = world.ask(world.partition({ scope: 'other' }));
  world.pool.close();
  world.pool.close();
  const late = world.ask(world.partition());
  assert.deepEqual(
    [opening, waiting, late].map(({ refusal }) => refusal),
    ['shutting-down', 'shutting-down', 'shutting-down'],
  );
  assert.deepEqual([idle?.destroyed, leased.lease.connection.destroyed], [['shutdown'], []]);
  leased.lease.release();
  assert.deepEqual(leased.lease.connection.destroyed, ['shutdown']);
  assert.equal(world.of().open, 0);
});

test('R46 a partition that nobody uses is not kept, so that its identity is not either', () => {
  const world = new PoolWorld();
  const [unused, held] = [world.partition(), world.partition({ identity: BOB })];
  const request = world.connect(held);
  world.clock.advance(19 * 60_000);
  assert.equal(unused.retired, false);
  world.clock.advance(2 * 60_000);
  assert.deepEqual([unused.retired, held.retired], [true, false]);
  assert.notEqual(world.partition(), unused);
  request.lease.release();
  world.clock.advance(30 * 60_000);
  assert.equal(held.retired, true);
  assert.deepEqual(
    world.pool.snapshot().upstreams.flatMap(({ partitions }) => partitions),
    [],
  );
  assert.equal(world.connect(world.partition()).leases.length, 1);
});
