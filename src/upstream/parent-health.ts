/**
 * Which parent proxies cannot be connected to for now, so that requests with another way do not wait
 * for them. A parent that failed is dialled in the background, ever less often, while anybody asks for
 * it; the first connection that is accepted ends that.
 *
 *   up ── no connection ──▶ down ── dialled ──▶ up
 *                            └── not asked for ──▶ up, as far as anybody knows
 */
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import type { Log } from '../log/log.ts';
import type { UpstreamTarget } from './target.ts';

export interface ParentHealthDeps {
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  /** Resolves when a connection to the parent was accepted, and closes it; rejects on `signal` too. */
  readonly tryDial: (parent: UpstreamTarget, signal: AbortSignal) => Promise<void>;
}

const FIRST_TRY_MS = 1000;
const MAX_TRY_MS = 30_000;

interface Down {
  readonly deadline: Deadline;
  waitMs: number;
  /** Somebody would have taken this way since the last try. */
  asked: boolean;
}

export class ParentHealth {
  readonly #deps: ParentHealthDeps;
  readonly #down = new Map<UpstreamTarget, Down>();
  readonly #closed = new AbortController();

  constructor(deps: ParentHealthDeps) {
    this.#deps = deps;
  }

  isUp(parent: UpstreamTarget): boolean {
    const down = this.#down.get(parent);
    if (down === undefined) return true;
    down.asked = true;
    return false;
  }

  /** A connection to it could not be made. */
  failed(parent: UpstreamTarget): void {
    if (this.#down.has(parent) || this.#closed.signal.aborted) return;
    const deadline = new Deadline(() => this.#try(parent));
    this.#down.set(parent, { deadline, waitMs: FIRST_TRY_MS, asked: true });
    this.#deps.deadlines.arm(deadline, FIRST_TRY_MS);
    this.#deps.log.warn({ upstream: parent.name }, 'a parent proxy cannot be reached');
  }

  /** No try is left behind, and none follows. */
  close(): void {
    this.#closed.abort();
    for (const { deadline } of this.#down.values()) this.#deps.deadlines.disarm(deadline);
    this.#down.clear();
  }

  #try(parent: UpstreamTarget): void {
    const down = this.#down.get(parent);
    if (down === undefined) return;
    if (!down.asked) {
      this.#down.delete(parent);
      return;
    }
    down.asked = false;
    const { signal } = this.#closed;
    const again = (): void => {
      if (signal.aborted) return;
      down.waitMs = Math.min(down.waitMs * 2, MAX_TRY_MS);
      this.#deps.deadlines.arm(down.deadline, down.waitMs);
    };
    const reached = (): void => {
      if (signal.aborted) return;
      this.#down.delete(parent);
      this.#deps.log.info({ upstream: parent.name }, 'a parent proxy can be reached again');
    };
    void this.#deps.tryDial(parent, signal).then(reached, again);
  }
}
