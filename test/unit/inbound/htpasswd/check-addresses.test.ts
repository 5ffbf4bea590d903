/** Checks of passwords are shared out by address: a flood from one holds up nobody elsewhere (G8). */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { addressGroup } from '../../../../src/inbound/htpasswd/address-group.ts';
import { within } from '../../../support/waiting.ts';
import { CheckWorld } from './check-world.ts';

const BUSY = 'caller-check-busy';

const answered = (promises: readonly Promise<string>[]): Promise<string[]> =>
  within(Promise.all(promises), 'all checks are answered');

/** `count` checks of made-up names from an address. */
const flood = (world: CheckWorld, count: number, address = 'unix'): Promise<string>[] =>
  Array.from({ length: count }, (_, i) =>
    world.checkFrom(address, `${address} ${i}`, `${address} ${i}`),
  );

async function drain(world: CheckWorld): Promise<void> {
  for (let before = -1; before < world.order.length; await nextTurn()) {
    before = world.order.length;
    world.worker.answer(false);
  }
}

describe('checks of passwords from several addresses', () => {
  test('are next but one behind 300 made-up names of another address', async () => {
    const world = new CheckWorld();
    const made = flood(world, 300);
    const alice = world.checkFrom('192.0.2.7', 'alice', 'right');
    world.worker.answer(false);
    assert.deepEqual(world.order, ['unix 0', 'right']);
    world.worker.answer(true);
    assert.equal(await within(alice, 'an answer'), 'right');
    await drain(world);
    const words = await answered(made);
    assert.equal(words.filter((word) => word === BUSY).length, 300 - 129);
  });

  test('are next but one behind wrong passwords for the same name', async () => {
    const world = new CheckWorld();
    const guesses = Array.from({ length: 300 }, (_, i) =>
      world.checkFrom('192.0.2.9', 'alice', `guess ${i}`),
    );
    const alice = world.checkFrom('192.0.2.7', 'alice', 'right');
    world.worker.answer(false);
    world.worker.answer(true);
    assert.equal(await within(alice, 'an answer'), 'right');
    await drain(world);
    assert.ok((await answered(guesses)).includes(BUSY));
  });

  test('take turns by address first, and by name within each', async () => {
    const world = new CheckWorld();
    const asked: readonly [address: string, name: string, password: string][] = [
      ['192.0.2.1', 'a', 'a1'],
      ['192.0.2.1', 'a', 'a2'],
      ['192.0.2.1', 'a', 'a3'],
      ['192.0.2.1', 'b', 'b1'],
      ['192.0.2.1', 'c', 'c1'],
      ['192.0.2.2', 'a', 'A1'],
      ['192.0.2.2', 'a', 'A2'],
      ['192.0.2.3', 'd', 'd1'],
    ];
    const all = asked.map((one) => world.checkFrom(...one));
    await drain(world);
    await answered(all);
    assert.deepEqual(world.order, ['a1', 'A1', 'd1', 'b1', 'A2', 'c1', 'a2', 'a3']);
  });

  test('wait at most 256 in all; the address with the most gives way, at its end', async () => {
    const world = new CheckWorld();
    const first = flood(world, 129, '192.0.2.1');
    const second = flood(world, 128, '192.0.2.2');
    const third = flood(world, 3, '192.0.2.3');
    const lost = [second[127], first[128], second[126]];
    assert.deepEqual(await answered(lost.flatMap((one) => one ?? [])), [BUSY, BUSY, BUSY]);
    await drain(world);
    const words = await answered([...first, ...second, ...third]);
    assert.equal(words.filter((word) => word === BUSY).length, 3);
    assert.deepEqual(new Set(await answered(third)), new Set(['wrong']));
  });

  test('of a new address find a place in a line of 256 addresses, of whoever is last', async () => {
    const world = new CheckWorld();
    const all = Array.from({ length: 257 }, (_, i) => flood(world, 1, `10.0.${i >> 8}.${i % 256}`));
    const more = flood(world, 1, '192.0.2.1');
    assert.deepEqual(await answered(all[256] ?? []), [BUSY]);
    // An address of which somebody waits has no claim against one of which nobody else does.
    const second = world.checkFrom('10.0.0.9', 'another', 'name');
    assert.equal(await within(second, 'an answer'), BUSY);
    await drain(world);
    assert.deepEqual(await answered(more), ['wrong']);
  });

  test('do not push each other out where they have equally many waiting', async () => {
    const world = new CheckWorld();
    const first = flood(world, 129, '192.0.2.1');
    const second = flood(world, 128, '192.0.2.2');
    const more = [
      world.checkFrom('192.0.2.1', 'more', 'm1'),
      world.checkFrom('192.0.2.2', 'more', 'm2'),
    ];
    assert.deepEqual(await answered(more), [BUSY, BUSY]);
    await drain(world);
    assert.deepEqual(new Set(await answered([...first, ...second])), new Set(['wrong']));
  });
});

