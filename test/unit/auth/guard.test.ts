import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';

import type { LoginTicket } from '../../../src/auth/guard-ticket.ts';
import { LoginGuard, type Admission, type GuardChange } from '../../../src/auth/guard.ts';
import { noLog } from '../../../src/log/log.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const ACCOUNT = 'corp\\svc';
const SETTINGS = { rejections: 3, probeAfterMs: 900_000 };

class World {
  readonly clock = new FakeClock();
  readonly guard = new LoginGuard({ clock: this.clock, log: noLog });
  readonly changes: GuardChange[] = [];
  settings = SETTINGS;

  constructor() {
    this.guard.subscribe({ stateChanged: (change) => this.changes.push(change) });
  }

  admit(hop = 'a', generation = 1): Admission {
    return this.guard.admit(ACCOUNT, hop, generation, this.settings);
  }

  /** Admits one login that is expected to run. */
  begin(hop = 'a', generation = 1): LoginTicket {
    const admission = this.admit(hop, generation);
    assert.ok('ticket' in admission, `not admitted: ${admission.kind}`);
    return admission.ticket;
  }

  prove(hop = 'a', generation = 1, target = '/ok'): void {
    this.begin(hop, generation).succeeded(target);
  }

  reject(times: number, hop = 'a', generation = 1): void {
    for (let count = 0; count < times; count += 1) this.begin(hop, generation).rejected();
  }

  kind(hop = 'a', generation = 1): Admission['kind'] {
    const admission = this.admit(hop, generation);
    if ('ticket' in admission) admission.ticket.abandoned();
    return admission.kind;
  }
}

describe('a generation that has not succeeded on a hop', () => {
  test('runs one login at a time there', () => {
    const world = new World();
    const first = world.begin();
    assert.equal(world.admit().kind, 'wait');
    assert.equal(world.guard.hasRoom(ACCOUNT, 'a', 1, SETTINGS), false);
    first.abandoned();
    assert.equal(world.guard.hasRoom(ACCOUNT, 'a', 1, SETTINGS), true);
    world.prove();
    const many = Array.from({ length: 20 }, () => world.admit().kind);
    assert.deepEqual(new Set(many), new Set(['go']));
  });

  test('is proven on each hop apart, and again after a new content', () => {
    const world = new World();
    world.prove('a');
    world.begin('b');
    assert.equal(world.admit('b').kind, 'wait');
    world.begin('a', 2);
    assert.equal(world.admit('a', 2).kind, 'wait');
    assert.equal(world.admit('a', 1).kind, 'go');
  });

  test('runs on several hops at once only as far as the limit allows, whatever they answer', () => {
    const world = new World();
    const started = ['a', 'b', 'c', 'd'].map((hop) => world.admit(hop));
    assert.deepEqual(
      started.map((admission) => admission.kind),
      ['settle', 'settle', 'wait', 'wait'],
    );
    for (const admission of started) if ('ticket' in admission) admission.ticket.rejected();
    assert.equal(world.admit('c').kind, 'probe');
    assert.equal(world.admit('d').kind, 'wait');
  });
});

describe('opening', () => {
  test('a hop opens after so many rejections in a row, and 503 says how long', () => {
    const world = new World();
    world.reject(3);
    assert.deepEqual(world.admit(), { kind: 'open', retryAfterMs: SETTINGS.probeAfterMs });
    world.clock.advance(1_000);
    assert.deepEqual(world.admit(), { kind: 'open', retryAfterMs: SETTINGS.probeAfterMs - 1_000 });
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'open');
  });

  test('100 requests with a wrong password make 3 logins', () => {
    const world = new World();
    let logins = 0;
    for (let request = 0; request < 100; request += 1) {
      const admission = world.admit();
      if (!('ticket' in admission)) continue;
      logins += 1;
      admission.ticket.rejected();
    }
    assert.equal(logins, 3);
  });

  test('all hops open after the same number in sum without a success between', () => {
    const world = new World();
    world.reject(2, 'a');
    world.reject(1, 'b');
    for (const hop of ['a', 'b', 'never-used']) assert.equal(world.admit(hop).kind, 'open');
  });

  test('a success anywhere ends the sum, and only its own hop is no longer in a row', () => {
    const world = new World();
    world.prove('b');
    world.reject(2, 'a');
    world.prove('b');
    assert.equal(world.admit('b').kind, 'go');
    world.reject(1, 'a');
    assert.equal(world.admit('a').kind, 'open');
    assert.equal(world.admit('b').kind, 'wait');
    assert.deepEqual(world.changes, [{ account: ACCOUNT, hop: 'a', state: 'open' }]);
  });

  test('accounts are counted apart', () => {
    const world = new World();
    world.reject(3);
    assert.equal(world.guard.admit('corp\\other', 'a', 1, SETTINGS).kind, 'settle');
  });

  test('a limit of one opens at the first rejection', () => {
    const world = new World();
    world.settings = { ...SETTINGS, rejections: 1 };
    world.reject(1);
    assert.equal(world.admit().kind, 'open');
  });

  test('a limit of one makes every login a probe, several at a time where nothing is wrong', () => {
    const world = new World();
    world.settings = { ...SETTINGS, rejections: 1 };
    world.prove('a', 1, '/ok');
    for (let count = 0; count < 3; count += 1) {
      const admission = world.admit();
      assert.equal(admission.kind === 'probe' && admission.target, '/ok');
    }
  });

  test('an infinite limit never opens', () => {
    const world = new World();
    world.settings = { ...SETTINGS, rejections: Number.POSITIVE_INFINITY };
    world.reject(50);
    assert.equal(world.kind(), 'settle');
  });
});

