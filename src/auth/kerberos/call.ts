/**
 * One wish for a token, from the request to its answer, and each run of it in a helper. The owner
 * gets one answer, at the latest at the call's deadline; a run lives on until its helper answers.
 */
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import type { ProxyError } from '../../errors.ts';
import { kerberosError } from './native-errors.ts';

export interface CallFacts {
  /** `user@REALM`; undefined: whoever the default cache belongs to. */
  readonly principal: string | undefined;
  /** `HTTP/host`. */
  readonly spn: string;
  /** Whose KDC is asked first; '' where it is not known. */
  readonly realm: string;
}

/** A wish for a token. `settled` turns true once, before the owner hears of it. */
export class Call<T> {
  readonly facts: CallFacts;
  /** Names principal and service together. */
  readonly pair: string;
  /** A call is sent to a helper twice at most (R32: each time for a fresh token). */
  repeated = false;
  settled = false;
  readonly promise: Promise<T>;
  readonly #deadlines: DeadlineWheel;
  readonly #deadline: Deadline;
  readonly #signal: AbortSignal;
  readonly #gaveUp: (call: Call<T>) => void;
  readonly #resolve: (value: T) => void;
  readonly #reject: (reason: unknown) => void;

  /** `gaveUp` is called when the owner has been told that no token will come, by whatever way. */
  constructor(
    facts: CallFacts,
    limits: { deadlines: DeadlineWheel; deadlineMs: number; signal: AbortSignal },
    gaveUp: (call: Call<T>) => void,
  ) {
    this.facts = facts;
    this.pair = `${facts.principal ?? ''}\n${facts.spn}`;
    this.#signal = limits.signal;
    this.#deadlines = limits.deadlines;
    this.#gaveUp = gaveUp;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.promise = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deadline = new Deadline(() => {
      this.refuse(kerberosError('kdc-timeout', 'no token came from the KDC in time'));
    });
    limits.deadlines.arm(this.#deadline, limits.deadlineMs);
    if (limits.signal.aborted) this.#aborted();
    else limits.signal.addEventListener('abort', this.#aborted);
  }

  answer(value: T): void {
    if (this.#settle()) this.#resolve(value);
  }

  refuse(error: ProxyError): void {
    this.#fail(error);
  }

  readonly #aborted = (): void => {
    this.#fail(this.#signal.reason);
  };

  #fail(reason: unknown): void {
    if (!this.#settle()) return;
    this.#reject(reason);
    this.#gaveUp(this);
  }

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    this.#deadlines.disarm(this.#deadline);
    this.#signal.removeEventListener('abort', this.#aborted);
    return true;
  }
}

/** A call on its way through a helper. */
export interface Run<T> {
  readonly id: number;
  readonly call: Call<T>;
  /** The KDC is needed, as far as is known. */
  readonly isCold: boolean;
  /** The outcome decides over the realm's breaker. */
  readonly isProbe: boolean;
  /** Fires when the helper has not answered in time. */
  readonly deadline: Deadline;
  /** The deadline has fired: a thread of the helper hangs. */
  isStuck: boolean;
}
