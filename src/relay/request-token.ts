/** The token that one request needs on a connection whose logins last for one request (R37). */
import type { PendingLogin } from '../upstream/connection.ts';

export class RequestToken {
  #abort: AbortController | undefined;

  /** A token is on its way; nothing may be sent before. */
  get awaited(): boolean {
    return this.#abort !== undefined;
  }

  /** Asks for one. Exactly one of `ready` and `failed` follows, unless `drop` comes first. */
  ask(
    authorize: (signal: AbortSignal) => Promise<PendingLogin>,
    ready: (login: PendingLogin) => void,
    failed: (error: unknown) => void,
  ): void {
    const abort = new AbortController();
    this.#abort = abort;
    const stands = (): boolean => {
      if (this.#abort !== abort) return false;
      this.#abort = undefined;
      return true;
    };
    authorize(abort.signal).then(
      // A token that nobody waits for is given back unused.
      (login) => (stands() ? ready(login) : login.abandon()),
      (error: unknown) => {
        if (stands()) failed(error);
      },
    );
  }

  /** The request ended, or went on without. */
  drop(): void {
    this.#abort?.abort();
    this.#abort = undefined;
  }
}
