/**
 * Lends connections, each to the partition that it was opened for and to no other (I1, R1).
 *
 * A request gets, in this order: an idle connection of its partition, an opening of its own when the
 * limits allow one, a place in the queue. What becomes free goes on at once: a released connection
 * to the first waiter of its partition, a permit to the oldest waiter of any partition that may use
 * it. The pool knows neither HTTP nor sockets nor logins; `ConnectionFactory` does.
 *
 * An idle connection is as good as a free permit, because whoever needs its permit may close it: when
 * one closes by itself, nobody gets further. Hence permits are handed on only when a lease or an
 * opening ends, or limits change.
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
import type { Entry, EntryOwner, Parting, PartitionInput, Ticket, Waiter } from './partition.ts';
import { Partition } from './partition.ts';
import { Openings } from './openings.ts';
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

/** After its last request a partition without connections goes, and who it is for with it (R46). */
const UNUSED_MS = 10 * 60_000;

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
  readonly #metrics: PoolMetrics;
  readonly #log: Log;
  readonly #upstreams = new Map<string, UpstreamBooks<Entry<C, R>>>();
  readonly #table: PartitionTable<C, R>;
  readonly #permits: Permits<C, R>;
  readonly #shelf: Shelf<C, R>;
  readonly #openings: Openings<C, R>;
  readonly #queue: WaitQueue<C, R>;
  /** What entries report to; kept out of the pool's own interface. */
  readonly #owner: EntryOwner<C, R> = {
    leaseEnded: (entry, reason) => this.#leaseEnded(entry, reason),
    leaseEndedTwice: (entry) => this.#leaseEndedTwice(entry),
    // A report about a connection that was leased meanwhile comes too late.
    idleBroke: (entry, reason) => {
      if (entry.state === 'idle') this.#shelf.close(entry, reason);
    },
  };
  readonly #unused = new Deadline(() => this.#dropUnused());
  /** Counts retirements: a partition that has no room yet must not outlive one. */
  #epoch = 0;
  #closed = false;
  #serving = false;
  #serveAgain = false;

  constructor(deps: PoolDeps<C, R>, limits: PoolLimits) {
    const { clock, deadlines } = deps;
    this.#clock = clock;
    this.#deadlines = deadlines;
    this.#metrics = deps.metrics;
    this.#log = deps.log;
    this.#table = new PartitionTable(limits.partitions);
    this.#permits = new Permits(limits.upstreamConnections, this.#upstreams);
    this.#shelf = new Shelf({ clock, deadlines, permits: this.#permits });
    this.#openings = new Openings({
      ...deps,
      permits: this.#permits,
      shelf: this.#shelf,
      owner: this.#owner,
      freed: () => this.#serveWaiters(),
    });
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
        this.#table.touch(partition, this.#deadlines.now);
        waiter.leased(entry.lend());
        return;
      }
      this.#shelf.close(entry, stale);
    }
    this.#miss(partition, waiter);
  }

  /**
   * As `acquire`, without looking at idle connections: for a request whose connection turned out to
   * have lost its login, which the idle ones may have lost as well (R38). In the queue it may still
   * get a connection that another request gives back.
   */
  acquireFresh(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    this.#miss(partition, waiter);
  }

  /**
   * The owner of `waiter` wants no connection any more: it leaves the queue, or its opening is
   * aborted and the connection closed (R17). Neither `leased` nor `refused` follows. Nothing happens
   * when the waiter is in no acquisition.
   */
  cancel(waiter: Waiter<C, R>): void {
    const { place } = waiter;
    switch (place?.kind) {
      case undefined:
        return;
      case 'queued':
        this.#queue.leave(place);
        return;
      case 'opening':
        this.#openings.abandon(place, 'error');
        place.handle?.abort();
        return;
      case 'parting':
        waiter.place = undefined;
        return;
      default:
        place satisfies never;
    }
  }

  /**
   * An answer of `factory.mayOpen` may have become true. All waiters are looked at: a login that
   * succeeded for one partition may be what another one waited for.
   */
  reconsider(): void {
    this.#serveWaiters();
  }

  /**
   * Retires all partitions of a principal, after its secret changed or an operator asked for it: no
   * new lease from what exists, idle connections close now, leased ones when they come back, openings
   * are aborted (R15, R50). Its waiters are refused with retry `safe`.
   */
  retirePrincipal(principal: string, reason: 'rotated' | 'flushed' = 'flushed'): void {
    this.retireWhere((partition) => partition.belongsTo(principal), reason);
  }

  /** The same for all partitions meant, in one step: who waits is sent to another one only once. */
  retireWhere(isMeant: (partition: Partition<C, R>) => boolean, reason: CloseReason): void {
    this.#epoch += 1;
    const left = this.#retire(this.#table.all().filter(isMeant), reason);
    for (const { waiter, upstream, parting } of left) {
      // The callback of one may have cancelled another, which may even be in a new search by now.
      if (waiter.place !== parting) continue;
      waiter.place = undefined;
      waiter.refused(refusals.retired(upstream, reason));
    }
  }

  /** The same for all partitions, for good: whoever waits or comes later gets `shutting-down`. */
  close(): void {
    this.#closed = true;
    this.retireWhere(() => true, 'shutdown');
    this.#deadlines.disarm(this.#unused);
    for (const books of this.#upstreams.values()) this.#deadlines.disarm(books.sweep);
  }

  /** Plain data for the admin listener. */
  snapshot(): PoolSnapshot {
    const partitions = [...this.#table.all(), ...this.#table.retiring()];
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
      this.#shelf.close(entry, unfit);
      this.#serveWaiters();
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
    this.#table.touch(partition, this.#deadlines.now);
    // Whoever waits already goes first: in the same partition, where the gate of the opener may have
    // opened unnoticed, and anywhere while permits are being handed on.
    const mayGoFirst = queue.size === 0 && (!this.#serving || this.#queue.isEmpty);
    if (mayGoFirst && this.#openings.mayOpen(partition)) {
      books.metrics.leases.new.value += 1;
      this.#openings.open(partition, waiter);
      return;
    }
    if (books.waiters >= books.limits.maxWaiters) {
      this.#refuse(partition, waiter, refusals.queueFull(books.name, books.limits));
      return;
    }
    this.#queue.enter(partition, waiter);
    if (!mayGoFirst) this.#serveWaiters();
  }

  #refusal(partition: Partition<C, R>): ProxyError | undefined {
    const { upstream } = partition;
    if (partition.admitted || (!partition.retired && this.#admit(partition))) return undefined;
    const { closing } = partition;
    return closing === undefined
      ? refusals.partitionLimit(upstream)
      : refusals.retired(upstream, closing);
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
      partition.closing = this.#closed ? 'shutdown' : 'evicted';
      return false;
    }
    if (this.#table.isFull) {
      const victim = this.#table.leastRecentlyUsedQuiet();
      if (victim === undefined) return false;
      this.#retire([victim], 'evicted');
    }
    this.#table.add(partition, this.#deadlines.now);
    if (!this.#unused.armed) this.#deadlines.arm(this.#unused, UNUSED_MS);
    return true;
  }

  /** Whoever wants such a partition again makes it again; until then nothing keeps its identity. */
  #dropUnused(): void {
    this.#retire(this.#table.unusedSince(this.#deadlines.now - UNUSED_MS), 'evicted');
    if (!this.#table.isEmpty) this.#deadlines.arm(this.#unused, UNUSED_MS);
  }

  #sweep(books: UpstreamBooks<Entry<C, R>>): void {
    for (const [entry, reason] of this.#shelf.sweep(books)) {
      if (entry.state === 'idle') this.#shelf.close(entry, reason);
    }
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
        const ticket = this.#queue.oldest((partition) => this.#openings.mayOpen(partition));
        if (ticket === undefined) continue;
        this.#queue.leave(ticket);
        this.#serveAgain = true;
        this.#openings.open(ticket.partition, ticket.waiter);
      }
    } finally {
      this.#serving = false;
    }
  }

  /**
   * Takes partitions out of service and returns who has to be told; calls no waiter of theirs. All
   * of them stop lending before the first permit becomes free.
   */
  #retire(partitions: readonly Partition<C, R>[], reason: CloseReason): Retired<C, R>[] {
    const left: Retired<C, R>[] = [];
    const parting: Parting = { kind: 'parting' };
    for (const partition of partitions) {
      const { upstream, queue } = partition;
      partition.closing = reason;
      this.#table.remove(partition);
      for (let ticket = queue.first; ticket !== undefined; ticket = queue.first) {
        this.#queue.leave(ticket);
        left.push({ waiter: ticket.waiter, upstream, parting });
      }
      for (const opening of partition.openings) {
        if (opening.waiter !== undefined) left.push({ waiter: opening.waiter, upstream, parting });
        this.#openings.abandon(opening, reason);
      }
    }
    for (const { waiter } of left) waiter.place = parting;
    for (const { entries, openings } of partitions) {
      for (const entry of entries) {
        if (entry.state === 'idle') this.#shelf.close(entry, reason);
        else this.#shelf.drain(entry);
      }
      // A copy: an aborted opening leaves the set.
      for (const opening of Array.from(openings)) opening.handle?.abort();
    }
    return left;
  }
}

/** Who has to be told that a partition retired. */
interface Retired<C extends PooledConnection, R> {
  readonly waiter: Waiter<C, R>;
  readonly upstream: string;
  /** What the waiter's place is until it is told. */
  readonly parting: Parting;
}
