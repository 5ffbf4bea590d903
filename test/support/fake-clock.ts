/**
 * Time in the hands of a test: a clock that moves by `advance` only, and drives a wheel in the same
 * ticks as the real timer would.
 */
import type { Clock } from '../../src/clock.ts';
import { DeadlineWheel } from '../../src/deadlines.ts';

const TICK_MS = 50;

/** A clock that stands still, with a wheel that ticks when the clock is moved. */
export class FakeClock implements Clock {
  readonly deadlines: DeadlineWheel;
  #now = 1_000_000;
  #wall = Date.UTC(2026, 0, 1);

  constructor() {
    this.deadlines = new DeadlineWheel(this, TICK_MS);
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#wall;
  }

  /** Moves both clocks by `ms` and ticks on the way as often as a real wheel would. */
  advance(ms: number): void {
    let left = ms;
    while (left > 0) {
      const step = Math.min(left, TICK_MS - (this.#now % TICK_MS));
      this.#now += step;
      this.#wall += step;
      left -= step;
      if (this.#now % TICK_MS === 0) this.deadlines.tick();
    }
  }

  /** Moves the clocks without a tick, as when the event loop is blocked. */
  block(ms: number): void {
    this.#now += ms;
    this.#wall += ms;
  }
}
