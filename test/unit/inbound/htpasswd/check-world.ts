/** A queue of checks with a thread in the hands of a test, and the clock and the log that belong to it. */
import { ProxyError } from '../../../../src/errors.ts';
import { PasswordHash } from '../../../../src/identity/hash-form.ts';
import { Secret } from '../../../../src/identity/secret.ts';
import { PasswordChecks } from '../../../../src/inbound/htpasswd/password-checks.ts';
import type {
  HashWorker,
  HashWorkerEvents,
  StartHashWorker,
} from '../../../../src/inbound/htpasswd/worker-link.ts';
import { type Log, noLog } from '../../../../src/log/log.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

/** What any check of these worlds is against; nothing computes it. */
export const ANY_HASH = new PasswordHash('$apr1$hash-canary', 'apr1', 1000);

/** Where callers sit unless a test says otherwise. */
export const ANY_ADDRESS = '192.0.2.1';

interface Asked {
  readonly turn: string;
  readonly password: string;
  readonly hash: PasswordHash;
  readonly remoteAddress: string;
}

/** Answers when it is told to. */
export class ScriptedWorker implements HashWorker {
  readonly sent: { id: number; password: string }[] = [];
  wasKilled = false;
  readonly #events: HashWorkerEvents;

  constructor(events: HashWorkerEvents) {
    this.#events = events;
  }

  send(id: number, password: Secret<string>): void {
    this.sent.push({ id, password: password.reveal() });
  }

  kill(): void {
    this.wasKilled = true;
  }

  /** Of the check sent last, or of another id. */
  answer(isRight: boolean, id: number = this.sent.at(-1)?.id ?? 0): void {
    this.#events.answered({ id, isRight });
  }

  end(reason?: string): void {
    this.#events.ended(reason);
  }
}

export class CheckWorld {
  readonly clock = new FakeClock();
  readonly workers: ScriptedWorker[] = [];
  readonly warnings: string[] = [];
  readonly log: Log = {
    ...noLog,
    warn: (fields, message) => this.warnings.push(JSON.stringify({ ...fields, message })),
  };
  readonly checks: PasswordChecks;
  readonly answers: string[] = [];

  constructor(start?: StartHashWorker) {
    this.checks = new PasswordChecks({
      deadlines: this.clock.deadlines,
      log: this.log,
      start:
        start ??
        ((events) => {
          const worker = new ScriptedWorker(events);
          this.workers.push(worker);
          return worker;
        }),
    });
  }

  /** The thread of now. */
  get worker(): ScriptedWorker {
    const worker = this.workers.at(-1);
    if (worker === undefined) throw new Error('no thread was started');
    return worker;
  }

  /** Passwords in the order in which the threads got them. */
  get order(): string[] {
    return this.workers.flatMap(({ sent }) => sent.map(({ password }) => password));
  }

  /**
   * Resolves to a word; also noted in `answers`, as `password: word`. Checks of one name and password are
   * the same.
   */
  check(turn: string, password: string, hash = ANY_HASH): Promise<string> {
    return this.#check({ turn, password, hash, remoteAddress: ANY_ADDRESS });
  }

  /** The same from another address. */
  checkFrom(remoteAddress: string, turn: string, password: string): Promise<string> {
    return this.#check({ turn, password, hash: ANY_HASH, remoteAddress });
  }

  async #check({ password, ...asked }: Asked): Promise<string> {
    const answer = await this.checks.check({
      ...asked,
      key: JSON.stringify([asked.turn, password]),
      password: new Secret(password),
    });
    const word = answer instanceof ProxyError ? answer.code : answer ? 'right' : 'wrong';
    this.answers.push(`${password}: ${word}`);
    return word;
  }
}
