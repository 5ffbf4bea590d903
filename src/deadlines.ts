/**
 * Deadlines by one timer wheel per process instead of a timer per wait. A deadline fires never
 * before its time and at most two ticks after it. What a deadline means is its owner's business.
 *
 * The wheel is an array of slots; slot k holds the deadlines that are due in the tick ending at
 * k × tickMs, or whole turns of the wheel later. Arming writes a number and links an intrusive node; arming again for a later time
 * writes the number alone, and the node moves on when its old slot comes up.
 */
import type { Clock } from './clock.ts';

/** A power of two. With 50 ms ticks one turn of the wheel takes 51.2 s; longer waits go round. */
const SLOTS = 1024;
const DEFAULT_TICK_MS = 50;

/**
 * One deadline, made once by its owner and armed any number of times. `expire` is called from a
 * tick, after the deadline was disarmed, and may arm it again.
 */
export class Deadline {
  readonly expire: () => void;
  /** Clock ms; NaN while not armed. Written by the wheel only, as are the three fields below. */
  due = Number.NaN;
  slot = 0;
  previous: Deadline | undefined = undefined;
  next: Deadline | undefined = undefined;

  constructor(expire: () => void) {
    this.expire = expire;
  }

  /** Whether `expire` is still to come. */
  get armed(): boolean {
    return this.next !== undefined;
  }
}

/** The wheel. The process has one; a deadline belongs to the wheel that armed it. */
export class DeadlineWheel {
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #slots: Deadline[] = [];
  /** Deadlines taken out of their slots by the running tick, or left over by one that threw. */
  readonly #firing = listHead();
  #now: number;
  /** The earliest slot that was not emptied for good; deadlines already due are linked there. */
  #cursor: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(clock: Clock, tickMs: number = DEFAULT_TICK_MS) {
    this.#clock = clock;
    this.#tickMs = tickMs;
    this.#now = clock.now();
    this.#cursor = Math.ceil(this.#now / tickMs);
    for (let i = 0; i < SLOTS; i += 1) this.#slots.push(listHead());
  }

  /** The clock as of the last tick: at most a tick old while the event loop is not blocked. */
  get now(): number {
    return this.#now;
  }

  /** Ticks by itself from now on; does not keep the process alive. May be called twice. */
  start(): void {
    this.#timer ??= setInterval(() => this.tick(), this.#tickMs).unref();
  }

  /** Ends what `start` began. Armed deadlines stay armed. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /**
   * Arms `deadline` for `ms` from now, instead of what it was armed for before. A deadline armed
   * with 0 or less fires in the next tick, never inside this call.
   */
  arm(deadline: Deadline, ms: number): void {
    const due = this.#clock.now() + ms;
    deadline.due = due;
    const slot = Math.ceil(due / this.#tickMs);
    if (deadline.next !== undefined) {
      if (deadline.slot <= slot) return;
      unlink(deadline);
    }
    this.#link(deadline, slot);
  }

  /** Takes the arming back; nothing happens when it is not armed. */
  disarm(deadline: Deadline): void {
    if (deadline.next === undefined) return;
    unlink(deadline);
    deadline.due = Number.NaN;
  }

  /**
   * Fires everything that is due. An exception of an `expire` leaves the tick; the deadlines that
   * it kept waiting fire in the next one.
   */
  tick(): void {
    const now = this.#clock.now();
    this.#now = now;
    this.#collect(now);
    const firing = this.#firing;
    for (;;) {
      const deadline = firing.next;
      if (deadline === undefined || deadline === firing) return;
      unlink(deadline);
      // Re-armed for later, or by an earlier callback of this very tick.
      if (deadline.due > now) {
        this.#link(deadline, Math.ceil(deadline.due / this.#tickMs));
        continue;
      }
      deadline.due = Number.NaN;
      deadline.expire();
    }
  }

  /** Moves every slot up to `now` to the firing list, the slot that `now` lies in included. */
  #collect(now: number): void {
    const last = Math.ceil(now / this.#tickMs);
    // After a long pause one turn visits every slot there is.
    const first = Math.max(this.#cursor, last - SLOTS + 1);
    for (let slot = first; slot <= last; slot += 1) {
      const head = this.#slots[slot & (SLOTS - 1)];
      if (head !== undefined) splice(head, this.#firing);
    }
    this.#cursor = last;
  }

  #link(deadline: Deadline, wanted: number): void {
    const slot = Math.max(wanted, this.#cursor);
    deadline.slot = slot;
    const head = this.#slots[slot & (SLOTS - 1)];
    if (head !== undefined) insertBefore(head, deadline);
  }
}

/** The head of a circular list; an empty list points at itself. */
function listHead(): Deadline {
  const head = new Deadline(() => undefined);
  head.next = head;
  head.previous = head;
  return head;
}

function insertBefore(head: Deadline, deadline: Deadline): void {
  const last = head.previous ?? head;
  deadline.previous = last;
  deadline.next = head;
  last.next = deadline;
  head.previous = deadline;
}

function unlink(deadline: Deadline): void {
  const { previous, next } = deadline;
  if (previous !== undefined) previous.next = next;
  if (next !== undefined) next.previous = previous;
  deadline.previous = undefined;
  deadline.next = undefined;
}

/** Appends the whole list of `from` to `to` and leaves `from` empty. */
function splice(from: Deadline, to: Deadline): void {
  const first = from.next;
  const last = from.previous;
  if (first === undefined || last === undefined || first === from) return;
  const tail = to.previous ?? to;
  tail.next = first;
  first.previous = tail;
  last.next = to;
  to.previous = last;
  from.next = from;
  from.previous = from;
}
