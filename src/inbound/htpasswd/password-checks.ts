/**
 * Checks of passwords against hashes, off the event loop: one at a time in one thread for the whole
 * process, in fair turns of addresses and of names, with bounded room and bounded waits (G8). What cannot be checked is
 * `caller-check-busy`: it is neither right nor wrong.
 */
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { type ErrorCode, ProxyError } from '../../errors.ts';
import type { PasswordHash } from '../../identity/hash-form.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { addressGroup } from './address-group.ts';
import { CheckQueue, type Place } from './check-queue.ts';
import type { HashAnswer, HashWorker, StartHashWorker } from './worker-link.ts';

export interface PasswordCheck {
  /** Equal for equal checks: one answer, of one check, is for all who ask at the same time. */
  readonly key: string;
  /** Checks of one turn are made in order; one turn cannot hold up another. */
  readonly turn: string;
  /** Of the caller's connection; addresses take turns too, before all else. */
  readonly remoteAddress: string;
  readonly password: Secret<string>;
  readonly hash: PasswordHash;
}

export interface PasswordCheckDeps {
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  readonly start: StartHashWorker;
}

/** Besides the one in work. Callers behind a proxy are one address, so that one may take half. */
const MAX_WAITING = { max: 256, maxPerAddress: 128 };
/** For the whole of a wait, from its beginning to the answer. */
const WAIT_MS = 10_000;
/** The slowest check that a file may ask for takes 2 s on a machine of today. */
const MAX_WORK_MS = 30_000;

interface Pending {
  readonly id: number;
  readonly asked: PasswordCheck;
  /** By address. Empty only in work, when all have gone by their deadlines. */
  readonly waiters: Map<string, Waiter>;
}

/** All callers of one address who wait for one check. */
interface Waiter extends Place {
  readonly pending: Pending;
  readonly deadline: Deadline;
  readonly answer: Promise<boolean | ProxyError>;
  readonly resolve: (answer: boolean | ProxyError) => void;
}

export class PasswordChecks {
  readonly #deps: PasswordCheckDeps;
  readonly #queue = new CheckQueue<Waiter>(MAX_WAITING);
  /** In line and in work, by key. */
  readonly #pending = new Map<string, Pending>();
  /** The thread is hung, or the machine is: a thread that is started again is worth a try. */
  readonly #hung = new Deadline(() => this.#worker?.kill());
  /** Undefined before the first check and after a death; the next check starts it. */
  #worker: HashWorker | undefined;
  /** In work; its callers may have gone by their deadlines, the thread has not. */
  #current: Pending | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(deps: PasswordCheckDeps) {
    this.#deps = deps;
  }

  /** Whether the password is the one of the hash; else `caller-check-busy` or `shutting-down`. */
  check(asked: PasswordCheck): Promise<boolean | ProxyError> {
    if (this.#isClosed) return Promise.resolve(closed());
    const address = addressGroup(asked.remoteAddress);
    const pending = this.#pending.get(asked.key) ?? this.#pend(asked);
    const others = pending.waiters.get(address);
    if (others !== undefined) return others.answer;
    const waiter = this.#wait(pending, address);
    if (pending !== this.#current) {
      const loser = this.#queue.add(waiter);
      if (loser !== undefined) this.#settle(loser, busy('too many passwords wait to be checked'));
      this.#serve();
    }
    return waiter.answer;
  }

  /** Ends the thread; whoever waits gets `shutting-down`. */
  close(): void {
    this.#isClosed = true;
    this.#deps.deadlines.disarm(this.#hung);
    this.#current = undefined;
    for (const { waiters } of this.#pending.values()) {
      for (const waiter of waiters.values()) this.#settle(waiter, closed());
    }
    this.#worker?.kill();
  }

  #pend(asked: PasswordCheck): Pending {
    this.#lastId += 1;
    const pending: Pending = { id: this.#lastId, asked, waiters: new Map() };
    this.#pending.set(asked.key, pending);
    return pending;
  }

  #wait(pending: Pending, address: string): Waiter {
    const { promise, resolve } = Promise.withResolvers<boolean | ProxyError>();
    const late = (): void => this.#settle(waiter, busy('a password was not checked in time'));
    const deadline = new Deadline(late);
    const { turn } = pending.asked;
    const waiter: Waiter = { pending, address, turn, deadline, answer: promise, resolve };
    pending.waiters.set(address, waiter);
    this.#deps.deadlines.arm(deadline, WAIT_MS);
    return waiter;
  }

  /** The callers of one address have their answer; the check goes on for others, and in the thread. */
  #settle(waiter: Waiter, answer: boolean | ProxyError): void {
    const { pending, address, deadline, resolve } = waiter;
    this.#deps.deadlines.disarm(deadline);
    this.#queue.delete(waiter);
    pending.waiters.delete(address);
    if (pending.waiters.size === 0 && pending !== this.#current) {
      this.#pending.delete(pending.asked.key);
    }
    resolve(answer);
  }

  #serve(): void {
    if (this.#current !== undefined) return;
    const next = this.#queue.take()?.pending;
    if (next === undefined) return;
    this.#current = next;
    // It is made for all addresses that wait for it, and is a turn of each.
    for (const waiter of next.waiters.values()) this.#queue.spend(waiter);
    this.#deps.deadlines.arm(this.#hung, MAX_WORK_MS);
    try {
      this.#worker ??= this.#start();
      this.#worker.send(next.id, next.asked.password, next.asked.hash);
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
    this.#deps.deadlines.disarm(this.#hung);
    const done = this.#current;
    this.#current = undefined;
    if (done !== undefined) {
      this.#pending.delete(done.asked.key);
      for (const waiter of done.waiters.values()) this.#settle(waiter, answer);
    }
    this.#serve();
  }
}

const refusal = (code: ErrorCode, message: string): ProxyError =>
  new ProxyError(code, message, { side: 'internal', stage: 'identify' });

const busy = (message: string): ProxyError => refusal('caller-check-busy', message);

const closed = (): ProxyError => refusal('shutting-down', 'passwords are not checked any more');
