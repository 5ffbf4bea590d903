/**
 * How many streams a caller may break off: as many at once as a browser leaves behind when a page is
 * left, and a steady few a second.
 */
import type { Clock } from '../../clock.ts';

const AT_ONCE = 200;
const PER_SECOND = 20;

export class ResetAllowance {
  readonly #clock: Clock;
  #left = AT_ONCE;
  #at: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock.now();
  }

  /** Counts one; false when it is one too many. */
  take(): boolean {
    const now = this.#clock.now();
    this.#left = Math.min(AT_ONCE, this.#left + ((now - this.#at) * PER_SECOND) / 1000);
    this.#at = now;
    this.#left -= 1;
    return this.#left >= 0;
  }
}
