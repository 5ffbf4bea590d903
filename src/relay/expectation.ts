/**
 * Whether body bytes of a request wait for `100 Continue` (RFC 9110 10.1.1): because the caller does,
 * or because the daemon asks for it itself, so that a body that cannot be sent again is not sent to a
 * hop that would rather have a login first (protocol.md, "Body policy").
 */
import type { UpstreamConnection } from '../upstream/connection.ts';
import { hasAnyIdentity, type RoutePlan } from './plan.ts';
import type { RequestBody } from './request-body.ts';

export class Expectation {
  /** The caller waits to be told. */
  ofCaller = false;
  /** The daemon's own, which the caller knows nothing of. */
  own = false;
  /** No body byte leaves for now. */
  awaited = false;
  /** Body bytes of an earlier try that this one still has to send. */
  #keptUnsent = false;

  /** Before each request. */
  reset(ofCaller: boolean): void {
    this.ofCaller = ofCaller;
    this.own = false;
    this.awaited = false;
  }

  /** Before each try of a request. */
  begin(own: boolean, body: RequestBody): void {
    this.own = own;
    this.awaited = !body.isEmpty && (own || this.ofCaller);
    this.#keptUnsent = this.awaited && body.kept !== undefined;
  }

  /** The wait is over. Answers a copy of the bytes that an earlier try has kept and this one has not sent. */
  end({ kept }: RequestBody): Buffer | undefined {
    this.awaited = false;
    const unsent = this.#keptUnsent && kept !== undefined ? Buffer.from(kept) : undefined;
    this.#keptUnsent = false;
    return unsent;
  }

  /** A warm connection may answer with a challenge; a body that cannot be sent again then waits. */
  needsOwn(plan: RoutePlan, connection: UpstreamConnection, body: RequestBody): boolean {
    if (this.ofCaller || connection.isPending || !hasAnyIdentity(plan)) return false;
    return !plan.target.learned.ignoresExpect && !body.done && !body.fits();
  }
}
