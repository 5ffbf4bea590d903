import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Deadline, DeadlineWheel } from '../../src/deadlines.ts';
import { FakeClock } from '../support/fake-clock.ts';

/** A deadline that records the clock at each expiry. */
function recorded(clock: FakeClock): { deadline: Deadline; fired: number[] } {
  const fired: number[] = [];
  return { deadline: new Deadline(() => fired.push(clock.now())), fired };
}

/** Marsaglia's xorshift: whole numbers below a bound, the same in every run. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** Small steps that are no divisor of the tick, so that every phase of it is met. */
function run(clock: FakeClock, ms: number): void {
  for (let left = ms; left > 0; left -= 7) clock.advance(Math.min(7, left));
}

test('a deadline fires once, never early and at most 100 ms late, for any wait', () => {
  const clock = new FakeClock();
  const waits = [-500, 0, 1, 49, 50, 51, 99, 100, 250, 999, 5000, 51_150, 51_200, 51_250, 120_001];
  const cases = waits.flatMap((wait) =>
    [0, 13, 49.5].map((offset) => {
      clock.advance(offset);
      const one = { ...recorded(clock), wait, armedAt: clock.now() };
      clock.deadlines.arm(one.deadline, wait);
      return one;
    }),
  );
  run(clock, 125_000);
  for (const { fired, wait, armedAt } of cases) {
    assert.equal(fired.length, 1, `${wait} ms fired ${fired.length} times`);
    const late = (fired[0] ?? Number.NaN) - armedAt - Math.max(wait, 0);
    assert.ok(late >= 0 && late <= 100, `${wait} ms was ${late} ms late`);
  }
});

test('random arming, re-arming and disarming agrees with a list of times', () => {
  const clock = new FakeClock();
  const random = seeded(20_260_101);
  const owners = Array.from({ length: 40 }, () => ({ ...recorded(clock), due: Infinity, seen: 0 }));
  let fires = 0;
  for (let step = 0; step < 20_000; step += 1) {
    const owner = owners[random(owners.length)];
    assert.ok(owner !== undefined);
    const wait = random(4) === 0 ? random(70_000) : random(400);
    if (random(5) === 0) {
      clock.deadlines.disarm(owner.deadline);
      owner.due = Infinity;
    } else {
      clock.deadlines.arm(owner.deadline, wait);
      owner.due = clock.now() + wait;
    }
    clock.advance(random(60));
    for (const one of owners) {
      const at = one.fired[one.seen];
      if (at === undefined) {
        assert.ok(clock.now() <= one.due + 100, 'a deadline is overdue');
        assert.equal(one.deadline.armed, one.due !== Infinity);
        continue;
      }
      assert.ok(at >= one.due && at <= one.due + 100, `due at ${one.due}, fired at ${at}`);
      one.seen += 1;
      one.due = Infinity;
      fires += 1;
    }
  }
  assert.ok(fires > 1000, `only ${fires} deadlines fired`);
});

test('arming again replaces the earlier time, in both directions', () => {
  const clock = new FakeClock();
  const later = recorded(clock);
  const earlier = recorded(clock);
  const start = clock.now();
  clock.deadlines.arm(later.deadline, 200);
  clock.deadlines.arm(later.deadline, 2000);
  clock.deadlines.arm(earlier.deadline, 2000);
  clock.deadlines.arm(earlier.deadline, 200);
  run(clock, 300);
  assert.deepEqual([later.fired.length, earlier.fired.length], [0, 1]);
  run(clock, 1800);
  assert.equal(later.fired.length, 1);
  assert.ok((later.fired[0] ?? 0) >= start + 2000);
  assert.equal(earlier.fired.length, 1);
});

test('arming for later moves no node until the old slot comes up', () => {
  const clock = new FakeClock();
  const { deadline } = recorded(clock);
  clock.deadlines.arm(deadline, 200);
  const { slot } = deadline;
  for (let i = 0; i < 100; i += 1) clock.deadlines.arm(deadline, 5000 + i);
  assert.equal(deadline.slot, slot);
  run(clock, 300);
  assert.ok(deadline.armed && deadline.slot > slot);
});

