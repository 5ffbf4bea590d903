/**
 * The upstream connection that belongs to one caller's connection, because he logs in there by himself
 * (config.md, Pinning): it serves nobody else, whatever becomes of it (R1, R18, R19).
 *
 *   none ──▶ in use ──▶ kept, watched ──▶ in use …
 *              │             └── upstream closes, or caller leaves ──▶ closed, both
 *              └── exchange failed ──▶ closed
 */
import type { Lease } from '../pool/lease.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { UpstreamPartition } from './plan.ts';

export class PinnedConnection {
  /** The connection of the request in work is the caller's alone. */
  wanted = false;
  /** It is the one that was kept: a login of the caller may stand on it, which another one has not. */
  lasting = false;
  readonly #broken: () => void;
  #kept: Lease<UpstreamConnection> | undefined;
  #key: string | undefined;
  /** As whom the daemon is on it, at a parent on the way too. */
  #partition: UpstreamPartition | undefined;
  /** The same of the connection that the request in work gets. */
  #inUse: UpstreamPartition | undefined;

  /** `broken` is called when a connection ends between two requests of the caller. */
  constructor(broken: () => void) {
    this.#broken = broken;
  }

  /** Before each request. */
  reset(wanted: boolean): void {
    this.wanted = wanted;
    this.lasting = false;
  }

  /**
   * The connection that is kept for the origin `key`, if it still stands. It is in use from now on. One
   * of another partition than the request's serves no request of this one (R1, R7); one of a partition
   * that was retired is closed (R15).
   */
  take(
    key: string | undefined,
    partition: UpstreamPartition,
  ): Lease<UpstreamConnection> | undefined {
    this.#inUse = partition;
    const kept = this.#kept;
    if (kept === undefined || key === undefined || key !== this.#key) return undefined;
    if (partition !== this.#partition) {
      if (this.#partition?.retired === true) this.drop();
      return undefined;
    }
    this.#kept = undefined;
    kept.connection.unwatchIdle();
    if (kept.connection.isReusable()) {
      this.wanted = true;
      this.lasting = true;
      return kept;
    }
    kept.discard('peer');
    return undefined;
  }

  /** Keeps the connection of a request that was answered; without `clean` it is closed. */
  end(lease: Lease<UpstreamConnection> | undefined, key: string | undefined, clean: boolean): void {
    this.drop();
    const partition = this.#inUse;
    if (!clean || key === undefined || partition?.retired === true) {
      lease?.discard('error');
      return;
    }
    if (lease === undefined) return;
    this.#kept = lease;
    this.#key = key;
    this.#partition = partition;
    lease.connection.watchIdle((reason) => {
      if (this.#kept !== lease) return;
      this.#kept = undefined;
      lease.discard(reason);
      this.#broken();
    });
  }

  /** The caller's connection is gone, or another one takes the place. */
  drop(): void {
    const kept = this.#kept;
    this.#kept = undefined;
    kept?.discard('peer');
  }
}
