/** Which calls a helper gets, when they end, and how a helper that hangs or dies is replaced. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DEADLINE_MS, LaneWorld } from './fake-helper.ts';

const ALICE = 'alice@A.TEST';
const BOB = 'bob@B.TEST';
const EXPIRED = 'Minor code may provide more information: Ticket expired';
const UNREACHABLE = "Cannot contact any KDC for realm 'A.TEST'";

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

describe('a call', () => {
  test('gets its token', async () => {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE, 'web.test');
    assert.deepEqual(world.helpers.get(0).calls, [`${ALICE} HTTP/web.test`]);
    world.helpers.get(0).token(0);
    const initiation = await asked.token();
    assert.equal(Buffer.from(initiation.token).toString(), `token ${world.helpers.get(0).id(0)}`);
  });

  test('ends with kdc-timeout at its deadline and not before, wherever it is', async () => {
    for (const isReady of [true, false]) {
      const world = isReady ? LaneWorld.ready() : new LaneWorld();
      const asked = world.ask(ALICE);
      world.clock.advance(DEADLINE_MS - 100);
      assert.ok(await asked.isPending());
      world.clock.advance(200);
      assert.equal(await asked.code(), 'kdc-timeout');
    }
  });

  test('ends with the reason of its signal, and a token that comes later is freed', async () => {
    const world = LaneWorld.ready();
    const caller = new AbortController();
    const asked = world.ask(ALICE, 'web', caller.signal);
    const reason = new Error('the caller left');
    caller.abort(reason);
    assert.ok(!(await asked.isPending()));
    assert.equal(asked.outcome, reason);
    world.helpers.get(0).token(0);
    assert.deepEqual(world.helpers.get(0).sent.at(-1), {
      kind: 'dispose',
      id: world.helpers.get(0).id(0),
    });
    const late = world.ask(ALICE, 'web', AbortSignal.abort(reason));
    assert.ok(!(await late.isPending()));
    assert.equal(world.helpers.get(0).calls.length, 1);
  });

  test('is repeated once when a cached ticket did not do', async () => {
    const world = LaneWorld.ready();
    await world.warm(ALICE);
    const lucky = world.ask(ALICE);
    world.helpers.get(0).fail(1, EXPIRED);
    world.helpers.get(0).token(2);
    await lucky.token();
    const unlucky = world.ask(ALICE);
    world.helpers.get(0).fail(3, EXPIRED);
    world.helpers.get(0).fail(4, EXPIRED);
    assert.equal(await unlucky.code(), 'credential-expired');
    assert.equal(world.helpers.get(0).calls.length, 5);
  });

  test('is not repeated when there was no ticket before', async () => {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE);
    world.helpers.get(0).fail(0, EXPIRED);
    assert.equal(await asked.code(), 'credential-expired');
    assert.equal(world.helpers.get(0).calls.length, 1);
  });
});

describe('bounds', () => {
  test('one call of a pair fetches the ticket, then the others go', async () => {
    const world = LaneWorld.ready();
    const asked = numbers(5).map(() => world.ask(ALICE));
    const helper = world.helpers.get(0);
    assert.equal(helper.calls.length, 1);
    helper.token(0);
    assert.equal(helper.calls.length, 5);
    for (const index of [1, 2, 3, 4]) helper.token(index);
    await Promise.all(asked.map((one) => one.token()));
  });

  test('one call of a principal fetches its first ticket, whatever the service', () => {
    const world = LaneWorld.ready();
    for (const host of ['a', 'b', 'c']) world.ask(ALICE, host);
    assert.equal(world.helpers.get(0).calls.length, 1);
    world.helpers.get(0).token(0);
    assert.equal(world.helpers.get(0).calls.length, 3);
  });

  test('a pair has at most 10 calls in a helper, and all pairs 30', async () => {
    const world = LaneWorld.ready();
    const helper = world.helpers.get(0);
    for (const host of ['a', 'b', 'c', 'd']) await world.warm(ALICE, host);
    const before = helper.calls.length;
    for (const host of ['a', 'b', 'c', 'd']) numbers(20).forEach(() => world.ask(ALICE, host));
    const running = helper.calls.slice(before);
    assert.equal(running.length, 30);
    assert.equal(running.filter((call) => call.endsWith('/a')).length, 10);
    helper.token(before);
    assert.equal(helper.calls.length, before + 31);
  });

  test('a pair with many calls does not starve the others', async () => {
    const world = LaneWorld.ready();
    const helper = world.helpers.get(0);
    for (const host of ['a', 'b', 'c', 'd']) await world.warm(ALICE, host);
    const before = helper.calls.length;
    for (const host of ['a', 'b', 'c', 'd']) numbers(40).forEach(() => world.ask(ALICE, host));
    for (let index = before; index < before + 20; index += 1) helper.token(index);
    assert.ok(helper.calls.slice(before).some((call) => call.endsWith('/d')));
  });

  test('at most 8 calls of a realm wait for its KDC, and those of another realm go on', () => {
    const world = LaneWorld.ready();
    for (const index of numbers(12)) world.ask(`user${index}@A.TEST`);
    assert.equal(world.helpers.get(0).calls.length, 8);
    world.ask(BOB);
    assert.equal(world.helpers.get(0).calls.length, 9);
  });
});

describe('a realm that does not answer', () => {
  /** The KDC of A.TEST was silent for one whole call. */
  async function silent(): Promise<LaneWorld> {
    const world = LaneWorld.ready();
    await world.warm('cached@A.TEST');
    world.ask(ALICE);
    world.clock.advance(DEADLINE_MS + 100);
    return world;
  }

  test('is left alone: calls that need its KDC are refused at once, the waiting ones too', async () => {
    const world = LaneWorld.ready();
    const helper = world.helpers.get(0);
    world.ask(ALICE);
    world.clock.advance(DEADLINE_MS - 1000);
    const waiting = world.ask(ALICE);
    world.clock.advance(1100);
    assert.equal(await waiting.code(), 'kdc-timeout');
    const calls = helper.calls.length;
    const refused = await world.ask('carol@A.TEST').error();
    assert.equal(refused.code, 'kdc-timeout');
    assert.ok(refused.retryAfterMs !== undefined && refused.retryAfterMs <= 1000);
    assert.equal(helper.calls.length, calls);
  });

  test('is found out by cached tickets that ended, too', async () => {
    const world = LaneWorld.ready();
    await world.warm(ALICE);
    const hung = world.ask(ALICE);
    world.clock.advance(DEADLINE_MS + 100);
    assert.equal(await hung.code(), 'kdc-timeout');
    assert.equal(await world.ask(ALICE).code(), 'kdc-timeout');
    assert.equal(world.helpers.get(0).calls.length, 2);
  });

  test('does not hold up cached tickets or other realms', async () => {
    const world = await silent();
    const helper = world.helpers.get(0);
    const calls = helper.calls.length;
    const cached = world.ask('cached@A.TEST');
    const other = world.ask(BOB);
    helper.token(calls);
    helper.token(calls + 1);
    await cached.token();
    await other.token();
  });

  test('is tried by one call at a time, and the others follow when it answers', async () => {
    const world = await silent();
    const helper = world.helpers.get(0);
    world.clock.advance(1000);
    const calls = helper.calls.length;
    const probe = world.ask(ALICE);
    const follower = world.ask('carol@A.TEST');
    assert.equal(helper.calls.length, calls + 1);
    helper.token(calls);
    await probe.token();
    assert.equal(helper.calls.length, calls + 2);
    assert.ok(await follower.isPending());
  });

  test('is left alone again when the try took too long, which is less than a call may take', async () => {
    const world = await silent();
    world.clock.advance(1000);
    const probe = world.ask(ALICE);
    const follower = world.ask('carol@A.TEST');
    world.clock.advance(1900);
    assert.ok(await probe.isPending());
    world.clock.advance(200);
    assert.equal(await probe.code(), 'kdc-timeout');
    assert.equal(await follower.code(), 'kdc-timeout');
  });

  test('may be tried again at once when the try said nothing about the KDC', async () => {
    const world = await silent();
    const helper = world.helpers.get(0);
    world.clock.advance(1000);
    const calls = helper.calls.length;
    const probe = world.ask('dave@A.TEST');
    helper.fail(calls, "Can't find client principal dave@A.TEST in cache collection");
    assert.equal(await probe.code(), 'credential-missing');
    world.ask(ALICE);
    assert.equal(helper.calls.length, calls + 2);
  });

  test('answers by any word of its KDC, a refusal included', async () => {
    const world = await silent();
    const helper = world.helpers.get(0);
    world.clock.advance(1000);
    const calls = helper.calls.length;
    const probe = world.ask(ALICE, 'unknown');
    helper.fail(calls, 'Server HTTP/unknown@A.TEST not found in Kerberos database');
    assert.equal(await probe.code(), 'spn-unknown');
    world.ask(ALICE);
    world.ask('carol@A.TEST');
    assert.equal(helper.calls.length, calls + 3);
  });

  test('is told from one that cannot be reached, and a realm referred to is not its fault', async () => {
    const world = LaneWorld.ready();
    const helper = world.helpers.get(0);
    const away = world.ask(ALICE);
    helper.fail(0, UNREACHABLE.replace('A.TEST', 'REFERRED.TEST'));
    assert.equal(await away.code(), 'kdc-unreachable');
    const own = world.ask(ALICE);
    helper.fail(1, UNREACHABLE);
    assert.equal(await own.code(), 'kdc-unreachable');
    assert.equal(await world.ask(ALICE).code(), 'kdc-unreachable');
    assert.equal(helper.calls.length, 2);
  });

  test('a try that ends at another realm lets the next calls go', async () => {
    const world = await silent();
    const helper = world.helpers.get(0);
    world.clock.advance(1000);
    const calls = helper.calls.length;
    world.ask(ALICE);
    helper.fail(calls, UNREACHABLE.replace('A.TEST', 'REFERRED.TEST'));
    world.ask(ALICE);
    assert.equal(helper.calls.length, calls + 2);
  });
});

