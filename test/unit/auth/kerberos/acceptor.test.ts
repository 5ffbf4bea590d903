/** Tokens on their way through an acceptor's helper: once each, bounded in number and time. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Acceptor, type AcceptedTicket } from '../../../../src/auth/kerberos/acceptor.ts';
import type { StartHelper } from '../../../../src/auth/kerberos/helper-link.ts';
import { encodeElement, encodeOid, TAG } from '../../../../src/auth/spnego/der.ts';
import { OID } from '../../../../src/auth/spnego/tokens.ts';
import { ProxyError } from '../../../../src/errors.ts';
import type { Log, LogFields } from '../../../../src/log/log.ts';
import { noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { FakeHelpers } from './fake-helper.ts';

const tokenOf = (text: string): Buffer =>
  encodeElement(
    TAG.APPLICATION_0,
    encodeOid(OID.KRB5),
    Buffer.from([1, 0]),
    encodeElement(0x6e, Buffer.from(text)),
  );

class World {
  readonly clock = new FakeClock();
  readonly helpers = new FakeHelpers();
  readonly warnings: LogFields[] = [];
  restarts = 0;
  readonly acceptor: Acceptor;

  constructor(startHelper: StartHelper = this.helpers.start) {
    const log: Log = { ...noLog, warn: (fields) => this.warnings.push(fields) };
    this.acceptor = new Acceptor('HTTP/gw', {
      startHelper,
      deadlines: this.clock.deadlines,
      clock: this.clock,
      log,
      onHelperRestart: () => {
        this.restarts += 1;
      },
    });
  }

  /** `name token`, or the code of the error. */
  async ask(text: string): Promise<string> {
    return wordOf(await this.acceptor.accept(tokenOf(text)));
  }

  /** With a helper that is ready. */
  static ready(): World {
    const world = new World();
    world.acceptor.start();
    world.helpers.get(0).say({ kind: 'ready' });
    return world;
  }

  /** Ids of the tokens that a helper got, in order. */
  ids(helper = 0): number[] {
    return this.helpers.get(helper).sent.map(({ id }) => id);
  }

  take(index: number, name = 'alice@LAB', helper = 0): void {
    const id = this.ids(helper)[index] ?? -1;
    this.helpers.get(helper).say({ kind: 'accepted', id, name, token: Buffer.from('proof') });
  }
}

const wordOf = (answer: AcceptedTicket | ProxyError): string =>
  answer instanceof ProxyError
    ? answer.code
    : `${answer.name} ${Buffer.from(answer.token).toString()}`;

