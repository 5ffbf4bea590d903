/**
 * Logs why callers' tickets are refused. Anybody can have one refused, as often as he likes: so only
 * some are told in any span of time, and how many were not.
 */
import type { Clock } from '../../clock.ts';
import type { Log } from '../../log/log.ts';

const SPAN_MS = 10_000;
const LINES_OF_SPAN = 10;
/** The library quotes names of the ticket, which may be long. */
const MAX_REASON = 300;

export class RefusalLog {
  readonly #spn: string;
  readonly #clock: Clock;
  readonly #log: Log;
  #spanEnd = 0;
  #lines = 0;
  #untold = 0;

  constructor(spn: string, { clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#spn = spn;
    this.#clock = clock;
    this.#log = log;
  }

  /** `reason`: the words of the library, or our own. */
  note(reason: string): void {
    const now = this.#clock.now();
    if (now >= this.#spanEnd) {
      this.#spanEnd = now + SPAN_MS;
      this.#lines = 0;
    }
    if (this.#lines >= LINES_OF_SPAN) {
      this.#untold += 1;
      return;
    }
    this.#lines += 1;
    const untold = this.#untold === 0 ? undefined : this.#untold;
    this.#untold = 0;
    const fields = { spn: this.#spn, reason: reason.slice(0, MAX_REASON), untold };
    this.#log.warn(fields, 'the ticket of a caller was refused');
  }
}
