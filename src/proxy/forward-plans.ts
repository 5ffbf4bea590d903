/**
 * Plans for the targets that callers of a forward listener name: made on first use, kept in a cache of
 * bounded size (I12), keyed by the target as written. Every plan has a partition of its own target
 * and listener: a connection that one listener's rules let through serves no other's (R8, D11).
 */
import type { ForwardListenerConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { parseIpAddress } from '../http/forward-addresses.ts';
import type { ForwardRules } from '../http/forward-rules.ts';
import type { ForwardTarget } from '../http/forward-target.ts';
import { identityDigest } from '../identity/digest.ts';
import { NO_IDENTITY } from '../identity/identity.ts';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { UpstreamLimits } from '../pool/limits.ts';
import type { PartitionInput } from '../pool/partition.ts';
import { latin1 } from '../relay/bytes.ts';
import type { RouteMeters, RoutePlan } from '../relay/plan.ts';
import { ConnectionPath } from '../upstream/path.ts';
import type { Resolver } from '../upstream/resolve.ts';
import { nothingLearned, type UpstreamTarget } from '../upstream/target.ts';
import type { RequestFields } from '../wire/request-fields.ts';
import { dropTable, limit, type PartitionPool, partitionSource, routeMeters } from './plans.ts';

export interface ForwardPlanDeps {
  readonly pool: PartitionPool;
  readonly metrics: Metrics;
  readonly resolver: Resolver;
}

export interface ForwardPlanFacts {
  readonly listener: ForwardListenerConfig;
  readonly rules: ForwardRules;
  readonly fields: RequestFields;
}

/** An absolute-form target: what becomes of `scheme://authority` in front of its path. */
export interface HttpPlans {
  readonly target: ForwardTarget;
  /** A path follows. */
  readonly plan: RoutePlan;
  /** Nothing, or a query, follows: the path is `/`. */
  readonly bare: RoutePlan;
  /** OPTIONS of the whole server (RFC 9112 3.2.4). */
  readonly server: RoutePlan;
}

/** As an upstream of the configuration has them by default, but for the sum over all targets. */
const CONNECT_MS = 5000;
const RESPONSE_MS = 60_000;
const IDLE_MS = 300_000;
const REPLAY_BYTES = 64 * 1024;

/** Limits of all direct targets together; `connections` is the limit of the whole pool. */
export const directLimits = (connections: number): UpstreamLimits => ({
  maxConnections: connections,
  maxPerPrincipal: connections,
  maxIdle: 256,
  maxHandshakes: 256,
  idleMs: 60_000,
  maxAgeMs: 3_600_000,
  maxRequests: 0,
  waitMs: 5000,
  maxWaiters: 1000,
});

/** Rules are part of it: those of a listener may change with its configuration. */
function directScope({ name, allow, direct, private: isPrivate, resolve }: ForwardListenerConfig) {
  const rules = exactBytes(JSON.stringify([name, allow, direct, isPrivate, resolve]));
  return `direct ${keyedDigest('forward rules', rules).toString('hex')}`;
}

/** Makes plans; whether the target may be asked for at all was judged before. */
export class ForwardPlans {
  readonly #deps: ForwardPlanDeps;
  readonly #facts: ForwardPlanFacts;
  readonly #meters: RouteMeters;
  readonly #drop: Uint8Array;
  readonly #dropTrusted: Uint8Array;
  readonly #scope: string;

  constructor(deps: ForwardPlanDeps, facts: ForwardPlanFacts) {
    const { listener, fields } = facts;
    this.#deps = deps;
    this.#facts = facts;
    this.#meters = routeMeters(deps.metrics, listener.name, DIRECT_UPSTREAM);
    this.#scope = directScope(listener);
    this.#drop = dropTable(listener, fields, { dropsLogin: false, trusted: false });
    this.#dropTrusted = dropTable(listener, fields, { dropsLogin: false, trusted: true });
  }

  /** `written`: length of `scheme://authority` in the target. */
  http(target: ForwardTarget, written: number): HttpPlans {
    const shared = { ...this.#plan(target, 'http'), stripBytes: written };
    const prefixed = (prefix: string): RoutePlan => ({ ...shared, prefix: latin1(prefix) });
    return { target, plan: prefixed(''), bare: prefixed('/'), server: prefixed('*') };
  }

  /** A CONNECT. Its connections are never lent twice. */
  tunnel(target: ForwardTarget): RoutePlan {
    return { ...this.#plan(target, 'tunnel'), tunnel: true, upgrade: [] };
  }

  #plan(target: ForwardTarget, scheme: 'http' | 'tunnel'): RoutePlan {
    const { listener } = this.#facts;
    const dialled = this.#target(target);
    return {
      kind: 'plan',
      target: dialled,
      hasIdentity: false,
      loginSchemes: [],
      partition: partitionSource(this.#deps.pool, this.#partition(target, scheme, dialled)),
      hostLine: latin1(`Host: ${target.authority}\r\n`),
      forwardedHost: latin1(target.authority),
      stripBytes: 0,
      prefix: latin1(''),
      drop: this.#drop,
      dropTrusted: this.#dropTrusted,
      upgrade: ['websocket'],
      responseMs: RESPONSE_MS,
      idleMs: IDLE_MS,
      tunnelIdleMs: limit(listener.timeouts.tunnelIdle),
      replayBytes: REPLAY_BYTES,
      rewriter: undefined,
      meters: this.#meters,
      loggedPrincipal: undefined,
    };
  }

  #target({ host, port, authority }: ForwardTarget): UpstreamTarget {
    const { rules } = this.#facts;
    return {
      name: DIRECT_UPSTREAM,
      scheme: 'http',
      host,
      port,
      authority,
      basePath: '',
      tls: undefined,
      connectMs: CONNECT_MS,
      answerMs: RESPONSE_MS,
      resolve: async () => {
        const found = await this.#deps.resolver.resolve(host);
        const allowed = found.filter((one) => {
          const address = parseIpAddress(one.address);
          return address !== undefined && rules.mayDial(host, port, address);
        });
        if (allowed.length > 0) return allowed;
        const facts = { side: 'downstream', stage: 'connect' } as const;
        throw new ProxyError('target-denied', `no address of ${host} may be reached`, facts);
      },
      login: undefined,
      learned: nothingLearned(),
    };
  }

  #partition(
    { host, port }: ForwardTarget,
    scheme: 'http' | 'tunnel',
    target: UpstreamTarget,
  ): PartitionInput {
    return {
      nextHop: { host, port, tls: false },
      origin: { scheme, host, port },
      originIdentity: identityDigest(NO_IDENTITY),
      proxyIdentity: identityDigest(NO_IDENTITY),
      transport: 'plain',
      upstream: DIRECT_UPSTREAM,
      scope: this.#scope,
      identity: NO_IDENTITY,
      context: new ConnectionPath(target),
    };
  }
}
