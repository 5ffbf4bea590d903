/** What the opener of a connection must know of the request that it is opened for. */
import type { HopName } from './login-state.ts';

export interface OpeningRequest {
  readonly method: string;
  /** GET, HEAD, OPTIONS: executing it twice changes nothing (RFC 9110 9.2.1). */
  readonly safe: boolean;
  /** This very request was answered with a challenge of this hop and not executed. */
  readonly challenged: HopName | undefined;
  /** The request target as it is sent upstream. */
  readonly upstreamTarget: string;
  /** The Host value as it is sent upstream. */
  readonly upstreamHost: string;
}
