/** The cache of verified tokens: what each mode keeps, what leaves it and why, sweeps, counts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type CacheMode, TokenCache } from '../../../../src/inbound/jwt/token-cache.ts';
import type { VerifiedToken } from '../../../../src/inbound/jwt/verified-token.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { CountedCache, KeptLog } from '../../../support/jwt-world.ts';

const HOUR = 3_600_000;
const MODES: readonly CacheMode[] = ['lru', 'fifo', 'fixed'];

class World {
  readonly clock = new FakeClock();
  readonly counts = new CountedCache();
  readonly log = new KeptLog();
  readonly key = { live: true };
  readonly cache: TokenCache;
  wallShift = 0;

  constructor(mode: CacheMode, max = 3) {
    const { clock, log } = this;
    const deps = { deadlines: clock.deadlines, log, meters: this.counts };
    const wall = (): number => clock.wall() + this.wallShift;
    this.cache = new TokenCache(
      { mode, max },
      { ...deps, clock: { now: () => clock.now(), wall } },
    );
  }

  /** A token that lives for `ms`. */
  token(ms = HOUR, key = this.key): VerifiedToken {
    const caller = { kind: 'jwt', issuer: 'i', subject: 's', claims: {} } as const;
    return { caller, notBeforeMs: this.clock.wall(), expiresMs: this.clock.wall() + ms, key };
  }

  admit(digests: string, ms = HOUR, key = this.key): void {
    for (const digest of digests) this.cache.admit(digest, this.token(ms, key));
  }

  /** Which of the digests hit. */
  held(digests: string): string {
    const found = (digest: string): boolean => this.cache.find(digest) !== undefined;
    return digests.split('').filter(found).join('');
  }
}

for (const mode of MODES) {
  describe(`mode ${mode}`, () => {
    test('gives back the token itself, and counts look-ups and hits', () => {
      const world = new World(mode);
      const token = world.token();
      assert.equal(world.cache.find('a'), undefined);
      world.cache.admit('a', token);
      assert.equal(world.cache.find('a'), token);
      assert.deepEqual([world.counts.requests, world.counts.hits, world.counts.size], [2, 1, 1]);
    });

    test('holds a token until the very millisecond of its end', () => {
      const world = new World(mode);
      world.admit('a', 10_000);
      world.clock.block(9_999);
      assert.equal(world.held('a'), 'a');
      world.clock.block(1);
      assert.equal(world.held('a'), '');
      assert.equal(world.cache.size, 0);
      assert.equal(world.counts.evictions.expired, 1);
    });

    test('does not give a token before its time, but keeps it', () => {
      const world = new World(mode);
      world.admit('a');
      world.wallShift = -1;
      assert.equal(world.held('a'), '');
      world.wallShift = 0;
      assert.equal(world.held('a'), 'a');
    });

    test('gives nothing of a key that died, and forgets it', () => {
      const world = new World(mode);
      const other = { live: true };
      world.admit('a');
      world.admit('b', HOUR, other);
      world.key.live = false;
      assert.equal(world.held('ab'), 'b');
      assert.equal(world.counts.evictions.changed, 1);
      assert.equal(world.cache.size, 1);
    });

    test('admits nothing that is over, nearly over, or of a dead key', () => {
      const world = new World(mode);
      world.admit('a', 4_999);
      world.admit('b', 0);
      world.admit('c', HOUR, { live: false });
      assert.equal(world.cache.size, 0);
      world.admit('d', 5_000);
      assert.equal(world.held('d'), 'd');
    });

    test('never holds more than its maximum', () => {
      const world = new World(mode, 5);
      for (let i = 0; i < 100; i += 1) {
        world.cache.admit(`t${i}`, world.token());
        assert.ok(world.cache.size <= 5);
        assert.equal(world.counts.size, world.cache.size);
      }
    });

    test('admits a token again when the key that verified it is another now', () => {
      const world = new World(mode, 1);
      world.admit('a');
      world.key.live = false;
      world.admit('a', HOUR, { live: true });
      assert.equal(world.held('a'), 'a');
      assert.deepEqual(world.counts.evictions, { full: 0, expired: 0, changed: 1 });
      assert.equal(world.counts.size, 1);
    });

    test('sweeps out within a minute what nobody asks for any more', () => {
      const world = new World(mode, 10);
      world.admit('ab', 30_000);
      world.admit('cd');
      world.clock.advance(60_100);
      assert.equal(world.cache.size, 2);
      assert.equal(world.counts.evictions.expired, 2);
      assert.equal(world.counts.requests, 0);
      world.clock.advance(2 * HOUR);
      assert.equal(world.cache.size, 0);
    });

    test('sweeps dead entries at once when it is told to, a thousand in a tick', () => {
      const world = new World(mode, 5_000);
      for (let i = 0; i < 2_500; i += 1) world.cache.admit(`t${i}`, world.token());
      world.key.live = false;
      world.cache.sweepSoon();
      assert.equal(world.cache.size, 2_500);
      const sizes: number[] = [];
      for (let i = 0; i < 5; i += 1) {
        world.clock.advance(50);
        sizes.push(world.cache.size);
      }
      assert.deepEqual(
        sizes.filter((size, i) => size !== sizes[i - 1]),
        [1_500, 500, 0],
      );
      assert.equal(world.counts.evictions.changed, 2_500);
    });

    test('goes on sweeping in the next minute, and while entries come and go', () => {
      const world = new World(mode, 5_000);
      for (let i = 0; i < 1_500; i += 1) world.cache.admit(`t${i}`, world.token(90_000));
      world.clock.advance(60_200);
      for (let i = 0; i < 1_500; i += 1) world.cache.find(`t${i}`);
      world.admit('abc', 90_000);
      world.clock.advance(60_200);
      assert.equal(world.cache.size, 3);
      assert.equal(world.counts.evictions.expired, 1_500);
      world.clock.advance(60_200);
      assert.equal(world.cache.size, 0);
    });

    test('forgets all when it is closed, and admits nothing then', () => {
      const world = new World(mode);
      world.admit('ab');
      world.cache.close();
      world.admit('c');
      assert.equal(world.held('abc'), '');
      assert.equal(world.counts.size, 0);
      assert.deepEqual(world.counts.evictions, { full: 0, expired: 0, changed: 0 });
      world.clock.advance(70_000);
    });
  });
}

