/**
 * A partition and what belongs to it: its connections, the openings made for it, and who waits. These
 * are records with names for their states; `Pool`, `Shelf` and `Permits` move them between states.
 *
 *                 ┌───────────── leased again ─────────────┐
 *                 ▼                                        │
 *   opening ──▶ leased ──────────── released ───────────▶ idle
 *      │          │  └─ partition retired ─▶ draining       │
 *      │          │                             │           │
 *      └─ failed ─┴─ discarded, unfit ──────────┴───────────┴──▶ closed
 *
 * `opening` covers connecting and authenticating; until it ends, exactly one request owns the
 * connection and the pool has no record of it but an `Opening` (R16). No arrow leads from one
 * partition to another (I1, R20).
 */
import type { Deadline } from '../deadlines.ts';
import type { ProxyError } from '../errors.ts';
import { type IdentityDigest, identityDigest } from '../identity/digest.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { BrokenReason, CloseReason, PooledConnection } from './connection.ts';
import { IntrusiveList } from './intrusive-list.ts';
import type { LeaseHolder } from './lease.ts';
import { Lease } from './lease.ts';
import type { PartitionFacts, PartitionKey } from './partition-key.ts';
import { encodePartitionKey } from './partition-key.ts';
import type { MutableStateCounts, PrincipalGroup, UpstreamBooks } from './upstream-books.ts';

/** What a partition is made of: its key's facts, and what its opener needs to know. */
export interface PartitionInput extends PartitionFacts {
  /** Its digest is `originIdentity`. */
  readonly identity: Identity;
  /** Whose digest is `proxyIdentity`, where a login at a parent proxy is needed. */
  readonly parentIdentity?: Identity;
  /** The opener's own data. */
  readonly context: unknown;
}

/**
 * One request in search of a connection, reused by its owner for many requests but never for two at
 * a time. Each `acquire` ends in one call of `leased` or `refused`, or by the owner's `cancel`.
 */
export interface Waiter<C extends PooledConnection, R> {
  readonly request: R;
  /** The pool's own; starts as undefined. */
  place: Place<C, R> | undefined;
  /** Inside `acquire` on a hit, later otherwise. */
  leased(lease: Lease<C>): void;
  /**
   * No connection: `pool-queue-full`, `pool-wait-timeout`, `connection-limit`, `shutting-down`, or
   * the opener's error. When `partition.retired`, an `upstream-closed` with retry `safe` means: ask
   * for the partition again and acquire there. May be called inside `acquire`.
   */
  refused(error: ProxyError): void;
}

/** Where a waiter is: in the queue, at its opening, or about to be told that its partition retired. */
export type Place<C extends PooledConnection, R> = Ticket<C, R> | Opening<C, R> | Parting;

/** The place of a waiter whose partition retired, until it is told. */
export interface Parting {
  readonly kind: 'parting';
}

/** A place in the queue of a partition. */
export class Ticket<C extends PooledConnection, R> {
  readonly kind = 'queued';
  readonly partition: Partition<C, R>;
  readonly waiter: Waiter<C, R>;
  /** Grows with every ticket of the pool. */
  readonly order: number;
  /** Clock ms. */
  readonly since: number;
  deadline: Deadline | undefined = undefined;
  previous: Ticket<C, R> | undefined = undefined;
  next: Ticket<C, R> | undefined = undefined;

  constructor(partition: Partition<C, R>, waiter: Waiter<C, R>, order: number, since: number) {
    this.partition = partition;
    this.waiter = waiter;
    this.order = order;
    this.since = since;
  }
}

/** One connection in the making; it belongs to one waiter, whose request it may already carry. */
export class Opening<C extends PooledConnection, R> {
  readonly kind = 'opening';
  readonly partition: Partition<C, R>;
  /** Undefined once nobody wants the connection any more; then it is closed as soon as it is there. */
  waiter: Waiter<C, R> | undefined;
  /** Why nobody wants it. */
  abandoned: CloseReason = 'error';
  /** Undefined while the factory's `open` has not returned. */
  handle: { abort(): void } | undefined = undefined;
  ended = false;

  constructor(partition: Partition<C, R>, waiter: Waiter<C, R>) {
    this.partition = partition;
    this.waiter = waiter;
  }
}

/** The pool's side of an `Entry`. */
export interface EntryOwner<C extends PooledConnection, R> {
  leaseEnded(entry: Entry<C, R>, reason: CloseReason | undefined): void;
  leaseEndedTwice(entry: Entry<C, R>): void;
  idleBroke(entry: Entry<C, R>, reason: BrokenReason): void;
}

