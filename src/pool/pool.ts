/**
 * Lends connections, each to the partition that it was opened for and to no other (I1, R1).
 *
 * A request gets, in this order: an idle connection of its partition, an opening of its own when the
 * limits allow one, a place in the queue. What becomes free goes on at once: a released connection
 * to the first waiter of its partition, a permit to the oldest waiter of any partition that may use
 * it. The pool knows neither HTTP nor sockets nor logins; `ConnectionFactory` does.
 *
 * Callbacks of waiters and factories may call the pool again: the books are right before each call,
 * and freed permits are handed on by one loop (`#serveWaiters`) that never runs inside itself.
 */
import type { Clock } from '../clock.ts';
import { Deadline } from '../deadlines.ts';
import type { DeadlineWheel } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import type { Log } from '../log/log.ts';
import type { CloseReason, PooledConnection } from './connection.ts';
import type { ConnectionFactory } from './factory.ts';
import type { PoolLimits, UpstreamLimits } from './limits.ts';
import type { EntryOwner, PartitionInput, Ticket, Waiter } from './partition.ts';
import { Entry, Opening, Partition } from './partition.ts';
import { encodePartitionKey, partitionId } from './partition-key.ts';
import { PartitionTable } from './partition-table.ts';
import { Permits } from './permits.ts';
import type { PoolMetrics } from './pool-metrics.ts';
import * as refusals from './refusals.ts';
import { Shelf } from './shelf.ts';
import type { PoolSnapshot } from './snapshot.ts';
import { snapshotUpstream } from './snapshot.ts';
import { UpstreamBooks } from './upstream-books.ts';
import { WaitQueue } from './waiting.ts';

export interface PoolDeps<C extends PooledConnection, R> {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly factory: ConnectionFactory<C, R>;
  readonly metrics: PoolMetrics;
  readonly log: Log;
}

