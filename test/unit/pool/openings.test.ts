/** Connections in the making: whose they are, and how they end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ProxyError } from '../../../src/errors.ts';
import { BOB, failure, FakeConnection, FakeRequest, PoolWorld } from './pool-world.ts';

test('R16 a connection in the making is lent to nobody but the request it is made for', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const partition = world.partition();
  const owner = world.ask(partition, 'owner');
  const other = world.ask(partition, 'other');
  assert.deepEqual([owner.leases.length, other.leases.length], [0, 0]);
  assert.deepEqual(
    world.openings.map(({ request }) => request),
    ['owner'],
  );
  const connection = world.openNext();
  assert.deepEqual(connection.carried, ['owner']);
  owner.lease.release();
  assert.deepEqual(connection.carried, ['owner', 'other']);
});

test('R16 a request at its own opening does not take a connection that others release', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const leased = world.connect(partition);
  const opening = world.ask(partition);
  leased.lease.release();
  assert.equal(opening.leases.length, 0);
  world.openNext();
  assert.equal(opening.leases.length, 1);
  assert.equal(partition.idle.length, 1);
});

test('R17 an opening that fails leaves no connection and tells its own request only', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxHandshakes: 1 } } });
  const partition = world.partition();
  const owner = world.ask(partition, 'owner');
  const other = world.ask(partition, 'other');
  const error = failure('handshake');
  world.failNext(error);
  assert.deepEqual([owner.errors, other.errors], [[error], []]);
  assert.deepEqual(world.of().closedCounts, { auth_failed: 1 });
  assert.equal(world.pending.request, 'other', 'the other one gets an opening of its own');
  world.openNext();
  assert.equal(other.lease.connection.carried.length, 1);
});

test('R17 a cancelled opening is aborted, and what it brings after all is closed', () => {
  const world = new PoolWorld();
  world.onAbort = (opening) => opening.ok(77);
  const request = world.ask(world.partition());
  world.pool.cancel(request);
  assert.deepEqual([request.leases, request.errors], [[], []]);
  assert.deepEqual(world.of().closedCounts, { error: 1 });
  assert.equal(world.of().open, 0);
});

test('R45 the permit of a cancelled opening is free when it ended, not before', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  world.onAbort = (): void => undefined;
  const partition = world.partition();
  const cancelled = world.ask(partition, 'cancelled');
  const next = world.ask(partition, 'next');
  world.pool.cancel(cancelled);
  world.pool.cancel(cancelled);
  assert.equal(world.openings[0]?.aborted, 1);
  assert.deepEqual([world.openings.length, world.of().open], [1, 1]);
  world.failNext();
  assert.equal(world.pending.request, 'next');
  assert.deepEqual([cancelled.errors, next.errors], [[], []]);
  assert.equal(world.of().open, 1);
});

test('R45 an opening that ends inside `abort` gives its permit back there', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const partition = world.partition();
  const cancelled = world.ask(partition);
  const next = world.ask(partition, 'next');
  world.pool.cancel(cancelled);
  assert.deepEqual([world.pending.request, next.errors, world.of().open], ['next', [], 1]);
});

test('R45 an opening that ends twice is counted, and the surplus connection closed', () => {
  const world = new PoolWorld();
  world.ask(world.partition());
  const opening = world.pending;
  opening.ok(1);
  const surplus = opening.ok(2);
  opening.fail();
  assert.equal(world.violations, 2);
  assert.deepEqual(surplus.destroyed, ['error']);
  assert.equal(world.of().open, 1);
});

test('an opening may succeed or fail before `open` returns', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  world.onOpen = (opening) => opening.ok(1);
  assert.equal(world.ask(partition).leases.length, 1);
  world.onOpen = (opening) => opening.fail();
  const failed = world.ask(partition);
  assert.equal(failed.refusal, 'connect-failed');
  assert.deepEqual([world.of().opened.value, world.of().open], [1, 1]);
  assert.deepEqual(world.of().closedCounts, {}, 'what never began is not a connection that closed');
});

test('a request may be cancelled while its opening begins', () => {
  const world = new PoolWorld();
  const request = new FakeRequest('request');
  world.onOpen = (): void => world.pool.cancel(request);
  world.pool.acquire(world.partition(), request);
  assert.equal(world.openings[0]?.aborted, 1);
  assert.equal(world.of().open, 0);
});

test('an opener that throws is an opening that failed', () => {
  const world = new PoolWorld();
  world.onOpen = (): void => {
    throw new Error('fault of a test');
  };
  const request = world.ask(world.partition());
  assert.equal(request.refusal, 'internal');
  assert.equal(world.of().open, 0);
});

test('a request may look for another connection from inside its refusal', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1, maxWaiters: 0 } } });
  const partition = world.partition();
  const request = new FakeRequest('request');
  request.onRefused = (): void => {
    request.onRefused = (): void => undefined;
    world.pool.acquire(partition, request);
  };
  world.pool.acquire(partition, request);
  world.failNext();
  world.openNext();
  assert.equal(request.leases.length, 1);
  assert.deepEqual(
    request.errors.map(({ code }) => code),
    ['connect-failed'],
  );
});

test('a request that is still looking for a connection cannot look for a second one', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const request = world.ask(partition);
  assert.throws(() => world.pool.acquire(partition, request), ProxyError);
  world.openNext();
  assert.equal(request.leases.length, 1);
});

test('a request that is cancelled while permits are handed on gets no connection', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxHandshakes: 1 } } });
  const partition = world.partition();
  const owner = world.ask(partition, 'owner');
  world.ask(partition, 'next');
  world.onOpen = (): void => world.pool.cancel(owner);
  const connection = world.openNext();
  assert.deepEqual([owner.leases, connection.destroyed], [[], ['error']]);
  assert.equal(world.of().open, 1);
});

test('R38 a request for a fresh connection passes by the idle ones', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const [idle] = world.warm(partition);
  const request = new FakeRequest('fresh');
  world.pool.acquireFresh(partition, request);
  const connection = world.openNext();
  assert.notEqual(connection, idle);
  assert.deepEqual([request.lease.connection, request.lease.reused], [connection, false]);
  assert.deepEqual(idle?.destroyed, []);
});

test('R38 at a cap, a request for a fresh connection has an idle one closed', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1 } } });
  const partition = world.partition();
  const [idle] = world.warm(partition);
  world.pool.acquireFresh(partition, new FakeRequest('fresh'));
  assert.deepEqual(idle?.destroyed, ['evicted']);
  assert.equal(world.pendingCount, 1);
});

test('no more openings are in flight than the limit says', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxHandshakes: 2 } } });
  const requests = [world.partition(), world.partition({ identity: BOB })].flatMap((partition) =>
    [1, 2, 3].map(() => world.ask(partition)),
  );
  for (let left = requests.length; left > 0; left -= 1) {
    assert.equal(world.pendingCount, Math.min(2, left));
    world.openNext();
  }
  assert.ok(requests.every(({ leases }) => leases.length === 1));
});

test('while the opener holds a partition back, its requests wait for what is released', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const first = world.connect(partition);
  world.gate = (): boolean => false;
  const requests = [world.ask(partition), world.ask(partition)];
  assert.equal(world.openings.length, 1);
  first.lease.release();
  assert.deepEqual(
    requests.map(({ leases }) => leases.length),
    [1, 0],
  );
  world.gate = (): boolean => true;
  world.pool.reconsider();
  world.openNext();
  assert.equal(requests[1]?.leases.length, 1);
});

test('one login at a time: a gate on openings lets them through one by one', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  world.gate = ({ openings }): boolean => openings.size === 0;
  const requests = [1, 2, 3].map(() => world.ask(partition));
  for (const request of requests) {
    assert.equal(world.pendingCount, 1);
    world.openNext();
    assert.equal(request.leases.length, 1);
  }
});

test('the age of a connection counts from the end of its opening', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxAgeMs: 1000 } } });
  const request = world.ask(world.partition());
  world.clock.advance(900);
  world.openNext();
  world.clock.advance(900);
  request.lease.release();
  assert.ok(request.lease.connection instanceof FakeConnection);
  assert.deepEqual(request.lease.connection.destroyed, []);
});
