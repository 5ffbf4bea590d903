/** What the opener of a connection must know of the request that it is opened for. */
export interface OpeningRequest {
  readonly method: string;
  /** GET, HEAD, OPTIONS: executing it twice changes nothing (RFC 9110 9.2.1). */
  readonly safe: boolean;
  /** This very request was answered with a challenge and not executed. */
  readonly challenged: boolean;
  /** The request target as it is sent upstream. */
  readonly upstreamTarget: string;
  /** The Host value as it is sent upstream. */
  readonly upstreamHost: string;
}
