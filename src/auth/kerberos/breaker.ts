/**
 * One circuit breaker per Kerberos realm. A KDC that is silent or away opens it; calls that need the
 * KDC are then refused at once, and one of them at a time may try whether it answers again. Calls
 * that live on cached tickets do not ask here.
 */
import type { Clock } from '../../clock.ts';
import type { ProxyError } from '../../errors.ts';

/** How long a realm is left alone before the next try: recovery shall take less than 5 s. */
export const OPEN_MS = 1000;

export type Admission =
  | { readonly kind: 'go' }
  /** The one try of an open breaker; its outcome must be told. */
  | { readonly kind: 'probe' }
  /** A try is under way: its outcome decides. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refused'; readonly error: ProxyError; readonly retryAfterMs: number };

type State =
  | { readonly kind: 'closed' }
  | { readonly kind: 'open'; readonly error: ProxyError; readonly until: number }
  | { readonly kind: 'probing'; readonly error: ProxyError };

const CLOSED: State = Object.freeze({ kind: 'closed' });

/** The breakers of all realms; a realm that nobody spoke of is closed. */
export class RealmBreakers {
  readonly #clock: Clock;
  readonly #states = new Map<string, State>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a call that needs the KDC of `realm` may start. `probe` makes the caller the prober. */
  admit(realm: string): Admission {
    const state = this.#states.get(realm) ?? CLOSED;
    switch (state.kind) {
      case 'closed':
        return { kind: 'go' };
      case 'probing':
        return { kind: 'wait' };
      case 'open': {
        const left = state.until - this.#clock.now();
        if (left > 0) return { kind: 'refused', error: state.error, retryAfterMs: left };
        this.#states.set(realm, { kind: 'probing', error: state.error });
        return { kind: 'probe' };
      }
      default:
        return state satisfies never;
    }
  }

  /** The KDC answered, whatever it said. */
  answered(realm: string): void {
    this.#states.delete(realm);
  }

  /** The KDC was silent or away. True when this opened the breaker, false when it was open before. */
  failed(realm: string, error: ProxyError): boolean {
    const wasOpen = this.#states.get(realm)?.kind === 'open';
    this.#states.set(realm, { kind: 'open', error, until: this.#clock.now() + OPEN_MS });
    return !wasOpen;
  }

  /** A probe ended without a word about the KDC: the next call may probe at once. */
  abandoned(realm: string): void {
    const state = this.#states.get(realm);
    if (state?.kind !== 'probing') return;
    this.#states.set(realm, { kind: 'open', error: state.error, until: this.#clock.now() });
  }
}