export class Pool<C extends PooledConnection, R> {
  readonly #clock: Clock;
  readonly #deadlines: DeadlineWheel;
  readonly #factory: ConnectionFactory<C, R>;
  readonly #metrics: PoolMetrics;
  readonly #log: Log;
  readonly #upstreams = new Map<string, UpstreamBooks<Entry<C, R>>>();
  readonly #table: PartitionTable<C, R>;
  readonly #permits: Permits<C, R>;
  readonly #shelf: Shelf<C, R>;
  readonly #queue: WaitQueue<C, R>;
  readonly #mayOpen = (partition: Partition<C, R>): boolean => this.#hasPermit(partition);
  /** What entries report to; kept out of the pool's own interface. */
  readonly #owner: EntryOwner<C, R> = {
    leaseEnded: (entry, reason) => this.#leaseEnded(entry, reason),
    leaseEndedTwice: (entry) => this.#leaseEndedTwice(entry),
    // A report about a connection that was leased meanwhile comes too late.
    idleBroke: (entry, reason) => {
      if (entry.state === 'idle') this.#close(entry, reason);
    },
  };
  /** Counts retirements: a partition that has no room yet must not outlive one. */
  #epoch = 0;
  #closed = false;
  #serving = false;
  #serveAgain = false;

  constructor(deps: PoolDeps<C, R>, limits: PoolLimits) {
    const { clock, deadlines } = deps;
    this.#clock = clock;
    this.#deadlines = deadlines;
    this.#factory = deps.factory;
    this.#metrics = deps.metrics;
    this.#log = deps.log;
    this.#table = new PartitionTable(limits.partitions);
    this.#permits = new Permits(limits.upstreamConnections, this.#upstreams);
    this.#shelf = new Shelf({ clock, deadlines, permits: this.#permits });
    const expired = (ticket: Ticket<C, R>): void => this.#expired(ticket);
    this.#queue = new WaitQueue({ clock, deadlines, expired });
  }

  /**
   * Makes an upstream known, or gives a known one new limits: idle connections that have no room
   * under them close at once, leased ones when they come back.
   */
  addUpstream(name: string, limits: UpstreamLimits): void {
    const known = this.#upstreams.get(name);
    if (known === undefined) {
      const sweep = new Deadline(() => this.#sweep(books));
      const register: PoolMetrics['upstream'] = (of, gauges) => this.#metrics.upstream(of, gauges);
      const books = new UpstreamBooks<Entry<C, R>>(name, limits, { sweep, register });
      this.#upstreams.set(name, books);
      return;
    }
    known.limits = limits;
    for (const entry of this.#shelf.surplus(known)) this.#shelf.close(entry, 'evicted');
    this.#sweep(known);
    this.#serveWaiters();
  }

  /**
   * The partition of these facts; the same object for equal facts until it retires. Its owner keeps
   * it and asks again when it is `retired`. Throws `internal` for an upstream that was not added.
   */
  partition(input: PartitionInput): Partition<C, R> {
    const known = this.#table.find(encodePartitionKey(input));
    if (known !== undefined) return known;
    const books = this.#upstreams.get(input.upstream);
    if (books === undefined) {
      const facts = { side: 'internal', stage: 'connect' } as const;
      throw new ProxyError('internal', `the pool does not know ${input.upstream}`, facts);
    }
    const partition = new Partition<C, R>(input, books, this.#epoch);
    if (this.#closed) partition.closing = 'shutdown';
    // Without room it stays outside; `acquire` tries again, and refuses when there is none still.
    else this.#admit(partition);
    return partition;
  }

  /**
   * Finds a connection for `waiter`, who is told by `leased` or `refused`, both possibly inside this
   * call. Throws `internal` when the waiter is still in another acquisition.
   */
  acquire(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    for (;;) {
      const entry = this.#shelf.take(partition);
      if (entry === undefined) break;
      // Between its last use and now the peer may have closed it or sent a byte (R40).
      const stale = this.#shelf.staleness(entry);
      if (stale === undefined) {
        partition.books.metrics.leases.hit.value += 1;
        this.#table.touch(partition);
        waiter.leased(entry.lend());
        return;
      }
      this.#close(entry, stale);
    }
    this.#miss(partition, waiter);
  }

  /**
   * The owner of `waiter` wants no connection any more: it leaves the queue, or its opening is
   * aborted and the connection closed (R17). Neither `leased` nor `refused` follows. Nothing happens
   * when the waiter is in no acquisition.
   */
  cancel(waiter: Waiter<C, R>): void {
    const { place } = waiter;
    if (place === undefined) return;
    if (place.kind === 'queued') {
      this.#queue.leave(place);
      return;
    }
    this.#abandon(place, 'error');
    place.handle?.abort();
  }

  /** The answer of `factory.mayOpen` for this partition may have become true. */
  reconsider(partition: Partition<C, R>): void {
    if (partition.queue.size > 0) this.#serveWaiters();
  }

  /**
   * Retires all partitions of a principal, after its secret changed or an operator asked for it: no
   * new lease from what exists, idle connections close now, leased ones when they come back, openings
   * are aborted (R15, R50). Its waiters are refused with retry `safe`.
   */
  retirePrincipal(principal: string, reason: 'rotated' | 'flushed' = 'flushed'): void {
    this.#retireAll((partition) => partition.belongsTo(principal), reason, refusals.retired);
  }

  /** The same for all partitions of an upstream (R50). */
  drainUpstream(name: string): void {
    this.#retireAll((partition) => partition.upstream === name, 'flushed', refusals.retired);
  }

  /** The same for all partitions, for good: whoever waits or comes later gets `shutting-down`. */
  close(): void {
    this.#closed = true;
    this.#retireAll(() => true, 'shutdown', refusals.shuttingDown);
    for (const books of this.#upstreams.values()) this.#deadlines.disarm(books.sweep);
  }

  /** Plain data for the admin listener. */
  snapshot(): PoolSnapshot {
    const partitions = this.#table.all();
    const now = this.#clock.now();
    return {
      connections: this.#permits.used,
      upstreams: [...this.#upstreams.values()].map((books) =>
        snapshotUpstream(books, partitions, now),
      ),
    };
  }

  #leaseEnded(entry: Entry<C, R>, reason: CloseReason | undefined): void {
    const unfit = reason ?? this.#shelf.unfitness(entry);
    if (unfit !== undefined) {
      this.#close(entry, unfit);
      return;
    }
    const { first } = entry.partition.queue;
    if (first === undefined) {
      this.#shelf.park(entry);
      // An idle connection can be evicted for a waiter of another partition.
      this.#serveWaiters();
      return;
    }
    this.#queue.leave(first);
    first.waiter.leased(entry.lend());
  }

  #leaseEndedTwice(entry: Entry<C, R>): void {
    this.#metrics.violated('double_release');
    const { upstream, key } = entry.partition;
    const facts = { upstream, partition: partitionId(key), connection: entry.connection.id };
    this.#log.error(facts, 'a lease was ended twice');
  }

  #miss(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    if (waiter.place !== undefined) {
      const facts = { side: 'internal', stage: 'connect' } as const;
      throw new ProxyError('internal', 'a request looks for two connections at once', facts);
    }
    const { books, queue } = partition;
    const refusal = this.#refusal(partition);
    if (refusal !== undefined) {
      this.#refuse(partition, waiter, refusal);
      return;
    }
    this.#table.touch(partition);
    // While permits are being handed on, whoever waits already goes first.
    const mayGoFirst = queue.size === 0 && (!this.#serving || this.#queue.isEmpty);
    if (mayGoFirst && this.#hasPermit(partition)) {
      books.metrics.leases.new.value += 1;
      this.#open(partition, waiter);
      return;
    }
    if (books.waiters >= books.limits.maxWaiters) {
      this.#refuse(partition, waiter, refusals.queueFull(books.name, books.limits));
      return;
    }
    this.#queue.enter(partition, waiter);
    if (this.#serving) this.#serveAgain = true;
  }

  #refusal(partition: Partition<C, R>): ProxyError | undefined {
    if (this.#closed) return refusals.shuttingDown();
    if (partition.retired) return refusals.retired(partition.upstream);
    if (partition.admitted || this.#admit(partition)) return undefined;
    return partition.retired
      ? refusals.retired(partition.upstream)
      : refusals.partitionLimit(partition.upstream);
  }

  #refuse(partition: Partition<C, R>, waiter: Waiter<C, R>, error: ProxyError): void {
    partition.books.metrics.leases.rejected.value += 1;
    waiter.refused(error);
  }

  /** Whether `partition` is in the table now; makes room by retiring one that is not at work. */
  #admit(partition: Partition<C, R>): boolean {
    if (partition.epoch !== this.#epoch || this.#table.find(partition.key) !== undefined) {
      // While there was no room for this one, its principal may have been retired, or another object
      // with its key got in.
      partition.closing = 'evicted';
      return false;
    }
    if (this.#table.isFull) {
      const victim = this.#table.leastRecentlyUsedQuiet();
      if (victim === undefined) return false;
      this.#retire(victim, 'evicted');
    }
    this.#table.add(partition);
    this.#serveWaiters();
    return true;
  }

  #hasPermit(partition: Partition<C, R>): boolean {
    const { books } = partition;
    if (books.openings >= books.limits.maxHandshakes) return false;
    if (this.#permits.obstacle(partition) === 'in-use') return false;
    return this.#factory.mayOpen?.(partition) ?? true;
  }

  /** Begins an opening that `#hasPermit` allowed. */
  #open(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    const { books } = partition;
    const obstacle = this.#permits.obstacle(partition);
    if (obstacle instanceof Entry) this.#shelf.close(obstacle, 'evicted');
    const opening = new Opening<C, R>(partition, waiter);
    waiter.place = opening;
    this.#permits.take(partition);
    books.openings += 1;
    partition.states.opening += 1;
    partition.openings.add(opening);
    this.#begin(opening, waiter.request);
    if (opening.ended) return;
    books.metrics.opened.value += 1;
    // The owner may have cancelled from inside `open`, when there was nothing to abort yet.
    if (opening.waiter === undefined) opening.handle?.abort();
  }

  #begin(opening: Opening<C, R>, request: R): void {
    const { partition } = opening;
    try {
      opening.handle = this.#factory.open(partition, request, (error, connection) => {
        this.#opened(opening, error, connection);
      });
    } catch (error) {
      if (opening.ended) throw error;
      this.#opened(opening, refusals.openerFault(partition.upstream, error), undefined);
    }
  }

  #opened(opening: Opening<C, R>, error: ProxyError | undefined, connection: C | undefined): void {
    if (opening.ended) {
      this.#metrics.violated('double_release');
      this.#log.error({ upstream: opening.partition.upstream }, 'an opening ended twice');
      connection?.destroy('error');
      return;
    }
    const { partition } = opening;
    opening.ended = true;
    partition.openings.delete(opening);
    partition.books.openings -= 1;
    partition.states.opening -= 1;
    if (connection === undefined) {
      this.#openingFailed(opening, error ?? refusals.openerFault(partition.upstream, undefined));
      return;
    }
    // Ended inside `open`: it was not counted as begun.
    if (opening.handle === undefined) partition.books.metrics.opened.value += 1;
    partition.states.leased += 1;
    const times = this.#shelf.lifetime(partition, connection);
    const entry = new Entry<C, R>(this.#owner, partition, connection, times);
    partition.entries.add(entry);
    if (opening.waiter === undefined) {
      this.#close(entry, opening.abandoned);
      return;
    }
    this.#serveWaiters();
    this.#deliver(opening, entry);
  }

  /** Hands a new connection over, unless nobody wants it since permits were handed on. */
  #deliver(opening: Opening<C, R>, entry: Entry<C, R>): void {
    const { waiter, partition } = opening;
    if (waiter === undefined) {
      this.#close(entry, opening.abandoned);
      return;
    }
    waiter.place = undefined;
    if (partition.closing === undefined) {
      waiter.leased(entry.lend());
      return;
    }
    this.#close(entry, partition.closing);
    waiter.refused(this.#closed ? refusals.shuttingDown() : refusals.retired(partition.upstream));
  }

  #openingFailed(opening: Opening<C, R>, error: ProxyError): void {
    const { partition } = opening;
    this.#permits.giveBack(partition);
    if (opening.handle !== undefined) {
      const { closed } = partition.books.metrics;
      const reason = error.stage === 'handshake' ? 'auth_failed' : 'error';
      closed[opening.waiter === undefined ? opening.abandoned : reason].value += 1;
    }
    this.#serveWaiters();
    const { waiter } = opening;
    if (waiter === undefined) return;
    waiter.place = undefined;
    waiter.refused(error);
  }

  /** Parts an opening from its waiter; what it brings is closed for `reason`. */
  #abandon(opening: Opening<C, R>, reason: CloseReason): void {
    if (opening.waiter !== undefined) opening.waiter.place = undefined;
    opening.waiter = undefined;
    opening.abandoned = reason;
  }

  #close(entry: Entry<C, R>, reason: CloseReason): void {
    this.#shelf.close(entry, reason);
    this.#serveWaiters();
  }

  #sweep(books: UpstreamBooks<Entry<C, R>>): void {
    for (const [entry, reason] of this.#shelf.sweep(books)) {
      if (entry.state === 'idle') this.#shelf.close(entry, reason);
    }
    this.#serveWaiters();
  }

  #expired(ticket: Ticket<C, R>): void {
    const { books } = ticket.partition;
    books.metrics.leases.timeout.value += 1;
    ticket.waiter.refused(refusals.waitTimeout(books.name, books.limits));
  }

  /** Opens for the oldest waiter that may, until none may. */
  #serveWaiters(): void {
    if (this.#queue.isEmpty) return;
    this.#serveAgain = true;
    if (this.#serving) return;
    this.#serving = true;
    try {
      while (this.#serveAgain) {
        this.#serveAgain = false;
        const ticket = this.#queue.oldest(this.#mayOpen);
        if (ticket === undefined) continue;
        this.#queue.leave(ticket);
        this.#serveAgain = true;
        this.#open(ticket.partition, ticket.waiter);
      }
    } finally {
      this.#serving = false;
    }
  }

  #retireAll(
    isMeant: (partition: Partition<C, R>) => boolean,
    reason: CloseReason,
    refusal: (upstream: string) => ProxyError,
  ): void {
    this.#epoch += 1;
    const refused = this.#table
      .all()
      .filter(isMeant)
      .flatMap((partition) => {
        const waiters = this.#retire(partition, reason);
        return waiters.map((waiter) => ({ waiter, error: refusal(partition.upstream) }));
      });
    this.#serveWaiters();
    for (const { waiter, error } of refused) waiter.refused(error);
  }

  /** Takes `partition` out of service and returns who has to be told. Calls no waiter itself. */
  #retire(partition: Partition<C, R>, reason: CloseReason): Waiter<C, R>[] {
    partition.closing = reason;
    this.#table.remove(partition);
    const waiters: Waiter<C, R>[] = [];
    for (let ticket = partition.queue.first; ticket; ticket = partition.queue.first) {
      this.#queue.leave(ticket);
      waiters.push(ticket.waiter);
    }
    const openings = [...partition.openings];
    for (const opening of openings) {
      if (opening.waiter !== undefined) waiters.push(opening.waiter);
      this.#abandon(opening, reason);
    }
    for (const entry of partition.entries) this.#retireEntry(entry, reason);
    for (const opening of openings) opening.handle?.abort();
    return waiters;
  }

  #retireEntry(entry: Entry<C, R>, reason: CloseReason): void {
    if (entry.state === 'idle') this.#shelf.close(entry, reason);
    if (entry.state !== 'leased') return;
    entry.state = 'draining';
    entry.partition.states.leased -= 1;
    entry.partition.states.draining += 1;
  }
}
