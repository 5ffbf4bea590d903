/**
 * What a handshake knows of a mechanism: tokens go out and come in until the context is complete.
 */

/** The initiator's side of one authentication, for one connection. Never used twice (R32). */
export interface SecurityContext {
  /** The auth scheme that carries the tokens, as written on the wire. */
  readonly scheme: 'NTLM';
  /** True once no further token is expected from the peer. */
  readonly complete: boolean;
  /**
   * The next token to send: the first call has none from the peer, each later one has.
   * Throws `challenge-malformed` for a token that is wrong or not expected.
   */
  step(token?: Uint8Array): Uint8Array;
}
