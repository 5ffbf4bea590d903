/**
 * What the pool asks of whoever opens connections. How a connection is made and logged in is not the
 * pool's business; it only counts openings and hands their results over.
 */
import type { ProxyError } from '../errors.ts';
import type { PooledConnection } from './connection.ts';
import type { Partition } from './partition.ts';

/** Ends an opening: with a connection, or with an error and none. */
export type OpeningDone<C> = (error: ProxyError | undefined, connection: C | undefined) => void;

export interface ConnectionFactory<C extends PooledConnection, R> {
  /**
   * Opens one connection for `partition` on behalf of `request`. `done` is called exactly once,
   * whatever happens, and may be called before `open` returns; the permit of the opening is given
   * back at that call and not before (R45).
   *
   * `abort` ends the opening early: `done` follows with an error, inside `abort` or later, unless it
   * was called already, in which case `abort` does nothing. A connection that was ready at that
   * moment may still be delivered; the pool closes it (R17).
   */
  open(partition: Partition<C, R>, request: R, done: OpeningDone<C>): { abort(): void };
  /**
   * Whether one more opening may begin now; asked only when the limits allow it. Without side
   * effects. When the answer may have become true, the factory calls `pool.reconsider`.
   */
  mayOpen?(partition: Partition<C, R>): boolean;
}
