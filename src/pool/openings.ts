/**
 * Connections in the making: each belongs to one request from its first byte on, and to nobody else
 * until it is complete (R16). An opening ends once; what it brings goes to its request, or is closed
 * when that request is gone (R17). When to open is the pool's decision.
 */
import type { ProxyError } from '../errors.ts';
import type { Log } from '../log/log.ts';
import type { CloseReason, PooledConnection } from './connection.ts';
import type { ConnectionFactory } from './factory.ts';
import type { EntryOwner, Partition, Waiter } from './partition.ts';
import { Entry, Opening } from './partition.ts';
import type { Permits } from './permits.ts';
import type { PoolMetrics } from './pool-metrics.ts';
import * as refusals from './refusals.ts';
import type { Shelf } from './shelf.ts';

export interface OpeningsDeps<C extends PooledConnection, R> {
  readonly factory: ConnectionFactory<C, R>;
  readonly permits: Permits<C, R>;
  readonly shelf: Shelf<C, R>;
  readonly metrics: PoolMetrics;
  readonly log: Log;
  /** What new connections report to. */
  readonly owner: EntryOwner<C, R>;
  /** A permit may have become free. */
  readonly freed: () => void;
}

export class Openings<C extends PooledConnection, R> {
  readonly #deps: OpeningsDeps<C, R>;

  constructor(deps: OpeningsDeps<C, R>) {
    this.#deps = deps;
  }

  /** Whether `partition` may have one more connection now, if need be in place of an idle one. */
  mayOpen(partition: Partition<C, R>): boolean {
    const { permits, factory } = this.#deps;
    const { books } = partition;
    if (books.openings >= books.limits.maxHandshakes) return false;
    if (permits.obstacle(partition) === 'in-use') return false;
    return factory.mayOpen?.(partition) ?? true;
  }

  /** Begins an opening that `mayOpen` allowed just now. */
  open(partition: Partition<C, R>, waiter: Waiter<C, R>): void {
    const { permits, shelf } = this.#deps;
    const { books } = partition;
    const obstacle = permits.obstacle(partition);
    if (obstacle instanceof Entry) shelf.close(obstacle, 'evicted');
    const opening = new Opening<C, R>(partition, waiter);
    waiter.place = opening;
    permits.take(partition);
    books.openings += 1;
    partition.states.opening += 1;
    partition.openings.add(opening);
    this.#begin(opening, waiter.request);
    if (opening.ended) return;
    books.metrics.opened.value += 1;
    // The owner may have cancelled from inside `open`, when there was nothing to abort yet.
    if (opening.waiter === undefined) opening.handle?.abort();
  }

  /** Parts an opening from its request; what it brings is closed for `reason`. */
  abandon(opening: Opening<C, R>, reason: CloseReason): void {
    if (opening.waiter !== undefined) opening.waiter.place = undefined;
    opening.waiter = undefined;
    opening.abandoned = reason;
  }

  #begin(opening: Opening<C, R>, request: R): void {
    const { partition } = opening;
    try {
      opening.handle = this.#deps.factory.open(partition, request, (error, connection) => {
        this.#ended(opening, error, connection);
      });
    } catch (error) {
      // An exception of a waiter that was called from inside `open` is not the factory's.
      if (opening.ended) throw error;
      this.#ended(opening, refusals.openerFault(partition.upstream, error), undefined);
    }
  }

  #ended(opening: Opening<C, R>, error: ProxyError | undefined, connection: C | undefined): void {
    const { partition } = opening;
    if (opening.ended) {
      this.#deps.metrics.violated('double_release');
      this.#deps.log.error({ upstream: partition.upstream }, 'an opening ended twice');
      connection?.destroy('error');
      return;
    }
    opening.ended = true;
    partition.openings.delete(opening);
    partition.books.openings -= 1;
    partition.states.opening -= 1;
    if (connection !== undefined) this.#succeeded(opening, connection);
    else this.#failed(opening, error ?? refusals.openerFault(partition.upstream, undefined));
  }

  #succeeded(opening: Opening<C, R>, connection: C): void {
    const { partition } = opening;
    const { shelf, owner, freed } = this.#deps;
    // Ended inside `open`: it was not counted as begun.
    if (opening.handle === undefined) partition.books.metrics.opened.value += 1;
    partition.states.leased += 1;
    const entry = new Entry(owner, partition, connection, shelf.lifetime(partition, connection));
    partition.entries.add(entry);
    freed();
    // Read after permits were handed on: the callbacks of that may have cancelled or retired.
    const { waiter } = opening;
    if (waiter === undefined) {
      shelf.close(entry, opening.abandoned);
      freed();
      return;
    }
    waiter.place = undefined;
    if (partition.closing === undefined) {
      waiter.leased(entry.lend());
      return;
    }
    shelf.close(entry, partition.closing);
    freed();
    waiter.refused(refusals.retired(partition.upstream, partition.closing));
  }

  #failed(opening: Opening<C, R>, error: ProxyError): void {
    const { partition } = opening;
    this.#deps.permits.giveBack(partition);
    if (opening.handle !== undefined) {
      const { closed } = partition.books.metrics;
      const reason = error.stage === 'handshake' ? 'auth_failed' : 'error';
      closed[opening.waiter === undefined ? opening.abandoned : reason].value += 1;
    }
    this.#deps.freed();
    const { waiter } = opening;
    if (waiter === undefined) return;
    waiter.place = undefined;
    waiter.refused(error);
  }
}
