/**
 * The idle connections of a pool: how they get there, how they leave, and which are too old to be
 * lent again. Ages are read from the last tick of the wheel, so that a hit asks no clock.
 */
import type { Clock } from '../clock.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import type { CloseReason, PooledConnection } from './connection.ts';
import type { Entry, Partition } from './partition.ts';
import type { Permits } from './permits.ts';
import type { UpstreamBooks } from './upstream-books.ts';

export interface ShelfDeps<C extends PooledConnection, R> {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly permits: Permits<C, R>;
}

export class Shelf<C extends PooledConnection, R> {
  readonly #clock: Clock;
  readonly #deadlines: DeadlineWheel;
  readonly #permits: Permits<C, R>;
  #uses = 0;

  constructor(deps: ShelfDeps<C, R>) {
    this.#clock = deps.clock;
    this.#deadlines = deps.deadlines;
    this.#permits = deps.permits;
  }

  /** When a connection that was opened just now has to close at the latest (R43). */
  lifetime(partition: Partition<C, R>, connection: C): { openedAt: number; expiresAt: number } {
    const openedAt = this.#clock.now();
    const byAge = openedAt + partition.books.limits.maxAgeMs;
    return { openedAt, expiresAt: Math.min(byAge, connection.notAfter) };
  }

  /** The connection of `partition` that became idle last, now leased; it may be stale. */
  take(partition: Partition<C, R>): Entry<C, R> | undefined {
    const entry = partition.idle.pop();
    if (entry === undefined) return undefined;
    partition.books.idle.remove(entry);
    partition.states.idle -= 1;
    partition.states.leased += 1;
    entry.state = 'leased';
    entry.connection.unwatchIdle();
    return entry;
  }

  /** Why a connection that was idle until now cannot be lent (R40, R43); undefined if it can. */
  staleness(entry: Entry<C, R>): CloseReason | undefined {
    if (!entry.connection.isReusable()) return 'peer';
    const { now } = this.#deadlines;
    if (now >= entry.expiresAt) return 'age';
    if (now - entry.idleSince >= entry.partition.books.limits.idleMs) return 'idle';
    return undefined;
  }

  /** Why a leased connection that comes back cannot be lent on; undefined if it can. */
  unfitness(entry: Entry<C, R>): CloseReason | undefined {
    const { closing, books, group } = entry.partition;
    if (closing !== undefined) return closing;
    if (!entry.connection.isReusable()) return 'peer';
    if (this.#deadlines.now >= entry.expiresAt) return 'age';
    const { maxRequests, maxConnections, maxPerPrincipal } = books.limits;
    if (maxRequests > 0 && entry.requests >= maxRequests) return 'max_requests';
    // Over a limit that was lowered: while it is so, nothing of its scope becomes idle.
    if (books.connections > maxConnections) return 'evicted';
    if (group !== undefined && group.connections > maxPerPrincipal) return 'evicted';
    return undefined;
  }

  /**
   * Puts a leased connection away. With the upstream's shelf full, the least recently used idle
   * connection closes, so that a busy partition does not pay for the idle ones of others.
   */
  park(entry: Entry<C, R>): void {
    const { partition } = entry;
    const { books } = partition;
    if (books.idle.size >= books.limits.maxIdle) {
      const oldest = books.idle.first;
      this.close(oldest ?? entry, 'evicted');
      if (oldest === undefined) return;
    }
    const { now } = this.#deadlines;
    this.#uses += 1;
    entry.lastUse = this.#uses;
    entry.idleSince = now;
    entry.state = 'idle';
    partition.states.leased -= 1;
    partition.states.idle += 1;
    partition.idle.push(entry);
    books.idle.push(entry);
    const end = idleEnd(entry);
    if (end < books.sweepAt) this.#armSweep(books, end);
    // Last: the connection may report at once that it broke.
    entry.connection.watchIdle(entry.broken);
  }

  /** A leased connection whose partition retired: it closes when it comes back. */
  drain(entry: Entry<C, R>): void {
    entry.state = 'draining';
    entry.partition.states.leased -= 1;
    entry.partition.states.draining += 1;
  }

  /** Closes a connection in any state, once, and gives its permit back. */
  close(entry: Entry<C, R>, reason: CloseReason): void {
    if (entry.state === 'closed') return;
    const { partition } = entry;
    const { books } = partition;
    if (entry.state === 'idle') {
      partition.idle.splice(partition.idle.indexOf(entry), 1);
      books.idle.remove(entry);
    }
    partition.states[entry.state] -= 1;
    entry.state = 'closed';
    partition.entries.delete(entry);
    this.#permits.giveBack(partition);
    books.metrics.closed[reason].value += 1;
    const binding = partition.holder.kind === 'none' ? 'none' : 'tied';
    books.metrics.requestsPerConnection.observe(entry.requests, binding);
    entry.connection.destroy(reason);
  }

  /**
   * The idle connections of an upstream that are too old, each with the reason; arms the next sweep
   * for those that are not.
   */
  sweep(books: UpstreamBooks<Entry<C, R>>): [Entry<C, R>, CloseReason][] {
    const { now } = this.#deadlines;
    const due: [Entry<C, R>, CloseReason][] = [];
    let nextEnd = Infinity;
    for (let entry = books.idle.first; entry !== undefined; entry = entry.next) {
      const end = idleEnd(entry);
      if (end > now) nextEnd = Math.min(nextEnd, end);
      else due.push([entry, entry.expiresAt <= now ? 'age' : 'idle']);
    }
    books.sweepAt = Infinity;
    if (nextEnd < Infinity) this.#armSweep(books, nextEnd);
    return due;
  }

  /** Idle connections that lowered limits leave no room for, least recently used first. */
  surplus(books: UpstreamBooks<Entry<C, R>>): Entry<C, R>[] {
    const { maxIdle, maxConnections, maxPerPrincipal } = books.limits;
    const surplus: Entry<C, R>[] = [];
    const ofGroup = new Map<unknown, number>();
    let over = Math.max(books.idle.size - maxIdle, books.connections - maxConnections);
    for (let entry = books.idle.first; entry !== undefined; entry = entry.next) {
      const { group } = entry.partition;
      const left = (group?.connections ?? 0) - (ofGroup.get(group) ?? 0);
      const groupOver = group !== undefined && left > maxPerPrincipal;
      if (over <= 0 && !groupOver) continue;
      over -= 1;
      ofGroup.set(group, (ofGroup.get(group) ?? 0) + 1);
      surplus.push(entry);
    }
    return surplus;
  }

  #armSweep(books: UpstreamBooks<Entry<C, R>>, at: number): void {
    books.sweepAt = at;
    this.#deadlines.arm(books.sweep, at - this.#clock.now());
  }
}

/** Clock ms at which an idle connection is due to close. */
function idleEnd<C extends PooledConnection, R>(entry: Entry<C, R>): number {
  return Math.min(entry.idleSince + entry.partition.books.limits.idleMs, entry.expiresAt);
}
