/**
 * One connection to an upstream: its transport, what is known of its TLS, and the login it carries.
 *
 * While idle it watches itself: a byte nobody asked for, or a FIN, ends it (R40). While leased, the
 * holder of the lease is the transport's owner. Whether two requests may use the same connection is
 * decided in pool/ alone.
 */
import type { Transport, TransportOwner } from '../transport/transport.ts';

/** How the answer to the request that completes a login is to be taken (config.md, 401 table). */
export type LoginVerdict =
  | 'accepted'
  /** A 401 without our challenge: the origin's word about this user; the login itself stands. */
  | 'origin-refused'
  /** The credential was refused. */
  | 'rejected'
  /** The login stands, the origin denies this request. */
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
  /** Value of Authorization for that request; undefined when the login is already complete. */
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

export type BrokenReason = 'peer' | 'unsolicited';

let nextId = 1;

export class UpstreamConnection implements TransportOwner {
  readonly id = nextId++;
  readonly transport: Transport;
  /** Application data of the channel binding, RFC 5929 4.1; undefined without TLS. */
  readonly binding: Uint8Array | undefined;
  /** End of the client certificate, clock ms; Infinity without one (R43). */
  readonly notAfter: number;
  /** Present until the first request after a login was answered. */
  login: PendingLogin | undefined;
  /** A login was accepted on this connection. */
  authenticated = false;
  /** Each request needs a token of its own here, and gets it from this; undefined: none is needed. */
  authorize: ((signal: AbortSignal) => Promise<PendingLogin>) | undefined;
  #broken: ((reason: BrokenReason) => void) | undefined;
  #spent = false;

  constructor(
    transport: Transport,
    facts: { readonly binding: Uint8Array | undefined; readonly notAfter: number },
  ) {
    this.transport = transport;
    this.binding = facts.binding;
    this.notAfter = facts.notAfter;
  }

  /** False once the peer closed, sent an unasked byte, or left a write unfinished. */
  isReusable(): boolean {
    const { transport } = this;
    return !this.#spent && !transport.closed && transport.writable && transport.pending === 0;
  }

  /** From now on the first byte, FIN or error calls `broken`, once. */
  watchIdle(broken: (reason: BrokenReason) => void): void {
    this.#broken = broken;
    this.transport.owner = this;
    this.transport.shrink();
    this.transport.resume();
  }

  unwatchIdle(): void {
    this.#broken = undefined;
  }

  /** Never to be leased again, whatever else is said. */
  spend(): void {
    this.#spent = true;
  }

  destroy(): void {
    this.#spent = true;
    this.#broken = undefined;
    // A login that was never answered says nothing about the credential.
    this.login?.abandon();
    this.login = undefined;
    this.transport.owner = this;
    this.transport.destroy();
  }

  received(): boolean {
    this.#break('unsolicited');
    return false;
  }

  drained(): void {
    // Nothing of an idle connection waits for room.
  }

  ended(): void {
    this.#break('peer');
  }

  closed(): void {
    this.#break('peer');
  }

  #break(reason: BrokenReason): void {
    this.#spent = true;
    const broken = this.#broken;
    this.#broken = undefined;
    if (broken === undefined) this.transport.destroy();
    else broken(reason);
  }
}
