/**
 * The plans of one route on a listener that maps callers: one pair for each identity, and for whether
 * the caller's Authorization was the listener's own business. They end with their identity, whose
 * number is bounded where identities are made (I12). Where the upstream is told who calls, or a caller
 * may log in by himself, plans are a caller's own, and end with what is known of him.
 */
import { ProxyError } from '../errors.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import { type Caller, isVerified, subjectOf } from '../inbound/caller.ts';
import { originPrincipal } from '../inbound/principal-rules.ts';
import { CallerHopIdentities } from './hop-identities.ts';
import type { KnownCaller, ListenerCallers } from './listener-callers.ts';
import { createPlans, type PlanDeps, type PlanFacts } from './plans.ts';
import type { CallerPlanSource, RoutePlans } from './route-table.ts';
import { parentsOf, type ViaEntry } from './ways.ts';

/** What the plans of a route have in common. */
export interface CallerPlanFacts extends Omit<
  PlanFacts,
  'identity' | 'principal' | 'consumed' | 'callerKey' | 'callerName' | 'challenge' | 'ways'
> {
  readonly via: readonly ViaEntry[];
}

export class CallerPlans implements CallerPlanSource {
  readonly kind = 'caller';
  readonly #deps: PlanDeps;
  readonly #facts: CallerPlanFacts;
  readonly #callers: ListenerCallers;
  readonly #identities = new WeakMap<KnownCaller, CallerHopIdentities>();
  /** Of callers whose Authorization ends here, and of others. */
  readonly #consumed = new IdentityPairs();
  readonly #kept = new IdentityPairs();
  readonly #own = new WeakMap<KnownCaller, IdentityPairs>();

  constructor(deps: PlanDeps, facts: CallerPlanFacts, callers: ListenerCallers) {
    this.#deps = deps;
    this.#facts = facts;
    this.#callers = callers;
  }

  /** For this caller; `internal` where the configuration gives him what he may not have. */
  of(known: KnownCaller): RoutePlans | ProxyError {
    const { route, target } = this.#facts;
    const names = { route: route.principal, upstream: undefined };
    // Where the daemon does not log in, nothing is refused to a caller who could not have the principal.
    const logsIn = target.login !== undefined && route.challenge === 'own';
    const principal = logsIn ? originPrincipal(names, known.rule) : undefined;
    const identity = this.#callers.identity(principal, known);
    if (identity instanceof ProxyError) return identity;
    const who = this.#hops(known);
    const plans = this.#pairs(known);
    const made = plans.find(identity, who.self);
    if (made !== undefined) return made;
    const ways = parentsOf(this.#facts.via, who);
    if (ways instanceof ProxyError) return ways;
    const created = createPlans(this.#deps, {
      ...this.#facts,
      identity,
      ways,
      principal: identity === NO_IDENTITY ? undefined : principal,
      consumed: consumesLogin(known.caller),
      callerKey: who.key,
      // A name that nobody has verified yet would be anybody's to choose.
      callerName: isVerified(known.caller) ? subjectOf(known.caller) : undefined,
      challenge: this.#callers.isFromClient(principal) ? this.#callers.check.challenge : undefined,
    });
    plans.keep(identity, who.self, created);
    return created;
  }

  #pairs(known: KnownCaller): IdentityPairs {
    const { forwardIdentity, challenge } = this.#facts.route;
    if (forwardIdentity === undefined && challenge === 'own') {
      return consumesLogin(known.caller) ? this.#consumed : this.#kept;
    }
    const found = this.#own.get(known);
    if (found !== undefined) return found;
    const made = new IdentityPairs();
    this.#own.set(known, made);
    return made;
  }

  #hops(known: KnownCaller): CallerHopIdentities {
    const found = this.#identities.get(known);
    if (found !== undefined) return found;
    const made = new CallerHopIdentities(this.#callers, known);
    this.#identities.set(known, made);
    return made;
  }
}

/** The caller's Authorization was the listener's own business, and ends here (R30). */
const consumesLogin = ({ kind }: Caller): boolean =>
  kind === 'basic' || kind === 'jwt' || kind === 'negotiate';

/** Plans by who the daemon is at the origin, and who decides whom it is at parents. */
class IdentityPairs {
  readonly #plans = new WeakMap<Identity, WeakMap<Identity, RoutePlans>>();

  find(atOrigin: Identity, self: Identity): RoutePlans | undefined {
    return this.#plans.get(atOrigin)?.get(self);
  }

  keep(atOrigin: Identity, self: Identity, plans: RoutePlans): void {
    const known = this.#plans.get(atOrigin) ?? new WeakMap<Identity, RoutePlans>();
    known.set(self, plans);
    this.#plans.set(atOrigin, known);
  }
}
