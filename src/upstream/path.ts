/**
 * The way of a connection: to whom it is made, and through whom. Each partition carries the one that
 * its connections take, as its context; the key of the partition says the same (D11).
 */
import type { UpstreamTarget } from './target.ts';

/** A parent proxy; who the daemon is there is the partition's `parentIdentity`. */
export interface ParentHop {
  readonly target: UpstreamTarget;
  /**
   * What the connection carries: requests in absolute-form, or, after a CONNECT, whatever goes to the
   * origin.
   */
  readonly form: 'absolute' | 'tunnel';
}

export class ConnectionPath {
  /** Whose login is made once the connection leads there. */
  readonly origin: UpstreamTarget;
  /** undefined: the origin is dialled. */
  readonly parent: ParentHop | undefined;

  constructor(origin: UpstreamTarget, parent?: ParentHop) {
    this.origin = origin;
    this.parent = parent;
  }
}
