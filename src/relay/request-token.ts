/** The token that one request needs on a connection whose logins last for one request (R37). */
import { ProxyError } from '../errors.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { LoginState, PendingLogin } from '../upstream/login-state.ts';

export class RequestToken {
  #abort: AbortController | undefined;

  /** A token is on its way; nothing may be sent before. */
  get awaited(): boolean {
    return this.#abort !== undefined;
  }

  /** Whether the next request on this connection cannot go without a token of its own. */
  static isNeeded({ origin, parent }: UpstreamConnection): boolean {
    return origin.wantsToken || parent?.wantsToken === true;
  }

  /**
   * Asks for one at each hop that wants it. Exactly one of `ready` and `failed` follows, unless `drop`
   * comes first; when `ready` is called, the tokens are pending on the connection.
   */
  ask(
    { origin, parent }: UpstreamConnection,
    ready: () => void,
    failed: (error: ProxyError) => void,
  ): void {
    const abort = new AbortController();
    this.#abort = abort;
    const states = [parent, origin].filter((state) => state?.wantsToken === true);
    const asked = states.map(async (state) => state?.authorize?.(abort.signal));
    const settle = (made: PromiseSettledResult<PendingLogin | undefined>[]): void => {
      const stands = this.#abort === abort;
      if (stands) this.#abort = undefined;
      const failure = made.find(({ status }) => status === 'rejected');
      if (stands && failure === undefined) {
        made.forEach((one, index) => keep(states[index], one));
        ready();
        return;
      }
      // A token that nobody waits for is given back unused.
      for (const one of made) if (one.status === 'fulfilled') one.value?.abandon();
      if (stands && failure?.status === 'rejected') failed(asProxyError(failure.reason));
    };
    void Promise.allSettled(asked).then(settle);
  }

  /** The request ended, or went on without. */
  drop(): void {
    this.#abort?.abort();
    this.#abort = undefined;
  }
}

function keep(
  state: LoginState | undefined,
  made: PromiseSettledResult<PendingLogin | undefined>,
): void {
  if (state !== undefined && made.status === 'fulfilled') state.pending = made.value;
}

function asProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error;
  const facts = { side: 'internal', stage: 'handshake', cause: error } as const;
  return new ProxyError('internal', 'a token could not be made', facts);
}
