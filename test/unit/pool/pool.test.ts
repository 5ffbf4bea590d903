/** Lending, taking back, and what a connection has to be to be lent again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { identityDigest } from '../../../src/identity/digest.ts';
import { createNtlmIdentity, NO_IDENTITY } from '../../../src/identity/identity.ts';
import type { CloseReason } from '../../../src/pool/connection.ts';
import { ALICE, BOB, facts, FakeRequest, ntlm, PoolWorld } from './pool-world.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

/** What a world with the upstream `crm` counts right now, from both sides. */
function assertBooks(world: PoolWorld): void {
  const metrics = world.of();
  const closed = Object.values(metrics.closedCounts).reduce((sum, value) => sum + value, 0);
  assert.equal(metrics.opened.value - closed, metrics.open);
  assert.equal(world.pool.snapshot().connections, metrics.open);
}

test('a request gets the idle connection of its partition at once', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const [connection] = world.warm(partition);
  const request = world.ask(partition);
  assert.equal(request.lease.connection, connection);
  assert.equal(request.lease.reused, true);
  assert.equal(world.openings.length, 1);
  assert.deepEqual(world.of().leaseCounts, { new: 1, hit: 1 });
});

test('the first lease of a connection is not a reused one', () => {
  const world = new PoolWorld();
  assert.equal(world.connect(world.partition()).lease.reused, false);
});

test('the connection that became idle last is lent first', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const connections = world.warm(partition, 3);
  const leased = connections.map(() => world.ask(partition).lease.connection);
  assert.deepEqual(leased, connections.toReversed());
});

test('R1 a connection is not lent to another principal', () => {
  const world = new PoolWorld();
  const [ofAlice] = world.warm(world.partition({ identity: ALICE }));
  const bob = world.connect(world.partition({ identity: BOB }));
  assert.notEqual(bob.lease.connection, ofAlice);
  assert.deepEqual(ofAlice?.carried, ['request']);
});

test('R2 a request without a login does not get a tied connection, nor the other way round', () => {
  const world = new PoolWorld();
  const [tied] = world.warm(world.partition({ identity: ALICE }));
  const plain = world.connect(world.partition({ identity: NO_IDENTITY }));
  assert.notEqual(plain.lease.connection, tied);
  plain.lease.release();
  assert.equal(world.ask(world.partition({ identity: ALICE })).lease.connection, tied);
  assert.deepEqual(
    [world.of().gauges.tied.leased, world.of().gauges.untied.idle],
    [1, 1],
    'each is counted under its own binding',
  );
});

test('R13 a request that needs TLS does not get a connection without it', () => {
  const world = new PoolWorld();
  const plain = { nextHop: { host: 'crm.example', port: 443, tls: false } };
  world.warm(world.partition(plain));
  world.ask(world.partition());
  assert.equal(world.openings.length, 2);
});

test('R14 a lease gives back to the partition it was taken from, whatever changed since', () => {
  const world = new PoolWorld();
  const context = { spn: 'HTTP/crm.example' };
  const input = { ...facts(), context };
  const partition = world.pool.partition(input);
  const request = world.connect(partition);
  // What a challenge might have taught: the facts that the key was made of are not read again.
  Object.assign(input, { scope: 'other', originIdentity: identityDigest(BOB) });
  context.spn = 'HTTP/other.example';
  request.lease.release();
  assert.equal(partition.idle.length, 1);
  assert.equal(world.partition({ context }), partition);
  assert.equal(world.ask(world.pool.partition(input)).leases.length, 0);
});

test('R14 equal facts give the same partition, and different ones never', () => {
  const world = new PoolWorld();
  assert.equal(world.partition(), world.partition());
  assert.notEqual(world.partition(), world.partition({ scope: 'other' }));
});

test('R20 an untied connection stays with requests without a login', () => {
  const world = new PoolWorld();
  const plain = world.partition({ identity: NO_IDENTITY });
  const [connection] = world.warm(plain);
  world.ask(world.partition({ identity: ALICE }));
  assert.equal(connection?.carried.length, 1);
  assert.equal(world.ask(plain).lease.connection, connection);
});

test('R22 a request without a partition gets no connection', () => {
  const world = new PoolWorld();
  world.warm(world.partition({ identity: NO_IDENTITY }));
  const request = new FakeRequest('without context');
  assert.throws(() => {
    // @ts-expect-error A partition is not optional.
    world.pool.acquire(undefined, request);
  }, TypeError);
  assert.throws(() => world.partition({ upstream: 'unknown' }), { code: 'internal' });
  assert.deepEqual([request.leases, world.openings.length], [[], 1]);
});

test('R24 a partition carries the settings of its own route to the opener', () => {
  const world = new PoolWorld();
  const strict = world.partition({ transport: 'strict', context: { timeoutMs: 1 } });
  const loose = world.partition({ transport: 'loose', context: { timeoutMs: 2 } });
  world.ask(strict);
  world.ask(loose);
  assert.deepEqual(
    world.openings.map(({ partition }) => partition.context),
    [{ timeoutMs: 1 }, { timeoutMs: 2 }],
  );
});

