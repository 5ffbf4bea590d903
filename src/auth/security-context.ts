/**
 * What a handshake knows of a mechanism: tokens go out and come in until the context is complete, and
 * the peer's last word is checked.
 */

/** The auth schemes that carry tokens, as written on the wire. */
export type ContextScheme = 'NTLM' | 'Negotiate' | 'Basic' | 'Digest';

/** What a peer without a final token is worth (config.md, `auth.mutual`). */
export type MutualPolicy = 'off' | 'optional' | 'required';

/** The initiator's side of one authentication, for one connection. Never used twice (R32). */
export interface SecurityContext {
  readonly scheme: ContextScheme;
  /**
   * No further token is expected from the peer before its final answer. Of a mechanism with one leg
   * true right after the first step.
   */
  readonly complete: boolean;
  /**
   * The next token to send: the first call has none from the peer, each later one has.
   * Throws `challenge-malformed` for a token that is wrong or not expected, and what a provider of
   * tokens throws.
   */
  step(token?: Uint8Array): Uint8Array | Promise<Uint8Array>;
  /**
   * Checks the peer's token of the final answer; undefined when none came. Throws `mutual-failed`: the
   * answer is not to be believed, and the connection not to be used (R36).
   */
  finish(token: Uint8Array | undefined): void | Promise<void>;
  /** Frees what a provider holds when `finish` is never called; may be called twice, and after it. */
  dispose?(): void;
}