describe('the last attempt before the guard opens', () => {
  test('is a probe on the target of the latest success of this generation on this hop', () => {
    const world = new World();
    world.prove('a', 1, '/old');
    world.prove('a', 1, '/latest');
    world.prove('b', 1, '/elsewhere');
    world.reject(2);
    const admission = world.admit();
    assert.equal(admission.kind, 'probe');
    assert.equal(admission.kind === 'probe' && admission.target, '/latest');
    assert.equal(world.admit().kind, 'wait');
    assert.equal(world.admit('b').kind, 'wait');
  });

  test('has no target where this generation has not succeeded', () => {
    const world = new World();
    world.prove('a', 1, '/of-another-generation');
    world.reject(2, 'a', 2);
    const admission = world.admit('a', 2);
    assert.equal(admission.kind, 'probe');
    assert.equal(admission.kind === 'probe' && admission.target, undefined);
  });

  test('when answered, means that the streak was denied: the count begins anew', () => {
    const world = new World();
    world.prove();
    for (let round = 0; round < 10; round += 1) {
      world.reject(2);
      const admission = world.admit();
      assert.equal(admission.kind, 'probe');
      if (admission.kind === 'probe') admission.ticket.denied();
      assert.equal(world.kind(), 'go');
    }
    assert.deepEqual(world.changes, []);
  });

  test('alone opens a hop that had succeeded: denied requests in parallel do not', () => {
    const world = new World();
    world.prove();
    const parallel = Array.from({ length: 8 }, () => world.begin());
    for (const ticket of parallel) ticket.rejected();
    const admission = world.admit();
    assert.equal(admission.kind, 'probe');
    assert.equal(world.admit().kind, 'wait');
    if (admission.kind === 'probe') admission.ticket.rejected();
    assert.equal(world.admit().kind, 'open');
  });

  test('waits for logins under way, which may be the end of the streak', () => {
    const world = new World();
    world.prove();
    const late = world.begin();
    world.reject(1);
    assert.equal(world.admit().kind, 'wait');
    late.succeeded('/ok');
    assert.equal(world.admit().kind, 'go');
  });

  test('does not remember a target too long to keep', () => {
    const world = new World();
    world.prove('a', 1, '/short');
    world.prove('a', 1, `/${'x'.repeat(4_096)}`);
    world.reject(2);
    const admission = world.admit();
    assert.equal(admission.kind === 'probe' && admission.target, '/short');
    if (admission.kind === 'probe') admission.ticket.denied();
    world.prove('a', 1, `/${'x'.repeat(4_095)}`);
    world.reject(2);
    const next = world.admit();
    assert.equal(next.kind === 'probe' && next.target?.length, 4_096);
  });
});

