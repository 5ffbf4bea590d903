/** Makes the dispatcher of a forward listener from the configuration. */
import type { ForwardListenerConfig } from '../config/config.ts';
import { ForwardRules } from '../http/forward-rules.ts';
import { ForwardDispatcher } from '../proxy/forward.ts';
import type { OwnAddresses } from '../proxy/forward-own.ts';
import { type ForwardPlanDeps, ForwardPlans } from '../proxy/forward-plans.ts';
import type { RequestFields } from '../wire/request-fields.ts';

export interface ForwardDeps extends ForwardPlanDeps {
  /** Where the daemon listens; learned while listeners open. */
  readonly own: OwnAddresses;
  /** Id of this process in Via. */
  readonly viaId: string;
  readonly keepsText: boolean;
}

export function createForwardDispatcher(
  deps: ForwardDeps,
  listener: ForwardListenerConfig,
  fields: RequestFields,
): ForwardDispatcher {
  const { own, viaId, keepsText } = deps;
  const rules = new ForwardRules({
    allow: listener.allow,
    direct: listener.direct,
    private: listener.private,
    resolve: listener.resolve,
    isOwn: (address, port) => own.has(address, port),
  });
  return new ForwardDispatcher({
    plans: new ForwardPlans(deps, { listener, rules, fields }),
    rules,
    hosts: listener.hosts,
    pageRule: true,
    viaId,
    keepsText,
  });
}