test('a disarmed deadline does not fire and leaves no node behind', () => {
  const clock = new FakeClock();
  const { deadline, fired } = recorded(clock);
  clock.deadlines.arm(deadline, 100);
  clock.deadlines.disarm(deadline);
  clock.deadlines.disarm(deadline);
  assert.deepEqual(
    [deadline.armed, deadline.next, deadline.previous],
    [false, undefined, undefined],
  );
  run(clock, 60_000);
  assert.deepEqual(fired, []);
});

test('a deadline may disarm or arm itself and others while the wheel fires', () => {
  const clock = new FakeClock();
  const victim = recorded(clock);
  let repeats = 0;
  const repeating: Deadline = new Deadline(() => {
    clock.deadlines.disarm(victim.deadline);
    repeats += 1;
    clock.deadlines.arm(repeating, 0);
  });
  clock.deadlines.arm(repeating, 100);
  clock.deadlines.arm(victim.deadline, 100);
  clock.advance(100);
  assert.equal(repeats, 1, 'a deadline armed with 0 in a tick waits for the next one');
  clock.advance(50);
  assert.equal(repeats, 2);
  assert.deepEqual(victim.fired, []);
});

test('a deadline is at most one tick late when the ticks are out of step with the clock', () => {
  const clock = { ms: 1000, now: () => clock.ms, wall: () => 0 };
  const wheel = new DeadlineWheel(clock, 50);
  for (let wait = 1; wait <= 200; wait += 1) {
    const due = clock.ms + wait;
    let firedAt = Number.NaN;
    wheel.arm(new Deadline(() => (firedAt = clock.ms)), wait);
    for (let i = 0; i < 6; i += 1) {
      clock.ms += 50;
      wheel.tick();
    }
    assert.ok(firedAt >= due && firedAt < due + 50, `${wait} ms: ${firedAt - due} ms late`);
    clock.ms += 7;
  }
});

test('after a blocked event loop everything that is due fires in one tick', () => {
  const clock = new FakeClock();
  const all = [100, 3000, 51_200, 200_000, 400_000].map((wait) => {
    const one = recorded(clock);
    clock.deadlines.arm(one.deadline, wait);
    return one;
  });
  clock.block(300_000);
  clock.deadlines.tick();
  assert.deepEqual(
    all.map(({ fired }) => fired.length),
    [1, 1, 1, 1, 0],
  );
});

test('an exception of one deadline does not lose the others', () => {
  const clock = new FakeClock();
  const broken = new Deadline(() => {
    throw new Error('expiry of a test');
  });
  const other = recorded(clock);
  clock.deadlines.arm(broken, 100);
  clock.deadlines.arm(other.deadline, 100);
  assert.throws(() => clock.advance(200), /expiry of a test/);
  assert.deepEqual(other.fired, []);
  clock.advance(100);
  assert.equal(other.fired.length, 1);
});

test('`now` is the clock as of the last tick', () => {
  const clock = new FakeClock();
  clock.advance(70);
  assert.equal(clock.now() - clock.deadlines.now, 20);
});

test('a started wheel ticks with the timers of the process until it is stopped', (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const clock = { ms: 0, now: () => clock.ms, wall: () => 0 };
  const wheel = new DeadlineWheel(clock, 50);
  let fired = 0;
  const deadline = new Deadline(() => (fired += 1));
  const pass = (ms: number): void => {
    clock.ms += ms;
    context.mock.timers.tick(ms);
  };
  wheel.start();
  wheel.start();
  wheel.arm(deadline, 100);
  pass(50);
  assert.equal(fired, 0);
  pass(50);
  assert.equal(fired, 1);
  wheel.arm(deadline, 100);
  wheel.stop();
  pass(500);
  assert.deepEqual([fired, deadline.armed], [1, true]);
});