/** One open connection. */
export class Entry<C extends PooledConnection, R> implements LeaseHolder<C> {
  readonly connection: C;
  readonly partition: Partition<C, R>;
  /** Handed to `watchIdle` each time. A report that comes late, out of idle, is nobody's. */
  readonly broken: (reason: BrokenReason) => void;
  readonly openedAt: number;
  /** Clock ms: age limit, or the end that is known from outside (R43). */
  readonly expiresAt: number;
  state: 'leased' | 'idle' | 'draining' | 'closed' = 'leased';
  requests = 0;
  /** Clock ms, as of a tick. */
  idleSince = 0;
  /** Orders the ends of leases over the whole pool. */
  lastUse = 0;
  previous: Entry<C, R> | undefined = undefined;
  next: Entry<C, R> | undefined = undefined;
  readonly #owner: EntryOwner<C, R>;
  #lease: Lease<C> | undefined = undefined;

  constructor(
    owner: EntryOwner<C, R>,
    partition: Partition<C, R>,
    connection: C,
    times: { readonly openedAt: number; readonly expiresAt: number },
  ) {
    this.#owner = owner;
    this.partition = partition;
    this.connection = connection;
    this.openedAt = times.openedAt;
    this.expiresAt = times.expiresAt;
    this.broken = (reason) => owner.idleBroke(this, reason);
  }

  get rotated(): boolean {
    return this.partition.closing === 'rotated';
  }

  /** Makes the one lease of this connection that counts. */
  lend(): Lease<C> {
    const lease = new Lease<C>(this, this.requests > 0);
    this.requests += 1;
    this.#lease = lease;
    return lease;
  }

  endLease(lease: Lease<C>, reason: CloseReason | undefined): void {
    if (lease !== this.#lease) {
      this.#owner.leaseEndedTwice(this);
      return;
    }
    this.#lease = undefined;
    this.#owner.leaseEnded(this, reason);
  }
}

/** Connections that may stand in for each other. Made and interned by the pool. */
export class Partition<C extends PooledConnection, R> {
  readonly key: PartitionKey;
  /** Name of the upstream. */
  readonly upstream: string;
  readonly identity: Identity;
  readonly parentIdentity: Identity | undefined;
  readonly context: unknown;

  // The pool's own books; nobody else reads or writes what follows.
  readonly books: UpstreamBooks<Entry<C, R>>;
  /** The counts of this partition's binding in `books`. */
  readonly states: MutableStateCounts;
  /** Undefined where the connections are nobody's, and until the partition is admitted. */
  group: PrincipalGroup | undefined = undefined;
  admitted = false;
  /** Clock ms, as of a tick. */
  usedAt = 0;
  /** The pool's count of retirements when the partition was made. */
  readonly epoch: number;
  /** Why connections that come back are closed; undefined while the partition lends. */
  closing: CloseReason | undefined = undefined;
  /** Used as a stack, so that surplus ages out. */
  readonly idle: Entry<C, R>[] = [];
  /** All open connections, the idle ones included. */
  readonly entries = new Set<Entry<C, R>>();
  readonly openings = new Set<Opening<C, R>>();
  readonly queue = new IntrusiveList<Ticket<C, R>>();
  /** Who its connections are tied to: at the origin, else at a parent proxy on the way. */
  readonly holder: Identity;
  readonly holderDigest: IdentityDigest;
  previous: Partition<C, R> | undefined = undefined;
  next: Partition<C, R> | undefined = undefined;

  constructor(input: PartitionInput, books: UpstreamBooks<Entry<C, R>>, epoch: number) {
    this.key = encodePartitionKey(input);
    this.upstream = input.upstream;
    this.identity = input.identity;
    this.parentIdentity = input.parentIdentity;
    this.context = input.context;
    this.holder = holderOf(input);
    this.holderDigest = identityDigest(this.holder);
    this.books = books;
    this.epoch = epoch;
    this.states = this.holder.kind === 'none' ? books.untied : books.tied;
  }

  /** It lends nothing any more; who wants a connection asks the pool for the partition again. */
  get retired(): boolean {
    return this.closing !== undefined;
  }

  /** Nothing is leased, opened or waited for. */
  get quiet(): boolean {
    return (
      this.queue.size === 0 && this.openings.size === 0 && this.entries.size === this.idle.length
    );
  }

  /** Whether this is a partition of `principal`, at the origin or at the parent proxy. */
  belongsTo(principal: string): boolean {
    return isOf(this.identity, principal) || isOf(this.parentIdentity, principal);
  }
}

function holderOf({ identity, parentIdentity = NO_IDENTITY }: PartitionInput): Identity {
  return identity.kind === 'none' ? parentIdentity : identity;
}

function isOf(identity: Identity | undefined, principal: string): boolean {
  return identity !== undefined && identity.kind !== 'none' && identity.principal === principal;
}
