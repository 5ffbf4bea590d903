/** Makes what a listener knows of its callers; most listeners let everybody in and need nothing of it. */
import type { ListenerConfig } from '../config/config.ts';
import { CallerCheck, type CallerMeters } from '../inbound/caller-check.ts';
import { PrincipalRules } from '../inbound/principal-rules.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { ListenerCallers } from '../proxy/listener-callers.ts';
import type { RequestFields } from '../wire/request-fields.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

/** What a dispatcher shares with the rest of its listener. */
export interface ListenerParts {
  readonly fields: RequestFields;
  readonly callers: ListenerCallers | undefined;
}

/** undefined: anybody may call, and routes and upstreams alone say as whom. */
export function createCallers(
  { config, identities }: Generation,
  runtime: Runtime,
  listener: ListenerConfig,
): ListenerCallers | undefined {
  const { clients, principal: rules, mode, name } = listener;
  if (rules === undefined && clients.every(({ kind }) => kind === 'none')) return undefined;
  const place = mode === 'forward' ? 'proxy' : 'origin';
  const principals = Object.values(config.principals);
  const fromClient = principals.filter(({ kind }) => kind === 'client');
  return new ListenerCallers({
    check: new CallerCheck({ clients, place, meters: callerMeters(runtime.metrics, name) }),
    rules: new PrincipalRules(rules),
    own: identities,
    fromClient: new Set(fromClient.map((one) => one.name)),
    identities: runtime.callers,
  });
}

/** Children are kept: a request must not look one up. */
function callerMeters({ inboundAuth }: Metrics, listener: string): CallerMeters {
  const counters = {
    none: { ok: inboundAuth.child(listener, 'none', 'ok') },
    basic: {
      ok: inboundAuth.child(listener, 'basic', 'ok'),
      refused: inboundAuth.child(listener, 'basic', 'refused'),
    },
  };
  return {
    judged: (client, result) => {
      if (client === 'none') counters.none.ok.add();
      else counters.basic[result].add();
    },
  };
}
