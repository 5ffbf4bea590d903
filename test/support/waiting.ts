/**
 * Waits of tests: for a condition, a promise or an event, each with a deadline and a name, so that
 * what never happens is a failed test with a sentence and not a hung run. There are no sleeps.
 */

import type { EventEmitter } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Milliseconds that any wait of a test may last unless it says otherwise. */
export const DEADLINE_MS = 5000;

/** Resolves once `condition` holds; throws naming `what` after `deadlineMs`. */
export async function until(
  condition: () => boolean,
  what: string,
  deadlineMs: number = DEADLINE_MS,
): Promise<void> {
  const end = performance.now() + deadlineMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`did not happen in ${deadlineMs} ms: ${what}`);
    await nextTurn();
  }
}

/** The outcome of `promise`, or an error naming `what` after `deadlineMs`. */
export async function within<T>(
  promise: Promise<T>,
  what: string,
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new Error(`did not happen in ${deadlineMs} ms: ${what}`));
  }, deadlineMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves with the first argument of the next `event`; an `error` event meanwhile rejects. */
export async function event(
  emitter: EventEmitter,
  name: string,
  deadlineMs: number = DEADLINE_MS,
): Promise<unknown> {
  const happened = Promise.withResolvers<unknown>();
  const onEvent = (value: unknown): void => happened.resolve(value);
  const onError = (error: unknown): void => happened.reject(error);
  emitter.once(name, onEvent);
  if (name !== 'error') emitter.once('error', onError);
  try {
    return await within(happened.promise, `event ${name}`, deadlineMs);
  } finally {
    emitter.off(name, onEvent);
    emitter.off('error', onError);
  }
}

/** A door that holds whoever passes until it is opened: tests order events with it. */
export class Gate {
  readonly #door = Promise.withResolvers<undefined>();
  #held = 0;

  /** How many are waiting or have passed. */
  get arrivals(): number {
    return this.#held;
  }

  /** Waits until `open()` was called. */
  async pass(): Promise<void> {
    this.#held += 1;
    await this.#door.promise;
  }

  /** Lets everybody through, now and later. */
  open(): void {
    this.#door.resolve(undefined);
  }
}