test('R40 a byte or a FIN on an idle connection closes it', () => {
  for (const reason of ['unsolicited', 'peer'] as const) {
    const world = new PoolWorld();
    const partition = world.partition();
    const [connection] = world.warm(partition);
    connection?.watching?.(reason);
    assert.deepEqual(connection?.destroyed, [reason]);
    assert.equal(world.ask(partition).leases.length, 0);
    assert.deepEqual(world.of().closedCounts, { [reason]: 1 });
    assertBooks(world);
  }
});

test('R40 a connection that broke unseen is closed at lease time, and the next idle one is lent', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const [good, bad, worse] = world.warm(partition, 3);
  for (const connection of [bad, worse]) if (connection !== undefined) connection.reusable = false;
  assert.equal(world.ask(partition).lease.connection, good);
  assert.deepEqual([bad?.destroyed, worse?.destroyed], [['peer'], ['peer']]);
  assertBooks(world);
});

test('R40 a connection that breaks while it is put away is not kept', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const request = world.connect(partition);
  const { connection } = request.lease;
  connection.watchIdle = (broken): void => broken('unsolicited');
  request.lease.release();
  assert.deepEqual(connection.destroyed, ['unsolicited']);
  assert.equal(partition.idle.length, 0);
  assertBooks(world);
});

test("R40 a report that comes after the connection was leased again is nobody's", () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const [connection] = world.warm(partition);
  const report = connection?.watching;
  const request = world.ask(partition);
  assert.equal(connection?.watching, undefined);
  report?.('peer');
  assert.deepEqual(connection?.destroyed, []);
  request.lease.discard('error');
  report?.('peer');
  assert.deepEqual(connection?.destroyed, ['error']);
  assertBooks(world);
});

test('R43 an idle connection closes after the idle limit, within 100 ms', () => {
  const world = new PoolWorld({ upstreams: { crm: { idleMs: 1000 } } });
  const partition = world.partition();
  const [connection] = world.warm(partition);
  world.clock.advance(900);
  world.ask(partition).lease.release();
  world.clock.advance(950);
  assert.deepEqual(connection?.destroyed, []);
  world.clock.advance(150);
  assert.deepEqual(connection?.destroyed, ['idle']);
  assertBooks(world);
});

test('R43 each idle connection has its own limit, also when the latest ends first', () => {
  const world = new PoolWorld({ upstreams: { crm: { idleMs: 5000, maxAgeMs: 60_000 } } });
  const partition = world.partition();
  const first = world.ask(partition);
  world.openNext();
  const second = world.ask(partition);
  world.openNext(world.clock.now() + 1000);
  first.lease.release();
  second.lease.release();
  world.clock.advance(1100);
  assert.deepEqual(second.lease.connection.destroyed, ['age']);
  assert.deepEqual(first.lease.connection.destroyed, []);
  world.clock.advance(4000);
  assert.deepEqual(first.lease.connection.destroyed, ['idle']);
});

test('R43 a connection is never older than the limit or its own end, whichever is earlier', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxAgeMs: 10_000, idleMs: 60_000 } } });
  const partition = world.partition();
  const byAge = world.connect(partition);
  const byEnd = world.ask(partition);
  world.openNext(world.clock.now() + 3000);
  world.clock.advance(3000);
  byEnd.lease.release();
  byAge.lease.release();
  assert.deepEqual(byEnd.lease.connection.destroyed, ['age'], 'on its way back');
  world.clock.advance(7100);
  assert.deepEqual(byAge.lease.connection.destroyed, ['age'], 'while idle');
});

test('R43 the idle limit holds at lease time when no sweep came in between', () => {
  const world = new PoolWorld({ upstreams: { crm: { idleMs: 1000 } } });
  const partition = world.partition();
  const [connection] = world.warm(partition);
  world.clock.deadlines.disarm(partition.books.sweep);
  world.clock.advance(1000);
  assert.equal(world.ask(partition).leases.length, 0);
  assert.deepEqual(connection?.destroyed, ['idle']);
});

test('R43 the age limit holds at lease time when no sweep came in between', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxAgeMs: 1000, idleMs: 60_000 } } });
  const partition = world.partition();
  const [connection] = world.warm(partition);
  world.clock.deadlines.disarm(partition.books.sweep);
  world.clock.advance(1000);
  assert.equal(world.ask(partition).leases.length, 0);
  assert.deepEqual(connection?.destroyed, ['age']);
});

test('R45 a lease that is ended again changes nothing and is counted', () => {
  const endings: readonly ((request: FakeRequest) => void)[] = [
    (request) => request.lease.release(),
    (request) => request.lease.discard('error'),
  ];
  for (const first of endings) {
    for (const second of endings) {
      const world = new PoolWorld();
      const request = world.connect(world.partition());
      first(request);
      const before = JSON.stringify([world.of().closedCounts, world.pool.snapshot()]);
      second(request);
      assert.equal(world.violations, 1);
      assert.equal(JSON.stringify([world.of().closedCounts, world.pool.snapshot()]), before);
      assertBooks(world);
    }
  }
});

