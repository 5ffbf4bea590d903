/** The line in front of the thread that checks passwords: order, fairness, room, waits and deaths. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { within } from '../../../support/waiting.ts';
import { CheckWorld } from './check-world.ts';

const answered = (promises: readonly Promise<string>[]): Promise<string[]> =>
  within(Promise.all(promises), 'all checks are answered');

/** Answers every check that comes, wrong each. */
async function drain(world: CheckWorld): Promise<void> {
  for (let before = -1; before < world.order.length; await nextTurn()) {
    before = world.order.length;
    world.worker.answer(false);
  }
}

describe('checks of passwords', () => {
  test('start one thread at the first check, and give it one at a time', async () => {
    const world = new CheckWorld();
    assert.equal(world.workers.length, 0);
    const all = ['1', '2', '3'].map((password) => world.check('alice', password));
    assert.deepEqual(world.order, ['1']);
    world.worker.answer(true);
    assert.deepEqual(world.order, ['1', '2']);
    world.worker.answer(false);
    world.worker.answer(true);
    assert.deepEqual(await answered(all), ['right', 'wrong', 'right']);
    assert.deepEqual(world.order, ['1', '2', '3']);
    assert.equal(world.workers.length, 1);
  });

  test('of a flooded name do not hold up those of another', async () => {
    const world = new CheckWorld();
    const flood = Array.from({ length: 100 }, (_, i) => world.check('alice', `wrong ${i}`));
    const bob = world.check('bob', 'b');
    const carol = world.check('carol', 'c');
    world.worker.answer(false);
    world.worker.answer(true);
    world.worker.answer(true);
    assert.deepEqual(world.order, ['wrong 0', 'b', 'c', 'wrong 1']);
    assert.deepEqual(await answered([bob, carol]), ['right', 'right']);
    await drain(world);
    assert.deepEqual(new Set(await answered(flood)), new Set(['wrong']));
  });

  test('of a name with several in line take turns with the others', async () => {
    const world = new CheckWorld();
    const names = ['a', 'a', 'a', 'b', 'b', 'c'];
    const all = names.map((name, i) => world.check(name, `${name}${i}`));
    await drain(world);
    await answered(all);
    assert.deepEqual(world.order, ['a0', 'b3', 'c5', 'a1', 'b4', 'a2']);
  });

  test('wait at most 128 for one address; the next of it is busy at once', async () => {
    const world = new CheckWorld();
    const all = Array.from({ length: 129 }, (_, i) => world.check('alice', String(i)));
    assert.equal(await within(world.check('alice', 'late'), 'an answer'), 'caller-check-busy');
    const names = new CheckWorld();
    const others = Array.from({ length: 129 }, (_, i) => names.check(`user ${i}`, String(i)));
    assert.equal(await within(names.check('one more', 'late'), 'an answer'), 'caller-check-busy');
    await Promise.all([drain(world), drain(names)]);
    assert.deepEqual(new Set(await answered([...all, ...others])), new Set(['wrong']));
  });

  test('of another name find room in a line that one name has filled, at its cost', async () => {
    const world = new CheckWorld();
    const flood = Array.from({ length: 129 }, (_, i) => world.check('alice', `wrong ${i}`));
    const bob = world.check('bob', 'b');
    assert.equal(await within(flood[128] ?? bob, 'an answer'), 'caller-check-busy');
    world.worker.answer(false);
    world.worker.answer(true);
    assert.equal(await within(bob, 'an answer'), 'right');
    assert.deepEqual(world.answers, ['wrong 128: caller-check-busy', 'wrong 0: wrong', 'b: right']);
    await drain(world);
    assert.deepEqual(new Set(await answered(flood.slice(0, 128))), new Set(['wrong']));
  });

  test('are busy after ten seconds, in line and in work, and leave the line', async () => {
    const world = new CheckWorld();
    const first = world.check('alice', '1');
    const second = world.check('bob', '2');
    world.clock.advance(9900);
    const third = world.check('carol', '3');
    assert.deepEqual(world.answers, []);
    world.clock.advance(200);
    assert.deepEqual(await answered([first, second]), Array(2).fill('caller-check-busy'));
    // What the thread says of a check that was given up is for nobody, and starts the next.
    world.worker.answer(true);
    assert.deepEqual(world.order, ['1', '3']);
    world.worker.answer(true);
    assert.equal(await within(third, 'an answer'), 'right');
    const all = ['1: caller-check-busy', '2: caller-check-busy', '3: right'];
    assert.deepEqual(new Set(world.answers), new Set(all));
  });

  test('leave room in the line when they are given up', async () => {
    const world = new CheckWorld();
    const first = Array.from({ length: 129 }, (_, i) => world.check('alice', `a${i}`));
    world.clock.advance(10_100);
    assert.deepEqual(new Set(await answered(first)), new Set(['caller-check-busy']));
    const second = Array.from({ length: 128 }, (_, i) => world.check('alice', `b${i}`));
    assert.equal(await within(world.check('alice', 'late'), 'an answer'), 'caller-check-busy');
    await drain(world);
    assert.deepEqual(new Set(await answered(second)), new Set(['wrong']));
    assert.deepEqual(world.order.slice(0, 2), ['a0', 'b0']);
  });

  test('are busy when the thread dies, never right or wrong; the next starts another', async () => {
    const world = new CheckWorld();
    const first = world.check('alice', '1');
    const second = world.check('alice', '2');
    const dead = world.worker;
    dead.end('ERR_WORKER_OUT_OF_MEMORY');
    assert.equal(await within(first, 'an answer'), 'caller-check-busy');
    assert.equal(world.workers.length, 2);
    // A dead thread has no say in what another does.
    dead.answer(true, world.worker.sent[0]?.id);
    dead.end();
    await nextTurn();
    assert.deepEqual(world.answers, ['1: caller-check-busy']);
    world.worker.answer(true);
    assert.equal(await within(second, 'an answer'), 'right');
    assert.match(world.warnings.join(), /"reason":"ERR_WORKER_OUT_OF_MEMORY"/);
  });

  test('survive the death of an idle thread', async () => {
    const world = new CheckWorld();
    const first = world.check('alice', '1');
    world.worker.answer(true);
    world.worker.end();
    assert.equal(world.workers.length, 1);
    const second = world.check('alice', '2');
    world.worker.answer(false);
    assert.deepEqual(await answered([first, second]), ['right', 'wrong']);
    assert.equal(world.workers.length, 2);
  });

  test('do not take the answer to another check', async () => {
    const world = new CheckWorld();
    const first = world.check('alice', '1');
    world.worker.answer(true, 99);
    await nextTurn();
    assert.deepEqual(world.answers, []);
    world.worker.answer(false);
    assert.equal(await within(first, 'an answer'), 'wrong');
  });

  test('end a thread that hangs', async () => {
    const world = new CheckWorld();
    const first = world.check('alice', '1');
    world.clock.advance(10_100);
    assert.equal(await within(first, 'an answer'), 'caller-check-busy');
    const second = world.check('alice', '2');
    world.clock.advance(9000);
    assert.equal(world.worker.wasKilled, false);
    world.clock.advance(11_000);
    assert.equal(world.worker.wasKilled, true);
    assert.equal(await within(second, 'an answer'), 'caller-check-busy');
    world.worker.end();
    const third = world.check('alice', '3');
    world.worker.answer(true);
    assert.equal(await within(third, 'an answer'), 'right');
    // Answered in time: the thread is not given up later.
    world.clock.advance(60_000);
    assert.equal(world.worker.wasKilled, false);
  });

  test('are busy where no thread can be started', async () => {
    let tries = 0;
    const world = new CheckWorld(() => {
      tries += 1;
      throw new RangeError('no thread: name-canary');
    });
    const all = ['1', '2'].map((password) => world.check('alice', password));
    assert.deepEqual(await answered(all), Array(2).fill('caller-check-busy'));
    assert.equal(tries, 2);
    assert.match(world.warnings.join(), /"reason":"RangeError"/);
    assert.doesNotMatch(world.warnings.join(), /canary/);
  });

  test('end with the queue: in line, in work and later', async () => {
    const world = new CheckWorld();
    const all = ['1', '2'].map((password) => world.check('alice', password));
    world.checks.close();
    all.push(world.check('alice', '3'));
    assert.deepEqual(await answered(all), Array(3).fill('shutting-down'));
    assert.equal(world.worker.wasKilled, true);
    world.worker.end();
    assert.equal(world.workers.length, 1);
    assert.deepEqual(world.warnings, []);
  });

  test('show no password and no hash to whoever prints them (R46)', async () => {
    const world = new CheckWorld();
    const all = ['canary-1', 'canary-2'].map((password) => world.check('alice', password));
    const printed = [inspect(world.checks, { depth: 9, showHidden: true })];
    world.worker.end();
    world.worker.answer(false);
    await answered(all);
    printed.push(...world.warnings, inspect(world.checks, { depth: 9 }));
    assert.doesNotMatch(printed.join(), /canary/);
  });
});
