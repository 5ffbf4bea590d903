/**
 * One connection to an upstream: its transport, what is known of its TLS, and the logins it carries.
 *
 * While idle it watches itself: a byte nobody asked for, or a FIN, ends it (R40). While leased, the
 * holder of the lease is the transport's owner. Whether two requests may use the same connection is
 * decided in pool/ alone.
 */
import type { Transport, TransportOwner } from '../transport/transport.ts';
import { LoginState } from './login-state.ts';

export type BrokenReason = 'peer' | 'unsolicited';

let nextId = 1;

export class UpstreamConnection implements TransportOwner {
  readonly id = nextId++;
  readonly transport: Transport;
  /** Application data of the channel binding, RFC 5929 4.1; undefined without TLS. */
  readonly binding: Uint8Array | undefined;
  /** End of the client certificate, clock ms; Infinity without one (R43). */
  readonly notAfter: number;
  /** The login at the origin. */
  readonly origin = new LoginState();
  /** The login at the parent proxy that requests are sent to; undefined: they reach the origin. */
  parent: LoginState | undefined;
  /** What came behind the answer to a CONNECT. */
  early: Buffer | undefined;
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

  /** A login was accepted on this connection, at whatever hop. */
  get authenticated(): boolean {
    return this.origin.authenticated || this.parent?.authenticated === true;
  }

  /** The answer to the next request ends a login. */
  get isPending(): boolean {
    return this.origin.pending !== undefined || this.parent?.pending !== undefined;
  }

  /** The next request carries a token that may be sent once (R32). */
  get carriesToken(): boolean {
    const { origin, parent } = this;
    return (origin.pending ?? parent?.pending)?.credentials !== undefined;
  }

  /** The next request is about to be written, with what is pending. */
  sent(): void {
    this.parent?.pending?.sent();
    this.origin.pending?.sent();
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
    this.origin.end();
    this.parent?.end();
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
