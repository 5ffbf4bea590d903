/**
 * What the pool needs of a connection, whatever it is made of, and why connections end.
 */

/** The reasons, as the metric has them. */
export type CloseReason =
  | 'idle'
  | 'age'
  | 'max_requests'
  | 'peer'
  | 'error'
  | 'unsolicited'
  | 'auth_failed'
  | 'evicted'
  | 'flushed'
  | 'rotated'
  | 'shutdown';

/** What an idle connection reports of itself. */
export type BrokenReason = 'peer' | 'unsolicited';

/** One connection that the pool lends out. */
export interface PooledConnection {
  readonly id: number;
  /** Earliest end that is known from outside (certificate, ticket), clock ms; Infinity if none. */
  readonly notAfter: number;
  /** False once the peer closed or sent a byte nobody asked for; asked again at lease time (R40). */
  isReusable(): boolean;
  /**
   * Called when it becomes idle: from now on the connection watches itself and calls `broken` at the
   * first byte, FIN or error, also from inside this call. The pool then destroys it.
   */
  watchIdle(broken: (reason: BrokenReason) => void): void;
  /** Called when it is leased again. */
  unwatchIdle(): void;
  /** Called exactly once by the pool, whichever way the connection ends. Reports nothing back. */
  destroy(reason: CloseReason): void;
}