describe('open until', () => {
  test('the content changes: the new one has one attempt while the counts stand', () => {
    const world = new World();
    world.reject(3);
    const admission = world.admit('a', 2);
    assert.equal(admission.kind, 'probe');
    if (admission.kind === 'probe') admission.ticket.rejected();
    assert.equal(world.admit('a', 2).kind, 'open');
    world.prove('a', 3);
    assert.equal(world.kind('a', 3), 'go');
    assert.equal(world.admit('a', 2).kind, 'open');
  });

  test('an operator flushes the account', () => {
    const world = new World();
    world.reject(3);
    world.guard.flush(ACCOUNT);
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'closed');
    world.reject(2);
    assert.equal(world.kind(), 'probe');
  });

  test('a flush, of which those who wait are told; an unknown account is no matter', () => {
    const world = new World();
    const ended: string[] = [];
    world.guard.subscribe({ loginEnded: (account) => ended.push(account) });
    const waiting = world.begin();
    assert.equal(world.admit().kind, 'wait');
    world.guard.flush(ACCOUNT);
    assert.deepEqual(ended, [ACCOUNT]);
    assert.equal(world.admit().kind, 'settle');
    waiting.abandoned();
    world.guard.flush('corp\\unknown');
    assert.deepEqual(world.changes, [{ account: ACCOUNT, hop: undefined, state: 'closed' }]);
  });

  test('probeAfter has passed: one half-open probe at a time over all hops', () => {
    const world = new World();
    world.reject(3);
    world.clock.advance(SETTINGS.probeAfterMs - 1);
    assert.equal(world.admit().kind, 'open');
    world.clock.advance(1);
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'half-open');
    const admission = world.admit('b');
    assert.equal(admission.kind, 'probe');
    assert.deepEqual(world.admit('a'), { kind: 'open', retryAfterMs: 1_000 });
    assert.deepEqual(world.admit('b'), { kind: 'open', retryAfterMs: 1_000 });
  });

  test('a half-open probe succeeds; rejected it opens for as long again', () => {
    const world = new World();
    world.reject(3);
    world.clock.advance(SETTINGS.probeAfterMs);
    world.begin().rejected();
    assert.deepEqual(world.admit(), { kind: 'open', retryAfterMs: SETTINGS.probeAfterMs });
    world.clock.advance(SETTINGS.probeAfterMs);
    world.prove();
    assert.equal(world.kind(), 'go');
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'closed');
    assert.deepEqual(
      world.changes.map(({ hop, state }) => [hop, state]),
      [
        ['a', 'open'],
        [undefined, 'open'],
        [undefined, 'half-open'],
        ['a', 'open'],
        [undefined, 'open'],
        [undefined, 'half-open'],
        [undefined, 'closed'],
        ['a', 'closed'],
      ],
    );
  });

  test('a half-open probe shuts off again what was shut off, and no hop besides', () => {
    const world = new World();
    world.reject(3, 'a');
    world.clock.advance(SETTINGS.probeAfterMs);
    world.changes.length = 0;
    world.begin('c').rejected();
    assert.deepEqual(
      world.changes.map(({ hop, state }) => [hop, state]),
      [
        [undefined, 'half-open'],
        [undefined, 'open'],
      ],
    );
  });

  test('a half-open probe that came to nothing leaves the next one its turn', () => {
    const world = new World();
    world.reject(3);
    world.clock.advance(SETTINGS.probeAfterMs);
    world.begin().abandoned();
    assert.equal(world.admit().kind, 'probe');
  });

  test('a half-open probe opens again though another principal of the account succeeded', () => {
    const world = new World();
    world.reject(3, 'a', 1);
    world.prove('a', 2);
    world.clock.advance(SETTINGS.probeAfterMs);
    world.begin('a', 1).rejected();
    assert.equal(world.admit('a', 1).kind, 'open');
    assert.equal(world.guard.state(ACCOUNT, 'a', 2), 'closed');
  });
});

describe('a ticket', () => {
  test('ends once: a second end is ignored', () => {
    const world = new World();
    const ticket = world.begin();
    ticket.rejected();
    ticket.rejected();
    ticket.rejected();
    ticket.succeeded('/ok');
    world.reject(1);
    assert.equal(world.kind(), 'probe');
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'closed');
  });

  test('tells listeners at its end, until they leave', () => {
    const world = new World();
    const ended: string[] = [];
    const leave = world.guard.subscribe({ loginEnded: (account) => ended.push(account) });
    world.begin().abandoned();
    world.prove();
    leave();
    world.prove();
    assert.deepEqual(ended, [ACCOUNT, ACCOUNT]);
  });

  test('that outlives a flush still counts, and holds no place for ever', () => {
    const world = new World();
    const old = world.begin();
    world.guard.flush(ACCOUNT);
    old.rejected();
    world.reject(1);
    assert.equal(world.kind(), 'probe');
    world.prove();
    assert.equal(world.kind(), 'go');
  });
});

test('no interleaving of an untried credential gets more than the limit of rejections', () => {
  const step = fc.record({
    hop: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    act: fc.constantFrom('begin', 'begin', 'reject', 'abandon'),
    which: fc.nat(20),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 80 }),
      fc.integer({ min: 1, max: 5 }),
      (steps, limit) => {
        const world = new World();
        world.settings = { ...SETTINGS, rejections: limit };
        const running: LoginTicket[] = [];
        let rejections = 0;
        for (const { hop, act, which } of steps) {
          if (act === 'begin') {
            const admission = world.admit(hop);
            if ('ticket' in admission) running.push(admission.ticket);
            continue;
          }
          const [ticket] = running.splice(which % Math.max(running.length, 1), 1);
          if (ticket === undefined) continue;
          if (act === 'abandon') ticket.abandoned();
          else {
            ticket.rejected();
            rejections += 1;
          }
        }
        assert.ok(rejections <= limit);
      },
    ),
  );
});

