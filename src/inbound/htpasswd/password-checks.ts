/**
 * Checks of passwords against hashes, off the event loop: one at a time in one thread for the whole
 * process, in fair turns, with bounded room and bounded waits (G8). What cannot be checked is
 * `caller-check-busy`: it is neither right nor wrong.
 */
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { type ErrorCode, ProxyError } from '../../errors.ts';
import type { PasswordHash } from '../../identity/hash-form.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { CheckQueue } from './check-queue.ts';
import type { HashAnswer, HashWorker, StartHashWorker } from './worker-link.ts';

export interface PasswordCheck {
  /** Checks of one turn are made in order; one turn cannot hold up another. */
  readonly turn: string;
  readonly password: Secret<string>;
  readonly hash: PasswordHash;
}

export interface PasswordCheckDeps {
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  readonly start: StartHashWorker;
}

/** Besides the one in work. */
const MAX_WAITING = 256;
/** For the whole of a check, from its arrival to its answer. */
const WAIT_MS = 10_000;
/** The slowest check that a file may ask for takes 2 s on a machine of today. */
const MAX_WORK_MS = 30_000;

interface Pending extends PasswordCheck {
  readonly id: number;
  readonly deadline: Deadline;
  /** The first answer counts. */
  readonly settle: (answer: boolean | ProxyError) => void;
}

export class PasswordChecks {
  readonly #deps: PasswordCheckDeps;
  readonly #queue = new CheckQueue<Pending>(MAX_WAITING);
  /** The thread is hung, or the machine is: a thread that is started again is worth a try. */
  readonly #hung = new Deadline(() => this.#worker?.kill());
  /** Undefined before the first check and after a death; the next check starts it. */
  #worker: HashWorker | undefined;
  /** In work; its caller may have gone by its deadline, the thread has not. */
  #current: Pending | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(deps: PasswordCheckDeps) {
    this.#deps = deps;
  }

  /** Whether the password is the one of the hash; else `caller-check-busy` or `shutting-down`. */
  check(check: PasswordCheck): Promise<boolean | ProxyError> {
    if (this.#isClosed) return Promise.resolve(closed());
    return new Promise((resolve) => {
      const pending = this.#pend(check, resolve);
      const loser = this.#queue.add(pending);
      loser?.settle(busy('too many passwords wait to be checked'));
      this.#serve();
    });
  }

  /** Ends the thread; whoever waits gets `shutting-down`. */
  close(): void {
    this.#isClosed = true;
    this.#deps.deadlines.disarm(this.#hung);
    this.#current?.settle(closed());
    this.#current = undefined;
    for (let next = this.#queue.take(); next !== undefined; next = this.#queue.take()) {
      next.settle(closed());
    }
    this.#worker?.kill();
  }

  #pend(check: PasswordCheck, resolve: (answer: boolean | ProxyError) => void): Pending {
    this.#lastId += 1;
    const { deadlines } = this.#deps;
    const deadline = new Deadline(() => {
      this.#queue.delete(pending);
      resolve(busy('a password was not checked in time'));
    });
    const settle = (answer: boolean | ProxyError): void => {
      deadlines.disarm(deadline);
      resolve(answer);
    };
    const pending: Pending = { ...check, id: this.#lastId, deadline, settle };
    deadlines.arm(deadline, WAIT_MS);
    return pending;
  }

  #serve(): void {
    if (this.#current !== undefined) return;
    const next = this.#queue.take();
    if (next === undefined) return;
    this.#current = next;
    this.#deps.deadlines.arm(this.#hung, MAX_WORK_MS);
    try {
      this.#worker ??= this.#start();
      this.#worker.send(next.id, next.password, next.hash);
    } catch (error) {
      // The system has no thread to give.
      this.#ended(error instanceof Error ? error.name : undefined);
    }
  }

  #start(): HashWorker {
    const worker = this.#deps.start({
      answered: (answer) => {
        if (worker === this.#worker) this.#answered(answer);
      },
      ended: (reason) => {
        if (worker === this.#worker) this.#ended(reason);
      },
    });
    return worker;
  }

  #answered({ id, isRight }: HashAnswer): void {
    // Whose answer this is must be beyond doubt.
    if (id !== this.#current?.id) return;
    this.#finish(isRight);
  }

  #ended(reason: string | undefined): void {
    this.#worker = undefined;
    if (this.#isClosed) return;
    this.#deps.log.warn(
      { reason },
      'the thread that checks passwords ended; the next check starts it',
    );
    this.#finish(busy('the thread that checks passwords ended'));
  }

  #finish(answer: boolean | ProxyError): void {
    const { deadlines } = this.#deps;
    deadlines.disarm(this.#hung);
    this.#current?.settle(answer);
    this.#current = undefined;
    this.#serve();
  }
}

const refusal = (code: ErrorCode, message: string): ProxyError =>
  new ProxyError(code, message, { side: 'internal', stage: 'identify' });

const busy = (message: string): ProxyError => refusal('caller-check-busy', message);

const closed = (): ProxyError => refusal('shutting-down', 'passwords are not checked any more');
