/**
 * The queue of a pool: who waits, in which order, and for how long at most (I9). Each partition has
 * its own line; over all of them, the order of arrival is kept by number.
 */
import type { Clock } from '../clock.ts';
import { Deadline } from '../deadlines.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { PooledConnection } from './connection.ts';
import type { Partition, Waiter } from './partition.ts';
import { Ticket } from './partition.ts';

export interface QueueDeps<C extends PooledConnection, R> {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  /** The ticket waited for `waitMs`; it is out of the queue already. */
  readonly expired: (ticket: Ticket<C, R>) => void;
}

export class WaitQueue<C extends PooledConnection, R> {
  readonly #deps: QueueDeps<C, R>;
  readonly #waiting = new Set<Partition<C, R>>();
  #order = 0;

  constructor(deps: QueueDeps<C, R>) {
    this.#deps = deps;
  }

  /** Nobody waits anywhere. */
  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  enter(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    const { clock, deadlines } = this.#deps;
    const { books, queue } = partition;
    this.#order += 1;
    const ticket = new Ticket(partition, waiter, this.#order, clock.now());
    ticket.deadline = new Deadline(() => {
      this.#remove(ticket);
      this.#deps.expired(ticket);
    });
    deadlines.arm(ticket.deadline, books.limits.waitMs);
    waiter.place = ticket;
    queue.push(ticket);
    books.waiters += 1;
    this.#waiting.add(partition);
  }

  /** Takes `ticket` out before its deadline: served, cancelled, or its partition retired. */
  leave(ticket: Ticket<C, R>): void {
    if (ticket.deadline !== undefined) this.#deps.deadlines.disarm(ticket.deadline);
    this.#remove(ticket);
    ticket.partition.books.metrics.leases.waited.value += 1;
  }

  /** The first in the lines of those partitions that `mayServe`. */
  oldest(mayServe: (partition: Partition<C, R>) => boolean): Ticket<C, R> | undefined {
    let oldest: Ticket<C, R> | undefined;
    for (const partition of this.#waiting) {
      const { first } = partition.queue;
      if (first === undefined) continue;
      if (oldest !== undefined && oldest.order < first.order) continue;
      if (mayServe(partition)) oldest = first;
    }
    return oldest;
  }

  #remove(ticket: Ticket<C, R>): void {
    const { partition, waiter } = ticket;
    waiter.place = undefined;
    partition.queue.remove(ticket);
    partition.books.waiters -= 1;
    if (partition.queue.size === 0) this.#waiting.delete(partition);
    const waited = this.#deps.clock.now() - ticket.since;
    partition.books.metrics.waitSeconds.observe(waited / 1000);
  }
}
