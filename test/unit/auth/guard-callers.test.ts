/** The guard where callers bring the secrets: each guess is a new one, and the account is what counts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Admission, LoginGuard } from '../../../src/auth/guard.ts';
import { noLog } from '../../../src/log/log.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const CALLERS = { rejections: 3, probeAfterMs: 900_000, perAccount: true };
const CONFIGURED = { rejections: 3, probeAfterMs: 900_000 };

class World {
  readonly clock = new FakeClock();
  readonly guard: LoginGuard;

  constructor(callers?: number) {
    const bound = callers === undefined ? {} : { callers };
    this.guard = new LoginGuard({ clock: this.clock, log: noLog, ...bound });
  }

  admit(secret: number, account = 'alice', settings: typeof CONFIGURED = CALLERS): Admission {
    return this.guard.admit(account, 'web', secret, settings);
  }

  /** Runs one login to the end that is said; answers what the guard said. */
  log(secret: number, end: 'ok' | 'rejected' | 'unsettled', account = 'alice'): Admission['kind'] {
    const admission = this.admit(secret, account);
    if (!('ticket' in admission)) return admission.kind;
    if (end === 'ok') admission.ticket.succeeded('/ok');
    else if (end === 'rejected') admission.ticket.rejected();
    else admission.ticket.unsettled();
    return admission.kind;
  }
}

/** How many of `count` logins with a new secret each were let through. */
function guesses(world: World, count: number, end: 'rejected' | 'unsettled' = 'rejected'): number {
  let admitted = 0;
  for (let secret = 1000; secret < 1000 + count; secret += 1) {
    const said = world.log(secret, end);
    if (said !== 'open' && said !== 'wait') admitted += 1;
  }
  return admitted;
}

describe('secrets of callers', () => {
  test('100 guesses with a new secret each make 3 logins, and 15 minutes later one', () => {
    const world = new World();
    assert.equal(guesses(world, 100), 3);
    world.clock.advance(CALLERS.probeAfterMs);
    assert.equal(guesses(world, 100), 1);
  });

  test('a server that never says what it found slows guesses down all the same', () => {
    const world = new World();
    assert.ok(guesses(world, 100, 'unsettled') <= 4);
  });

  test('guesses run one at a time on a hop', () => {
    const world = new World();
    const first = world.admit(1);
    assert.ok('ticket' in first);
    assert.equal(world.admit(2).kind, 'wait');
    assert.equal(world.guard.hasRoom('alice', 'web', 2, CALLERS), false);
    first.ticket.rejected();
    assert.equal(world.guard.hasRoom('alice', 'web', 2, CALLERS), true);
  });

  test('one that was accepted keeps working while the account is shut off', () => {
    const world = new World();
    world.log(1, 'ok');
    assert.equal(guesses(world, 100), 3);
    assert.equal(world.log(2, 'ok'), 'open');
    assert.notEqual(world.log(1, 'ok'), 'open');
    assert.equal(world.log(1, 'ok'), 'go');
    assert.equal(world.log(2, 'ok'), 'open', 'what is accepted does not vouch for guesses');
  });

  test('accepted ones are not doubted for the guesses of others, and forgive none at once', () => {
    const world = new World();
    world.log(1, 'ok');
    let guessed = 0;
    for (let secret = 100; secret < 200; secret += 1) {
      const said = world.log(secret, 'rejected');
      if (said !== 'open') guessed += 1;
      assert.equal(world.log(1, 'ok'), 'go');
    }
    assert.equal(guessed, 3);
    world.clock.advance(CALLERS.probeAfterMs);
    assert.equal(world.log(1, 'ok'), 'go');
    assert.equal(world.log(2, 'ok'), 'probe');
  });

  test('guesses of long ago are forgiven by a success', () => {
    const world = new World();
    world.log(1, 'ok');
    for (let day = 0; day < 10; day += 1) {
      assert.equal(world.log(100 + day, 'rejected'), 'settle');
      world.clock.advance(CALLERS.probeAfterMs);
      world.log(1, 'ok');
    }
  });

  test('guesses at a configured account do not hold up its own principal', () => {
    const world = new World();
    const own = world.admit(7, 'alice', CONFIGURED);
    assert.ok('ticket' in own);
    own.ticket.succeeded('/ok');
    world.log(100, 'rejected');
    world.log(101, 'rejected');
    assert.equal(world.admit(7, 'alice', CONFIGURED).kind, 'go');
  });

  test('one that was accepted and is refused now is shut off by itself', () => {
    const world = new World();
    world.log(1, 'ok');
    let logins = 0;
    for (let i = 0; i < 20; i += 1) if (world.log(1, 'rejected') !== 'open') logins += 1;
    assert.equal(logins, 3);
    assert.equal(world.log(2, 'ok'), 'probe', 'the new password of the account is tried with care');
    assert.equal(world.log(2, 'ok'), 'go');
  });

  test('a success after the pause ends it for everybody', () => {
    const world = new World();
    guesses(world, 10);
    world.clock.advance(CALLERS.probeAfterMs);
    assert.equal(world.log(5, 'ok'), 'probe');
    assert.equal(world.log(5, 'ok'), 'go');
    assert.equal(world.log(6, 'ok'), 'settle');
  });

  test('accounts are counted apart, and a configured principal of the same account goes on', () => {
    const world = new World();
    const own = world.admit(7, 'alice', CONFIGURED);
    assert.ok('ticket' in own);
    own.ticket.succeeded('/ok');
    guesses(world, 10);
    assert.equal(world.log(1, 'ok', 'bob'), 'settle');
    assert.notEqual(world.admit(7, 'alice', CONFIGURED).kind, 'open');
  });

  test('an operator lets all of them try again', () => {
    const world = new World();
    guesses(world, 10);
    world.guard.flushCallers();
    assert.equal(guesses(world, 10), 3);
  });
});

describe('accounts that callers name', () => {
  test('are bounded; those with rejections stay longest, those of the configuration always', () => {
    const world = new World(10);
    const own = world.admit(7, 'configured', CONFIGURED);
    assert.ok('ticket' in own);
    own.ticket.rejected();
    guesses(world, 3);
    for (let i = 0; i < 1000; i += 1) world.log(1, 'ok', `user-${i}`);
    assert.equal(guesses(world, 1), 0, 'alice is still shut off');
    for (let i = 0; i < 1000; i += 1) world.log(1, 'rejected', `user-${i}`);
    assert.equal(guesses(world, 1), 1, 'there was no room for her any more');
    const kinds = [1, 2].map(() => {
      const again = world.admit(7, 'configured', CONFIGURED);
      if ('ticket' in again) again.ticket.rejected();
      return again.kind;
    });
    assert.deepEqual(kinds, ['settle', 'probe']);
    assert.equal(world.admit(7, 'configured', CONFIGURED).kind, 'open');
  });
});
