/**
 * The right to use one connection. A lease ends once, by `release` or `discard`; whether the
 * connection then lives on is decided by the pool.
 */
import type { CloseReason } from './connection.ts';

/** The pool's record of the connection that is lent out. */
export interface LeaseHolder<C> {
  readonly connection: C;
  /** Nothing is lent with this secret any more (R15). */
  readonly rotated: boolean;
  /** Ends `lease`: back to the pool, or closed for `reason`. Counts it when it ended before (I3). */
  endLease(lease: Lease<C>, reason: CloseReason | undefined): void;
}

/** Made by the pool; its owner ends it once. Ending it again changes nothing and is counted (I3). */
export class Lease<C> {
  readonly #holder: LeaseHolder<C>;
  /** The connection carried a request before: a failure may be a keep-alive race. */
  readonly reused: boolean;

  constructor(holder: LeaseHolder<C>, reused: boolean) {
    this.#holder = holder;
    this.reused = reused;
  }

  /** Not to be touched after the lease ended. */
  get connection(): C {
    return this.#holder.connection;
  }

  /** The secret that the connection was opened with was replaced meanwhile (R15). */
  get rotated(): boolean {
    return this.#holder.rotated;
  }

  /**
   * The exchange is complete and the connection clean (I4). The pool keeps it, lends it on, or
   * closes it: not reusable, too old, too many requests, partition retired.
   */
  release(): void {
    this.#holder.endLease(this, undefined);
  }

  /** Anything else: the connection is closed. */
  discard(reason: CloseReason): void {
    this.#holder.endLease(this, reason);
  }
}
