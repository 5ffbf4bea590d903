/**
 * TLS sessions of upstream connections, one per partition (R12), each with the channel binding of
 * the full handshake that made it.
 *
 * On a resumed session Node has no peer certificate, so the binding could not be computed again: it
 * is kept with the session. A partition covers server name, trust, client certificate and
 * principal, so a session never serves another of these.
 */
import { BoundedMap } from '../bounded-map.ts';

export interface TlsSession {
  readonly ticket: Buffer;
  /** RFC 5929 application data of the certificate that the session was made under. */
  readonly binding: Uint8Array | undefined;
}

export class SessionStore {
  readonly #sessions: BoundedMap<TlsSession>;

  /** Keeps the sessions of at most `max` partitions. */
  constructor(max: number) {
    this.#sessions = new BoundedMap(max);
  }

  /** The latest session of a partition; used for any number of connections until it is replaced. */
  find(partition: string): TlsSession | undefined {
    return this.#sessions.find(partition);
  }

  keep(partition: string, session: TlsSession): void {
    this.#sessions.keep(partition, session);
  }

  /** Forgets the session of a partition, after a connection under it failed. */
  forget(partition: string): void {
    this.#sessions.forget(partition);
  }
}