describe('a helper that hangs', () => {
  /** Six calls of A.TEST hang; one of B.TEST was sent shortly before. */
  function hanging(): { world: LaneWorld; bob: ReturnType<LaneWorld['ask']> } {
    const world = LaneWorld.ready();
    for (const index of numbers(6)) world.ask(`user${index}@A.TEST`);
    world.clock.advance(DEADLINE_MS - 1000);
    const bob = world.ask(BOB);
    world.clock.advance(1100);
    return { world, bob };
  }

  test('is replaced before it is killed, and calls of other realms are repeated with it', async () => {
    const { world, bob } = hanging();
    const [old, next] = [world.helpers.get(0), world.helpers.get(1)];
    assert.equal(world.helpers.started.length, 2);
    assert.equal(world.restarts, 1);
    assert.ok(!old.isKilled);
    assert.equal(next.calls.length, 0);
    next.say({ kind: 'ready' });
    assert.deepEqual(next.calls, [`${BOB} HTTP/web`]);
    assert.ok(old.isKilled);
    next.token(0);
    const { token } = await bob.token();
    assert.equal(Buffer.from(token).toString(), `token ${next.id(0)}`);
  });

  test('still serves until the other one is ready', async () => {
    const { world, bob } = hanging();
    world.helpers.get(0).token(6);
    await bob.token();
    world.ask(BOB, 'other');
    assert.equal(world.helpers.get(0).calls.at(-1), `${BOB} HTTP/other`);
  });

  test('stays for contexts that wait for their peer, at the longest for a deadline', async () => {
    const { world, bob } = hanging();
    const [old, next] = [world.helpers.get(0), world.helpers.get(1)];
    old.token(6);
    const initiation = await bob.token();
    next.say({ kind: 'ready' });
    assert.ok(!old.isKilled);
    const checked = initiation.finish(Buffer.from('answer'));
    old.say({ kind: 'finished', id: old.id(6), complete: true });
    await checked;
    assert.ok(old.isKilled);

    const again = hanging();
    again.world.helpers.get(0).token(6);
    const kept = await again.bob.token();
    again.world.helpers.get(1).say({ kind: 'ready' });
    again.world.clock.advance(DEADLINE_MS + 100);
    assert.ok(again.world.helpers.get(0).isKilled);
    await assert.rejects(kept.finish(Buffer.from('answer')), { code: 'mutual-failed' });
  });
});

