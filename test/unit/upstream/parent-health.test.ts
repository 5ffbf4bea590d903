/** When a parent that could not be reached is tried again, and when nobody cares any more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ParentHealth } from '../../../src/upstream/parent-health.ts';
import { nothingLearned, type UpstreamTarget } from '../../../src/upstream/target.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const PARENT: UpstreamTarget = {
  name: 'corp',
  scheme: 'http',
  host: 'proxy.test',
  port: 8080,
  authority: 'proxy.test:8080',
  basePath: '',
  tls: undefined,
  connectMs: 5000,
  answerMs: 5000,
  login: undefined,
  learned: nothingLearned(),
};

const ignore = (): void => undefined;
const LOG = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

class World {
  readonly clock = new FakeClock();
  readonly health: ParentHealth;
  /** Fake clock ms of each try. */
  readonly tries: number[] = [];
  reachable = false;
  signal: AbortSignal | undefined;

  constructor() {
    this.health = new ParentHealth({
      deadlines: this.clock.deadlines,
      log: LOG,
      tryDial: (_parent, signal) => {
        this.signal = signal;
        this.tries.push(this.clock.now());
        return this.reachable ? Promise.resolve() : Promise.reject(new Error('no'));
      },
    });
  }

  /** Goes on in steps of a second, asking for the parent in each or not. */
  async pass(seconds: number, asks: boolean): Promise<void> {
    for (let n = 0; n < seconds; n += 1) {
      if (asks) this.health.isUp(PARENT);
      this.clock.advance(1000);
      await nextTurn();
    }
  }
}

test('a parent that failed is tried ever less often, and used again once it is reached', async () => {
  const world = new World();
  assert.equal(world.health.isUp(PARENT), true);
  const start = world.clock.now();
  world.health.failed(PARENT);
  world.health.failed(PARENT);
  assert.equal(world.health.isUp(PARENT), false);
  await world.pass(130, true);
  const waits = world.tries.map((at, n) => Math.round((at - (world.tries[n - 1] ?? start)) / 1000));
  assert.deepEqual(waits.slice(0, 7), [1, 2, 4, 8, 16, 30, 30]);
  world.reachable = true;
  await world.pass(31, true);
  assert.equal(world.health.isUp(PARENT), true);
  const { length } = world.tries;
  await world.pass(60, true);
  assert.equal(world.tries.length, length);
});

test('one that nobody asks for is tried once, and forgotten', async () => {
  const world = new World();
  world.health.failed(PARENT);
  await world.pass(60, false);
  assert.equal(world.tries.length, 1);
  assert.equal(world.health.isUp(PARENT), true);
});

test('after the end nothing is tried, and a try in work is broken off', async () => {
  const world = new World();
  world.health.failed(PARENT);
  await world.pass(1, true);
  assert.equal(world.tries.length, 1);
  world.health.close();
  assert.equal(world.signal?.aborted, true);
  world.health.failed(PARENT);
  await world.pass(60, true);
  assert.equal(world.tries.length, 1);
});
