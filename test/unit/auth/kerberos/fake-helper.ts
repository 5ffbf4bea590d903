/** Helper processes in the hands of a test: what they were asked is seen, what they answer is said. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { RealmBreakers } from '../../../../src/auth/kerberos/breaker.ts';
import type { HelperEvents, StartHelper } from '../../../../src/auth/kerberos/helper-link.ts';
import { Lane } from '../../../../src/auth/kerberos/lane.ts';
import type { FromHelper, ToHelper } from '../../../../src/auth/kerberos/messages.ts';
import type { KerberosInitiation } from '../../../../src/auth/kerberos/provider.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

export class FakeHelper {
  readonly sent: ToHelper[] = [];
  isKilled = false;
  #hasEnded = false;
  readonly #events: HelperEvents;

  constructor(events: HelperEvents) {
    this.#events = events;
  }

  say(message: FromHelper): void {
    this.#events.message(message);
  }

  kill(): void {
    this.isKilled = true;
    this.die();
  }

  /** The process ends by itself. */
  die(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#events.ended();
  }

  /** Calls that were sent, as `principal spn`. */
  get calls(): string[] {
    return this.sent.flatMap((message) =>
      message.kind === 'initiate' ? [`${message.principal ?? '-'} ${message.spn}`] : [],
    );
  }

  /** The id of the `index`th call. */
  id(index: number): number {
    const call = this.sent.filter(({ kind }) => kind === 'initiate')[index];
    assert.ok(call, `no call ${index}`);
    return call.id;
  }

  /** Answers the `index`th call with a token that names it. */
  token(index: number): void {
    const id = this.id(index);
    this.say({ kind: 'token', id, token: Buffer.from(`token ${id}`) });
  }

  fail(index: number, text: string): void {
    this.say({ kind: 'failed', id: this.id(index), text });
  }
}

/** Every helper that was started, in order. */
export class FakeHelpers {
  readonly started: FakeHelper[] = [];
  readonly start: StartHelper = (events) => {
    const helper = new FakeHelper(events);
    this.started.push(helper);
    return { send: (message) => helper.sent.push(message), kill: () => helper.kill() };
  };

  get(index: number): FakeHelper {
    const helper = this.started[index];
    assert.ok(helper, `no helper ${index}`);
    return helper;
  }
}

export const DEADLINE_MS = 5000;

/** A lane with fakes around it. */
export class LaneWorld {
  readonly clock = new FakeClock();
  readonly helpers = new FakeHelpers();
  restarts = 0;
  readonly lane = new Lane(
    {
      startHelper: this.helpers.start,
      breakers: new RealmBreakers(this.clock),
      deadlines: this.clock.deadlines,
      clock: this.clock,
      log: noLog,
      onHelperRestart: () => {
        this.restarts += 1;
      },
    },
    DEADLINE_MS,
  );

  /** A lane whose first helper is ready. */
  static ready(): LaneWorld {
    const world = new LaneWorld();
    world.lane.start();
    world.helpers.get(0).say({ kind: 'ready' });
    return world;
  }

  /** Asks for a token; `principal` is `user@REALM`. */
  ask(principal: string, host = 'web', signal = new AbortController().signal): Asked {
    const realm = principal.split('@')[1] ?? '';
    const facts = { principal, spn: `HTTP/${host}`, realm };
    return new Asked(this.lane.initiate(facts, signal, DEADLINE_MS));
  }

  /** Makes the ticket of a pair known to the lane. */
  async warm(principal: string, host = 'web'): Promise<void> {
    const helper = this.helpers.get(this.helpers.started.length - 1);
    const index = helper.calls.length;
    const asked = this.ask(principal, host);
    helper.token(index);
    (await asked.token()).dispose();
  }
}

/** A wish for a token and what became of it. */
export class Asked {
  outcome: KerberosInitiation | Error | undefined;
  readonly #promise: Promise<void>;

  constructor(promise: Promise<KerberosInitiation>) {
    this.#promise = this.#follow(promise);
  }

  async #follow(promise: Promise<KerberosInitiation>): Promise<void> {
    try {
      this.outcome = await promise;
    } catch (error) {
      this.outcome = error instanceof Error ? error : new Error(String(error));
    }
  }

  async token(): Promise<KerberosInitiation> {
    await this.#promise;
    assert.ok(
      this.outcome !== undefined && !(this.outcome instanceof Error),
      inspect(this.outcome),
    );
    return this.outcome;
  }

  async error(): Promise<ProxyError> {
    await this.#promise;
    assert.ok(this.outcome instanceof ProxyError, inspect(this.outcome));
    return this.outcome;
  }

  async code(): Promise<string> {
    return (await this.error()).code;
  }

  /** True while neither a token nor an error has come. */
  async isPending(): Promise<boolean> {
    await Promise.race([this.#promise, new Promise((resolve) => setImmediate(resolve))]);
    return this.outcome === undefined;
  }
}
