/**
 * What is known of one login on one connection: at its origin, or at the parent proxy that it goes to.
 *
 * `establish/` sets it up, the relay sends what is pending and has the answer judged. Whether two
 * requests may use the same connection is decided in pool/ alone.
 */

/** Where a login is made. */
export type HopName = 'origin' | 'parent';

/** How the answer to the request that completes a login is to be taken (config.md, 401 table). */
export type LoginVerdict =
  | 'accepted'
  /** A challenge without our scheme: the hop's word about this user; the login itself stands. */
  | 'origin-refused'
  /** The credential was refused. */
  | 'rejected'
  /** Refused, but perhaps only because the hop had not asked on this connection (R39): once more. */
  | 'unasked'
  /** The login stands, the hop denies this request. */
  | 'denied';

/** What an answer says of a login: its status and the fields of the hop that asked. */
export interface FinalAnswer {
  readonly status: number;
  /** Values of WWW-Authenticate, or of Proxy-Authenticate. */
  readonly challenges: readonly string[];
  /** Values of Persistent-Auth (MS-N2HT). */
  readonly persistentAuth: readonly string[];
}

/** A login whose last message travels with the first request of the connection. */
export interface PendingLogin {
  /** Credentials for that request; undefined when the login is already complete. */
  readonly credentials: string | undefined;
  /** The credentials are about to be written. */
  sent(): void;
  /**
   * Judges the answer to that request; a promise where the peer's last token is checked elsewhere.
   * Throws, or rejects with, `mutual-failed`. Called at most once.
   */
  judge(answer: FinalAnswer): LoginVerdict | Promise<LoginVerdict>;
  /** The request ended without an answer. Nothing is known about the credential. */
  abandon(): void;
}

/** Of a request, as it is sent. */
export interface RequestLine {
  readonly method: string;
  readonly upstreamTarget: string;
}

export class LoginState {
  /** Present until the first request after a login was answered. */
  pending: PendingLogin | undefined;
  /** A login was accepted on this connection. */
  authenticated = false;
  /** Each request needs a token of its own here, and gets it from this; undefined: none is needed. */
  authorize: ((signal: AbortSignal) => Promise<PendingLogin>) | undefined;

  /** Credentials for each request, made of what it asks for or always the same; undefined: none. */
  standing: string | ((request: RequestLine) => string) | undefined;

  /** The next request must not leave before a token was made for it. */
  get wantsToken(): boolean {
    return this.authorize !== undefined && this.pending === undefined;
  }

  /** What the next request, which is `request`, carries for this hop. */
  credentialsFor(request: RequestLine): string | undefined {
    const own = this.pending?.credentials ?? this.standing;
    return typeof own === 'function' ? own(request) : own;
  }

  /** The connection is gone: a login that was never answered says nothing about the credential. */
  end(): void {
    this.pending?.abandon();
    this.pending = undefined;
  }
}
