/**
 * The plans of one route on a listener that maps callers: one pair for each identity, and for whether
 * the caller's Authorization was the listener's own business. They end with their identity, whose
 * number is bounded where identities are made (I12).
 */
import { ProxyError } from '../errors.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import { originPrincipal } from '../inbound/principal-rules.ts';
import type { KnownCaller, ListenerCallers } from './listener-callers.ts';
import { createPlans, type PlanDeps, type PlanFacts } from './plans.ts';
import type { CallerPlanSource, RoutePlans } from './route-table.ts';

/** What the plans of a route have in common. */
export type CallerPlanFacts = Omit<PlanFacts, 'identity' | 'principal' | 'consumed' | 'challenge'>;

export class CallerPlans implements CallerPlanSource {
  readonly kind = 'caller';
  readonly #deps: PlanDeps;
  readonly #facts: CallerPlanFacts;
  readonly #callers: ListenerCallers;
  readonly #byKind = {
    none: new WeakMap<Identity, RoutePlans>(),
    basic: new WeakMap<Identity, RoutePlans>(),
  } as const;

  constructor(deps: PlanDeps, facts: CallerPlanFacts, callers: ListenerCallers) {
    this.#deps = deps;
    this.#facts = facts;
    this.#callers = callers;
  }

  /** For this caller; `internal` where the configuration gives him what he may not have. */
  of(known: KnownCaller): RoutePlans | ProxyError {
    const { route, target } = this.#facts;
    const names = { route: route.principal, upstream: undefined };
    const principal = target.login === undefined ? undefined : originPrincipal(names, known.rule);
    const identity = this.#callers.identity(principal, known);
    if (identity instanceof ProxyError) return identity;
    const plans = this.#byKind[known.caller.kind];
    const made = plans.get(identity);
    if (made !== undefined) return made;
    const created = createPlans(this.#deps, {
      ...this.#facts,
      identity,
      principal: identity === NO_IDENTITY ? undefined : principal,
      consumed: known.caller.kind !== 'none',
      challenge: this.#callers.isFromClient(principal) ? this.#callers.check.challenge : undefined,
    });
    plans.set(identity, created);
    return created;
  }
}
