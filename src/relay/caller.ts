/** What an exchange needs of the connection it serves, and what it tells of itself at the end. */
import type { ErrorCode } from '../errors.ts';
import type { ClientCertificate } from '../identity/client-certificate.ts';
import type { Transport } from '../transport/transport.ts';
import type { RoutePlan } from './plan.ts';

/** One request as it ended. Valid during the call that brings it. */
export interface ExchangeRecord {
  readonly plan: RoutePlan;
  /** The status sent to the caller; 0 when none was. */
  readonly status: number;
  readonly errorCode: ErrorCode | undefined;
  /** How the connection was got; undefined when none was. */
  readonly leaseResult: 'hit' | 'new' | 'waited' | undefined;
  /** Clock ms. */
  readonly startedAt: number;
  /** Clock ms. */
  readonly endedAt: number;
}

/**
 * What a dispatcher notes on the connection that a request came on; the object stands for the
 * connection as long as that lives.
 */
export interface Requester {
  /** IP address of the caller; `unix` for a unix socket. */
  readonly remoteAddress: string;
  /** What his TLS connection brought; undefined: no certificate. */
  readonly certificate: ClientCertificate | undefined;
  /**
   * The request is one of many that the caller sends side by side: it has this object for itself, and no
   * login can be tied to what it came on (R21).
   */
  readonly multiplexed: boolean;
  hostText: string;
  loggedMethod: string;
  loggedTarget: string;
  /** Whole lines for the head of the answer to the present request; undefined: none. */
  answerLines?: string | undefined;
}

export interface Caller {
  readonly transport: Transport;
  /** Host of the present request, as received. */
  readonly hostText: string;
  /** Whole lines for the head of the answer to the present request; undefined: none. */
  readonly answerLines?: string | undefined;
  /** The daemon drains: no further request on this connection. */
  readonly draining: boolean;
  /** The exchange takes request body bytes now; those that wait are to be given to `body()`. */
  bodyWanted(): void;
  /** No request body bytes are taken for now: his time to send them does not run. */
  bodyHeld(): void;
  /** No more of the request body is wanted; what still comes is thrown away. */
  bodyRefused(): void;
  /** The answer is complete. `close`: the connection carries no further request. */
  answered(exchange: ExchangeRecord, close: boolean): void;
  /** The answer cannot be completed: the connection was closed with RST, or by the caller himself. */
  broken(exchange: ExchangeRecord): void;
  /** No further request: the connection closes when it is idle. */
  drain(): void;
  /** The exchange became a tunnel; bytes go to its owner from now on. */
  tunnelled(): void;
}