describe('a helper that dies', () => {
  test('is started again, and its calls are sent once more', async () => {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE);
    world.helpers.get(0).die();
    world.clock.advance(200);
    const next = world.helpers.get(1);
    next.say({ kind: 'ready' });
    assert.equal(world.restarts, 1);
    next.token(0);
    await asked.token();
  });

  test('twice in one call ends the call', async () => {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE);
    world.helpers.get(0).die();
    world.clock.advance(200);
    world.helpers.get(1).say({ kind: 'ready' });
    world.helpers.get(1).die();
    assert.equal(await asked.code(), 'mechanism-failed');
  });

  test('takes its contexts with it', async () => {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE);
    world.helpers.get(0).token(0);
    const initiation = await asked.token();
    const checked = initiation.finish(Buffer.from('answer'));
    world.helpers.get(0).die();
    await assert.rejects(checked, { code: 'mutual-failed' });
    initiation.dispose();
  });

  test('at each start is started ever more rarely, and calls do not wait for it', async () => {
    const world = new LaneWorld();
    world.lane.start();
    for (const pause of [500, 2000, 5000]) {
      const count = world.helpers.started.length;
      world.helpers.get(count - 1).die();
      world.clock.advance(pause - 100);
      assert.equal(world.helpers.started.length, count);
      world.clock.advance(200);
      assert.equal(world.helpers.started.length, count + 1);
    }
    const asked = world.ask(ALICE);
    world.helpers.get(world.helpers.started.length - 1).die();
    assert.equal(await asked.code(), 'mechanism-unavailable');
  });

  test('is taken for dead when it is not ready in time', () => {
    const world = new LaneWorld();
    world.lane.start();
    world.clock.advance(10_100);
    assert.ok(world.helpers.get(0).isKilled);
  });
});