describe('a check that callers of two addresses wait for', () => {
  test('is made once, and answers both', async () => {
    const world = new CheckWorld();
    void flood(world, 1);
    const both = [
      world.checkFrom('192.0.2.1', 'alice', 'a'),
      world.checkFrom('192.0.2.2', 'alice', 'a'),
      world.checkFrom('192.0.2.1', 'alice', 'a'),
    ];
    world.worker.answer(false);
    // In work it is joined as well.
    both.push(world.checkFrom('192.0.2.3', 'alice', 'a'));
    world.worker.answer(true);
    assert.deepEqual(await answered(both), Array(4).fill('right'));
    assert.deepEqual(world.order, ['unix 0', 'a']);
    const later = world.checkFrom('192.0.2.1', 'alice', 'a');
    world.worker.answer(false);
    assert.equal(await within(later, 'an answer'), 'wrong');
  });

  test('is a turn of both', async () => {
    const world = new CheckWorld();
    void flood(world, 1);
    const asked: readonly [address: string, name: string, password: string][] = [
      ['192.0.2.1', 'alice', 'a'],
      ['192.0.2.1', 'alice', 'a1'],
      ['192.0.2.2', 'alice', 'a'],
      ['192.0.2.2', 'bob', 'b1'],
      ['192.0.2.3', 'carol', 'c1'],
    ];
    const all = asked.map((one) => world.checkFrom(...one));
    await drain(world);
    await answered(all);
    assert.deepEqual(world.order, ['unix 0', 'a', 'c1', 'a1', 'b1']);
  });

  test('is made for one when the other has lost his place', async () => {
    const world = new CheckWorld();
    void flood(world, 1);
    const quiet = world.checkFrom('192.0.2.7', 'last', 'last');
    const made = flood(world, 127, '192.0.2.1');
    const flooder = world.checkFrom('192.0.2.1', 'last', 'last');
    const others = flood(world, 127, '192.0.2.2');
    assert.deepEqual(world.answers, []);
    const pusher = world.checkFrom('192.0.2.3', 'x', 'x');
    assert.equal(await within(flooder, 'an answer'), BUSY);
    world.worker.answer(false);
    world.worker.answer(true);
    assert.equal(await within(quiet, 'an answer'), 'right');
    await drain(world);
    await answered([...made, ...others, pusher]);
  });

  test('is waited for ten seconds by each', async () => {
    const world = new CheckWorld();
    const first = world.checkFrom('192.0.2.1', 'alice', 'a');
    world.clock.advance(9000);
    const second = world.checkFrom('192.0.2.2', 'alice', 'a');
    world.clock.advance(1200);
    assert.equal(await within(first, 'an answer'), BUSY);
    world.worker.answer(true);
    assert.equal(await within(second, 'an answer'), 'right');
    assert.deepEqual(world.order, ['a']);
  });
});

describe('callers of one address', () => {
  for (const [title, one, other] of [
    ['are those of an IPv6 network of 64 bits', '2001:db8:0:1::1', '2001:db8:0:1:ffff::2'],
    ['are those of an IPv4 address, however it is written', '192.0.2.1', '::ffff:192.0.2.1'],
    ['are those of a unix socket', 'unix', 'unix'],
  ] as const) {
    test(title, () => assert.equal(addressGroup(one), addressGroup(other)));
  }

  for (const [title, one, other] of [
    ['neighbours in IPv4', '192.0.2.1', '192.0.2.2'],
    ['other IPv6 networks', '2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['other links', 'fe80::1%eth0', 'fe80::1%eth1'],
    ['IPv4 and the IPv6 network around its mapped form', '192.0.2.1', '::1'],
    ['a unix socket', 'unix', '127.0.0.1'],
  ] as const) {
    test(`are not ${title}`, () => assert.notEqual(addressGroup(one), addressGroup(other)));
  }
});