test('lru drops the token used longest ago', () => {
  const world = new World('lru');
  world.admit('abc');
  assert.equal(world.held('a'), 'a');
  world.admit('d');
  assert.equal(world.held('abcd'), 'acd');
  assert.deepEqual(world.counts.evictions, { full: 1, expired: 0, changed: 0 });
});

test('fifo drops the token admitted longest ago, used or not', () => {
  const world = new World('fifo');
  world.admit('abc');
  assert.equal(world.held('a'), 'a');
  world.admit('d');
  assert.equal(world.held('abcd'), 'bcd');
  assert.deepEqual(world.counts.evictions, { full: 1, expired: 0, changed: 0 });
});

describe('a full cache of mode fixed', () => {
  test('keeps what it has, and says so once', () => {
    const world = new World('fixed');
    world.admit('abcdefghi');
    assert.equal(world.held('abcdefghi'), 'abc');
    assert.equal(world.counts.evictions.full, 0);
    const message = 'warn: the token cache is full: more tokens are verified on each request';
    assert.deepEqual(world.log.messages, [message]);
    assert.deepEqual(world.log.lines[0]?.fields, { entries: 3 });
  });

  test('admits again after a sweep, and says so once more when it has filled again', () => {
    const world = new World('fixed');
    world.admit('ab', 30_000);
    world.admit('cd');
    world.clock.advance(60_100);
    world.admit('efgh');
    assert.equal(world.held('abcdefgh'), 'cef');
    assert.equal(world.log.lines.length, 2);
  });

  test('has room for others as soon as the keys were replaced', () => {
    const world = new World('fixed');
    world.admit('abc');
    world.key.live = false;
    world.cache.sweepSoon();
    world.clock.advance(100);
    world.admit('def', HOUR, { live: true });
    assert.equal(world.held('def'), 'def');
  });
});