describe('an acceptor', () => {
  test('says who brings a token, in whatever order the helper answers', async () => {
    const world = World.ready();
    const answers = [world.ask('a'), world.ask('b')];
    world.take(1, 'bob@LAB');
    world.take(0, 'alice@LAB');
    assert.deepEqual(await Promise.all(answers), ['alice@LAB proof', 'bob@LAB proof']);
  });

  test('starts its helper with the first token, and sends it when that is ready', async () => {
    const world = new World();
    const answer = world.ask('a');
    assert.deepEqual(world.ids(), []);
    world.helpers.get(0).say({ kind: 'ready' });
    world.take(0);
    assert.equal(await answer, 'alice@LAB proof');
  });

  test('A19 shows the helper nothing but Kerberos', async () => {
    const world = World.ready();
    const ntlm = await world.acceptor.accept(Buffer.from('NTLMSSP\0'));
    assert.equal(wordOf(ntlm), 'caller-ticket-refused');
    assert.deepEqual(world.ids(), []);
  });

  test('A17 gives one error for all faults of a caller, and logs what the library says', async () => {
    const world = World.ready();
    const answers = [world.acceptor.accept(tokenOf('a')), world.acceptor.accept(tokenOf('b'))];
    const [first = -1] = world.ids();
    world.helpers.get(0).say({ kind: 'failed', id: first, text: 'Request is a replay' });
    world.take(1, '');
    const errors = await Promise.all(answers);
    const faces = errors.map((error) => {
      assert.ok(error instanceof ProxyError);
      return [error.code, error.message, error.side];
    });
    assert.deepEqual(faces[0], [
      'caller-ticket-refused',
      'the ticket is not accepted',
      'downstream',
    ]);
    assert.deepEqual(faces[1], faces[0]);
    assert.deepEqual(
      world.warnings.map(({ reason }) => reason),
      ['Request is a replay', 'the ticket names nobody'],
    );
  });

  test('lets nobody in by an anonymous ticket, or by a name that is no text', async () => {
    for (const name of ['WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS', 'a\uFFFD@LAB', '']) {
      const world = World.ready();
      const answer = world.ask('a');
      world.take(0, name);
      assert.equal(await answer, 'caller-ticket-refused', name);
    }
  });

  test('logs so many refusals of a flood and then how many more there were', async () => {
    const world = World.ready();
    for (let i = 0; i < 50; i += 1) await world.acceptor.accept(Buffer.from('x'));
    assert.equal(world.warnings.length, 10);
    world.clock.advance(10_000);
    await world.acceptor.accept(Buffer.from('x'));
    assert.deepEqual(
      world.warnings.map(({ untold }) => untold),
      [...Array(10).fill(undefined), 40],
    );
  });

  test('R32 sends no token twice: one whose helper ends is gone with it', async () => {
    const world = World.ready();
    const lost = world.ask('a');
    world.helpers.get(0).die();
    assert.equal(await lost, 'acceptor-unavailable');
    assert.equal(world.restarts, 1);
    const next = world.ask('b');
    world.clock.advance(50);
    world.helpers.get(1).say({ kind: 'ready' });
    assert.equal(world.ids(1).length, 1);
    world.take(0, 'bob@LAB', 1);
    assert.equal(await next, 'bob@LAB proof');
  });

  test('ends a helper that says nothing for three seconds', async () => {
    const world = World.ready();
    const answers = [world.ask('a'), world.ask('b')];
    world.clock.advance(2900);
    world.take(0);
    assert.equal(await answers[0], 'alice@LAB proof');
    world.clock.advance(1000);
    assert.equal(world.helpers.get(0).isKilled, false);
    world.clock.advance(2100);
    assert.equal(world.helpers.get(0).isKilled, true);
  });

  test('leaves a helper alone that is only slow, and tells callers that it is busy', async () => {
    const world = World.ready();
    const answers = Array.from({ length: 20 }, (_, i) => world.ask(String(i)));
    world.clock.advance(2500);
    world.take(0);
    world.clock.advance(1600);
    const words = await Promise.all(answers);
    assert.deepEqual(words, ['alice@LAB proof', ...Array(19).fill('caller-check-busy')]);
    // What it says of those that nobody waits for is nobody's.
    world.take(1);
    assert.equal(world.helpers.get(0).isKilled, false);
    const next = world.ask('next');
    world.take(world.ids().length - 1, 'bob@LAB');
    assert.equal(await next, 'bob@LAB proof');
  });

  test('is unavailable, and says so, while no helper becomes ready', async () => {
    const world = new World();
    const early = world.ask('a');
    world.clock.advance(4100);
    assert.equal(await early, 'acceptor-unavailable');
    world.clock.advance(6000);
    assert.equal(world.helpers.get(0).isKilled, true);
    assert.equal(world.acceptor.trouble, undefined);
    world.clock.advance(12_000);
    assert.equal(world.helpers.get(1).isKilled, true);
    assert.match(world.acceptor.trouble ?? '', /does not start/);
  });

  test('is unavailable where a helper cannot be started, and tries again', async () => {
    const helpers = new FakeHelpers();
    let isFull = true;
    const world = new World((events) => {
      if (isFull) throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
      return helpers.start(events);
    });
    const early = world.ask('a');
    world.clock.advance(4100);
    assert.equal(await early, 'acceptor-unavailable');
    isFull = false;
    world.clock.advance(5000);
    helpers.get(0).say({ kind: 'ready' });
    assert.equal(world.acceptor.trouble, undefined);
  });

  test('refuses all without the package, and starts nothing again', async () => {
    const world = new World();
    const early = world.ask('a');
    world.helpers.get(0).say({ kind: 'missing', text: 'not there' });
    assert.equal(await early, 'acceptor-unavailable');
    assert.equal(await world.ask('b'), 'acceptor-unavailable');
    world.clock.advance(20_000);
    assert.equal(world.helpers.started.length, 1);
    assert.match(world.acceptor.trouble ?? '', /not installed/);
  });

  test('gives a helper 16 tokens at a time and keeps 512 in line; more are turned away', async () => {
    const world = World.ready();
    const answers = Array.from({ length: 16 + 512 }, (_, i) => world.ask(String(i)));
    assert.equal(world.ids().length, 16);
    assert.equal(await world.ask('more'), 'caller-check-busy');
    world.take(0);
    assert.equal(world.ids().length, 17);
    assert.equal(await answers[0], 'alice@LAB proof');
    world.clock.advance(4100);
    const words = new Set(await Promise.all(answers.slice(1)));
    assert.deepEqual([...words], ['acceptor-unavailable']);
  });

  test('finishes what is under way when it retires, and takes nothing more', async () => {
    const world = World.ready();
    const answer = world.ask('a');
    const gone = world.acceptor.retire();
    assert.equal(await world.ask('b'), 'acceptor-unavailable');
    assert.equal(world.helpers.get(0).isKilled, false);
    world.take(0);
    assert.equal(await answer, 'alice@LAB proof');
    await gone;
    assert.equal(world.helpers.get(0).isKilled, true);
    world.clock.advance(20_000);
    assert.equal(world.helpers.started.length, 1);
  });

  test('answers everybody when it closes, and ends its helper', async () => {
    const world = World.ready();
    const answer = world.ask('a');
    await world.acceptor.close();
    assert.equal(await answer, 'acceptor-unavailable');
    assert.equal(world.helpers.get(0).isKilled, true);
    assert.equal(world.restarts, 0);
  });
});
