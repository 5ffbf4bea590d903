/**
 * The guard's word on logins of one identity at one hop, and the errors that it leads to.
 */
import type { GuardSettings, LoginGuard } from '../auth/guard.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import { ProxyError } from '../errors.ts';
import type { Identity, LoginIdentity } from '../identity/identity.ts';
import type { LoginSettings, UpstreamTarget } from '../upstream/target.ts';

/** What the guard said of one login, as the steps of an opening carry it. */
export interface Admitted {
  readonly kind: 'go' | 'settle' | 'probe';
  readonly ticket: LoginTicket;
  /** Where a probe goes, when this login is one and there was a success before. */
  readonly probeTarget: string | undefined;
}

export interface DoorDeps {
  readonly guard: LoginGuard;
  /** By principal name. */
  readonly guardSettings: ReadonlyMap<string, GuardSettings>;
}

/** Where an identity logs in: at an origin, or at a parent proxy. */
export class Door {
  readonly target: UpstreamTarget;
  readonly login: LoginSettings;
  readonly identity: LoginIdentity;
  readonly #guard: LoginGuard;
  readonly #settings: GuardSettings;

  private constructor(
    deps: DoorDeps,
    place: { readonly target: UpstreamTarget; readonly login: LoginSettings },
    identity: LoginIdentity,
  ) {
    const settings = deps.guardSettings.get(identity.principal);
    if (settings === undefined) throw new Error(`no guard settings for ${identity.principal}`);
    this.target = place.target;
    this.login = place.login;
    this.identity = identity;
    this.#guard = deps.guard;
    this.#settings = settings;
  }

  /** undefined when no login is made there. */
  static of(
    deps: DoorDeps,
    target: UpstreamTarget | undefined,
    identity: Identity | undefined,
  ): Door | undefined {
    const login = target?.login;
    if (target === undefined || login === undefined) return undefined;
    if (identity === undefined || identity.kind === 'none') return undefined;
    return new Door(deps, { target, login }, identity);
  }

  /** Until a generation has succeeded on a hop, one login at a time runs there (config.md, Guard). */
  get hasRoom(): boolean {
    const { account, generation } = this.identity;
    return this.#guard.hasRoom(account, this.target.name, generation, this.#settings);
  }

  /** Admits one login. Throws `guard-open`. */
  admit(): Admitted {
    const { account, generation } = this.identity;
    const admission = this.#guard.admit(account, this.target.name, generation, this.#settings);
    if (admission.kind === 'open')
      throw this.#refusal('is not used for now', admission.retryAfterMs);
    if (admission.kind === 'wait') throw this.#refusal('is not used for now', WAIT_MS);
    const probeTarget = admission.kind === 'probe' ? admission.target : undefined;
    return { kind: admission.kind, ticket: admission.ticket, probeTarget };
  }

  /** For the token of one further request. A probe is no user's request: a new connection makes it. */
  admitToken(): LoginTicket {
    const { kind, ticket } = this.admit();
    if (kind !== 'probe') return ticket;
    ticket.abandoned();
    throw this.#refusal('is to be probed first', WAIT_MS);
  }

  #refusal(what: string, retryAfterMs: number): ProxyError {
    const text = `${this.target.name}: the credential of ${this.identity.principal} ${what}`;
    const facts = { side: 'upstream', stage: 'handshake', retry: 'safe', retryAfterMs } as const;
    return new ProxyError('guard-open', text, facts);
  }
}

const WAIT_MS = 1000;