test('R45 an ended lease has no power over a later lease of the same connection', () => {
  const world = new PoolWorld();
  const partition = world.partition();
  const early = world.connect(partition);
  early.lease.release();
  const late = world.ask(partition);
  early.lease.discard('error');
  early.lease.release();
  assert.deepEqual(late.lease.connection.destroyed, []);
  assert.equal(world.of().gauges.tied.leased, 1);
  assert.equal(world.violations, 2);
});

test('R45 every way a connection can end gives its permit back once', () => {
  const ways: Readonly<Record<string, (world: PoolWorld, request: FakeRequest) => void>> = {
    error: (_, { lease }) => lease.discard('error'),
    auth_failed: (_, { lease }) => lease.discard('auth_failed'),
    max_requests: (_, { lease }) => lease.release(),
    peer: (_, { lease }) => {
      lease.connection.reusable = false;
      lease.release();
    },
    age: (world, { lease }) => {
      world.clock.advance(10_000);
      lease.release();
    },
    rotated: (world, { lease }) => {
      world.pool.retirePrincipal('alice', 'rotated');
      lease.release();
    },
    flushed: (world, { lease }) => {
      world.pool.retireWhere(({ upstream }) => upstream === 'crm', 'flushed');
      lease.release();
    },
    shutdown: (world, { lease }) => {
      world.pool.close();
      lease.release();
    },
  };
  for (const [reason, end] of Object.entries(ways)) {
    const limits = { maxAgeMs: 10_000, maxRequests: reason === 'max_requests' ? 1 : 0 };
    const world = new PoolWorld({ upstreams: { crm: limits } });
    const request = world.connect(world.partition());
    const { connection } = request.lease;
    end(world, request);
    assert.deepEqual(connection.destroyed, [reason as CloseReason]);
    assert.deepEqual(world.of().closedCounts, { [reason]: 1 });
    assert.equal(world.of().open, 0, reason);
    assert.deepEqual(world.of().carried, [1]);
    assertBooks(world);
  }
});

test('a connection carries as many requests as its limit says, and none more', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxRequests: 3 } } });
  const partition = world.partition();
  for (let i = 0; i < 4; i += 1) world.connect(partition).lease.release();
  assert.equal(world.openings.length, 2);
  assert.deepEqual(world.of().carried, [3]);
});

test('R46 no secret and no digest shows in a snapshot or a refusal', () => {
  const canary = Buffer.from('canary-of-alice!');
  const ntHash = ntHashSecret(canary);
  const identity = createNtlmIdentity({
    principal: 'alice',
    username: 'CORP\\alice-account',
    workstation: 'W',
    ntHash,
  });
  const world = new PoolWorld({ upstreams: { crm: { maxConnections: 1, maxWaiters: 1 } } });
  const partition = world.partition({ identity });
  world.connect(partition);
  const requests = [world.ask(partition), world.ask(partition)];
  world.clock.advance(6000);
  const printed = [
    JSON.stringify(world.pool.snapshot()),
    ...requests.flatMap(({ errors }) => errors.map((error) => inspect(error))),
    inspect(partition, { depth: 5 }),
    inspect(world.pool, { depth: 5, showHidden: true }),
  ].join('\n');
  assert.ok(printed.includes('pool-queue-full') && printed.includes('pool-wait-timeout'));
  const hidden = [canary.toString(), canary.toString('hex'), canary.toString('base64')];
  for (const text of hidden) assert.ok(!printed.includes(text), text);
  assert.ok(!JSON.stringify(world.pool.snapshot()).includes(identityDigest(identity).slice(0, 8)));
});

test('a snapshot says what is where, in plain data', () => {
  const world = new PoolWorld({ upstreams: { crm: { maxPerPrincipal: 2 }, site: {} } });
  const alice = world.partition();
  world.warm(alice, 2);
  world.ask(alice);
  world.clock.advance(500);
  world.ask(world.partition({ identity: ntlm('bob') }));
  world.ask(world.partition({ identity: ntlm('carol'), upstream: 'site' }));
  const { connections, upstreams } = world.pool.snapshot();
  assert.equal(connections, 4);
  assert.deepEqual(
    upstreams.map(({ upstream, counts, waiters }) => ({ upstream, ...counts, waiters })),
    [
      { upstream: 'crm', opening: 1, leased: 1, idle: 1, draining: 0, waiters: 0 },
      { upstream: 'site', opening: 1, leased: 0, idle: 0, draining: 0, waiters: 0 },
    ],
  );
  const [first] = upstreams[0]?.partitions ?? [];
  assert.deepEqual(
    { ...first, id: 'id' },
    {
      id: 'id',
      retired: false,
      principal: 'alice',
      counts: { opening: 0, leased: 1, idle: 1, draining: 0 },
      waiters: 0,
      oldestMs: 500,
      waitingMs: undefined,
      requests: 3,
    },
  );
});