describe('the answer of the peer', () => {
  async function started(): Promise<{
    world: LaneWorld;
    initiation: Awaited<ReturnType<ReturnType<LaneWorld['ask']>['token']>>;
  }> {
    const world = LaneWorld.ready();
    const asked = world.ask(ALICE);
    world.helpers.get(0).token(0);
    return { world, initiation: await asked.token() };
  }

  test('is checked by the context that made the token', async () => {
    const { world, initiation } = await started();
    const helper = world.helpers.get(0);
    const checked = initiation.finish(Buffer.from('proof'));
    const id = helper.id(0);
    assert.deepEqual(helper.sent.at(-1), { kind: 'finish', id, token: Buffer.from('proof') });
    helper.say({ kind: 'finished', id, complete: true });
    await checked;
    initiation.dispose();
    assert.equal(helper.sent.filter(({ kind }) => kind === 'dispose').length, 0);
  });

  test('that is wrong, incomplete, late or a second one is mutual-failed', async () => {
    const wrong = await started();
    const refused = wrong.initiation.finish(Buffer.from('x'));
    wrong.world.helpers.get(0).fail(0, 'Invalid token was supplied');
    await assert.rejects(refused, { code: 'mutual-failed' });
    await assert.rejects(wrong.initiation.finish(Buffer.from('x')), { code: 'mutual-failed' });

    const half = await started();
    const incomplete = half.initiation.finish(Buffer.from('x'));
    const id = half.world.helpers.get(0).id(0);
    half.world.helpers.get(0).say({ kind: 'finished', id, complete: false });
    await assert.rejects(incomplete, { code: 'mutual-failed' });

    const slow = await started();
    const late = slow.initiation.finish(Buffer.from('x'));
    slow.world.clock.advance(DEADLINE_MS + 100);
    await assert.rejects(late, { code: 'mutual-failed' });
  });

  test('that nobody waits for frees the context once', async () => {
    const { world, initiation } = await started();
    initiation.dispose();
    initiation.dispose();
    const helper = world.helpers.get(0);
    assert.equal(helper.sent.filter(({ kind }) => kind === 'dispose').length, 1);
    await assert.rejects(initiation.finish(Buffer.from('x')), { code: 'mutual-failed' });
  });
});

describe('a lane', () => {
  test('without the package refuses every call and starts no other helper', async () => {
    const world = new LaneWorld();
    const asked = world.ask(ALICE);
    world.helpers.get(0).say({ kind: 'missing', text: 'Cannot find module' });
    assert.equal(await asked.code(), 'mechanism-unavailable');
    assert.equal(await world.ask(ALICE).code(), 'mechanism-unavailable');
    world.clock.advance(60_000);
    assert.equal(world.helpers.started.length, 1);
  });

  test('that is closed refuses what waits and what runs, and kills its helpers', async () => {
    const world = LaneWorld.ready();
    const running = world.ask(ALICE);
    const waiting = world.ask(ALICE);
    await world.lane.close();
    assert.equal(await running.code(), 'shutting-down');
    assert.equal(await waiting.code(), 'shutting-down');
    assert.equal(await world.ask(ALICE).code(), 'shutting-down');
    assert.ok(world.helpers.get(0).isKilled);
    assert.equal(world.helpers.started.length, 1);
  });

  test('asks the KDC again for a principal whose tickets were replaced', async () => {
    const world = LaneWorld.ready();
    await world.warm(ALICE);
    world.lane.forget(ALICE);
    const before = world.helpers.get(0).calls.length;
    numbers(3).forEach(() => world.ask(ALICE));
    assert.equal(world.helpers.get(0).calls.length, before + 1);
  });
});