test('of the generations of one account the 64 last used are remembered', () => {
  const world = new World();
  world.reject(3, 'a', 1_000);
  for (let generation = 1; generation <= 63; generation += 1) world.kind('a', generation);
  assert.equal(world.guard.state(ACCOUNT, 'a', 1_000), 'open');
  assert.equal(world.admit('a', 1_000).kind, 'open');
  world.kind('a', 64);
  assert.equal(world.guard.state(ACCOUNT, 'a', 1_000), 'open');
  for (let generation = 65; generation < 65 + 63; generation += 1) world.kind('a', generation);
  assert.equal(world.guard.state(ACCOUNT, 'a', 1_000), 'closed');
  assert.equal(world.admit('a', 1_000).kind, 'probe');
});

test('opening is a warning, the rest is not, and no line names the account', () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const line = (level: string) => (fields: object, message: string) =>
    lines.push(`${level} ${JSON.stringify(fields)} ${message}`);
  const log = { ...noLog, info: line('info'), warn: line('warn') };
  const guard = new LoginGuard({ clock, log });
  const begin = (): LoginTicket => {
    const admission = guard.admit(ACCOUNT, 'a', 1, { rejections: 1, probeAfterMs: 1_000 });
    assert.ok('ticket' in admission);
    return admission.ticket;
  };
  begin().rejected();
  clock.advance(1_000);
  begin().succeeded('/secret?token=1');
  assert.deepEqual(lines, [
    'warn {"hop":"a"} login guard opened: credential not used',
    'warn {"hop":"all"} login guard opened: credential not used',
    'info {"hop":"all"} login guard half-open',
    'info {"hop":"all"} login guard closed',
    'info {"hop":"a"} login guard closed',
  ]);
});

describe('a last token that got no verdict', () => {
  test('leaves no firm ground: the next login is settled by a leg of its own', () => {
    const world = new World();
    world.prove();
    assert.equal(world.kind(), 'go');
    world.begin().unsettled();
    assert.equal(world.kind(), 'settle');
    world.prove();
    assert.equal(world.kind(), 'go');
  });

  test('that rode on firm ground shuts nothing off, however many did', () => {
    const world = new World();
    world.prove();
    const riders = Array.from({ length: 8 }, () => world.admit());
    assert.deepEqual(new Set(riders.map(({ kind }) => kind)), new Set(['go']));
    for (const rider of riders) if ('ticket' in rider) rider.ticket.unsettled();
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'closed');
    // As many might have been rejected: the next one is a probe of what is known to be good.
    const admission = world.admit();
    assert.equal(admission.kind === 'probe' && admission.target, '/ok');
    if ('ticket' in admission) admission.ticket.denied();
    assert.equal(world.kind(), 'go');
    assert.deepEqual(world.changes, []);
  });

  test('that rode shuts nothing off after a rejection either, and is no longer nothing', () => {
    const world = new World();
    world.prove('a', 1, `/${'x'.repeat(5_000)}`);
    const riders = [world.begin(), world.begin(), world.begin()];
    world.begin().rejected();
    for (const rider of riders) rider.unsettled();
    assert.equal(world.guard.state(ACCOUNT, 'a'), 'closed');
    world.begin().rejected();
    assert.equal(world.admit().kind, 'open');
  });

  test('before a rejection counts with it, so that no mixture gets past the limit', () => {
    const world = new World();
    world.begin().unsettled();
    world.begin().unsettled();
    world.begin().rejected();
    assert.deepEqual(world.admit(), { kind: 'open', retryAfterMs: SETTINGS.probeAfterMs });
  });

  test('from probe to probe doubles the time to the next one, up to probeAfter', () => {
    const world = new World();
    for (let count = 0; count < SETTINGS.rejections; count += 1) world.begin().unsettled();
    const waits: number[] = [];
    for (let probe = 0; probe < 10; probe += 1) {
      const admission = world.admit();
      assert.ok(admission.kind === 'open');
      waits.push(admission.retryAfterMs / 1000);
      world.clock.advance(admission.retryAfterMs);
      world.begin().unsettled();
    }
    assert.deepEqual(waits, [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
  });

  test('counts as a rejection after one', () => {
    const world = new World();
    world.reject(1);
    world.begin().unsettled();
    assert.equal(world.kind(), 'probe');
    world.begin().unsettled();
    assert.equal(world.kind(), 'open');
  });

  test('spaces logins out after as many as the limit, until one gets a verdict', () => {
    const world = new World();
    for (let count = 0; count < SETTINGS.rejections; count += 1) world.begin().unsettled();
    assert.deepEqual(world.admit(), { kind: 'open', retryAfterMs: 5000 });
    world.clock.advance(5000);
    world.begin().unsettled();
    assert.equal(world.kind(), 'open');
    world.clock.advance(10_000);
    world.prove();
    assert.equal(world.kind(), 'go');
  });
});
