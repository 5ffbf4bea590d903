/**
 * Plans for the targets that callers of a forward listener name: made on first use, kept in a cache of
 * bounded size (I12) by whoever asks.
 *
 * A target in the no-proxy list is reached directly, others by the listener's list of parents; one of
 * `origins` is logged in to, by its upstream's own list where it has one. A direct connection has a
 * partition of its own target and listener rules: one that these rules let through serves no other's
 * (R8, D11).
 */
import { isIP } from 'node:net';
import type { ForwardListenerConfig, UpstreamConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { parseIpAddress } from '../http/forward-addresses.ts';
import type { ForwardRules } from '../http/forward-rules.ts';
import type { ForwardTarget } from '../http/forward-target.ts';
import { NO_IDENTITY } from '../identity/identity.ts';
import { exactBytes, keyedDigest } from '../identity/process-key.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { UpstreamLimits } from '../pool/limits.ts';
import { latin1 } from '../relay/bytes.ts';
import type { RoutePlan } from '../relay/plan.ts';
import type { ParentHealth } from '../upstream/parent-health.ts';
import type { Resolver } from '../upstream/resolve.ts';
import { nothingLearned, type UpstreamTarget } from '../upstream/target.ts';
import type { RequestFields } from '../wire/request-fields.ts';
import type { HopIdentities, HopIdentity } from './hop-identities.ts';
import { dropTable, limit, type PartitionPool, partitionSource, routeMeters } from './plans.ts';
import { refusal } from './request-checks.ts';
import {
  joinWays,
  type KnownUpstream,
  parentOf,
  parentPlan,
  targetPrefix,
  type ViaEntry,
  type WayFacts,
  wayPartition,
} from './ways.ts';

export interface ForwardPlanDeps {
  readonly pool: PartitionPool;
  readonly metrics: Metrics;
  readonly resolver: Resolver;
  readonly health: ParentHealth;
}

export interface KnownOrigin extends KnownUpstream {
  /** Its own list, else the listener's. */
  readonly via: readonly ViaEntry[];
}

export interface ForwardPlanFacts {
  readonly listener: ForwardListenerConfig;
  readonly rules: ForwardRules;
  readonly fields: RequestFields;
  readonly via: readonly ViaEntry[];
  readonly origins: readonly KnownOrigin[];
}

/** An absolute-form target, by what follows `scheme://authority`. */
export interface HttpForms {
  /** A path. */
  readonly plan: RoutePlan;
  /** Nothing, or a query: the path is `/`. */
  readonly bare: RoutePlan;
  /** OPTIONS of the whole server (RFC 9112 3.2.4). */
  readonly server: RoutePlan;
}

export interface HttpPlans {
  readonly kind: 'http';
  readonly target: ForwardTarget;
  readonly own: HttpForms;
  /** For a caller who logs in by himself; undefined: the daemon does. */
  readonly pinned: HttpForms | undefined;
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
function directScope(listener: ForwardListenerConfig): string {
  const { name, allow, direct, private: isPrivate, resolve, via } = listener;
  const rules = exactBytes(JSON.stringify([name, allow, direct, isPrivate, resolve, via]));
  return `direct ${keyedDigest('forward rules', rules).toString('hex')}`;
}

/** One request's target with everything that its ways have in common. */
interface Aim {
  readonly target: UpstreamTarget;
  readonly origin: KnownOrigin | undefined;
  readonly atOrigin: HopIdentity;
  readonly who: HopIdentities;
  readonly carries: WayFacts['carries'];
  /** Length of what a path follows in the target as written. */
  readonly written: number;
}

/** `in-range`: directly, where the target's addresses are in a range of the no-proxy list. */
type Entry = ViaEntry | 'in-range';

type PlanPart = Omit<RoutePlan, 'prefix'>;

interface WayPart {
  readonly part: PlanPart;
  readonly facts: WayFacts;
}

export class ForwardPlans {
  readonly #deps: ForwardPlanDeps;
  readonly #facts: ForwardPlanFacts;
  readonly #scope: string;

  constructor(deps: ForwardPlanDeps, facts: ForwardPlanFacts) {
    this.#deps = deps;
    this.#facts = facts;
    this.#scope = directScope(facts.listener);
  }

  /** `written`: length of `scheme://authority` in the target. `target-denied` where no way is allowed. */
  http(target: ForwardTarget, written: number, who: HopIdentities): HttpPlans | ProxyError {
    const origin = this.#origin(target);
    const atOrigin = origin ? who.atOrigin(origin.config.auth?.principal) : NOBODY;
    if (atOrigin instanceof ProxyError) return atOrigin;
    const aim = { target: this.#target(target, origin), origin, atOrigin, who, written };
    const parts = this.#ways(target, { ...aim, carries: 'requests' });
    if (parts instanceof ProxyError) return parts;
    const logsIn = parts.some(({ part }) => part.hasIdentity);
    const pinning = parts.map(({ part, facts }) => ({ part: { ...part, pins: true }, facts }));
    return {
      kind: 'http',
      target,
      own: this.#forms(parts),
      pinned: logsIn ? undefined : this.#forms(pinning as readonly WayPart[]),
    };
  }

  /** `http://host` means an `https` origin too, unless there is one at that very port. */
  #origin(asked: ForwardTarget): KnownOrigin | undefined {
    const named = this.#facts.origins.filter(({ target }) => target.host === asked.host);
    const exact = named.find(({ target }) => target.port === asked.port);
    if (exact !== undefined || asked.port !== DEFAULT_PORTS.http) return exact;
    // Callers who cannot speak TLS name it so.
    return named.find(({ target: { scheme, port } }) => port === DEFAULT_PORTS[scheme]);
  }

  /** A CONNECT. Its connections are never lent twice. */
  tunnel(target: ForwardTarget, who: HopIdentities): RoutePlan | ProxyError {
    // Most tunnels are over before anybody has to wonder whether the other side is still there.
    const dialled: UpstreamTarget = { ...this.#target(target, undefined), probed: 'later' };
    const aim = { target: dialled, origin: undefined, who, written: 0 };
    const known = this.#facts.origins.some(({ target: { host, port } }) => {
      return host === target.host && port === target.port;
    });
    const parts = this.#ways(target, { ...aim, atOrigin: NOBODY, carries: 'tunnel' }, known);
    if (parts instanceof ProxyError) return parts;
    const plain = parts.map(({ part, facts }) => ({
      part: { ...part, pinKey: undefined, tunnel: true, upgrade: [] } as unknown as PlanPart,
      facts,
    }));
    return this.#join(plain, () => '');
  }

  #forms(parts: readonly WayPart[]): HttpForms {
    return {
      plan: this.#join(parts, targetPrefix),
      bare: this.#join(parts, (facts) => `${targetPrefix(facts)}/`),
      // To a parent the target of such a request has no path (RFC 9112 3.2.4).
      server: this.#join(parts, (facts) => targetPrefix(facts) || '*'),
    };
  }

  #join(parts: readonly WayPart[], prefixOf: (facts: WayFacts) => string): RoutePlan {
    const ways = parts.map(({ part, facts }) => {
      const plan = { ...part, prefix: latin1(prefixOf(facts)) };
      return { plan, parent: facts.parent?.target };
    });
    return joinWays(ways, this.#deps.health);
  }

  /** In order; those that the rules do not allow are left out. */
  #ways(
    target: ForwardTarget,
    aim: Aim,
    isKnown = aim.origin !== undefined,
  ): WayPart[] | ProxyError {
    const { rules } = this.#facts;
    const { host, port } = target;
    const parts: WayPart[] = [];
    for (const entry of this.#entries(target, aim.origin)) {
      const isDirect = entry === 'direct' || entry === 'in-range';
      const mayGo = isDirect ? rules.mayAsk(host, port) : rules.mayPass(host, port);
      if (!mayGo && !isKnown) continue;
      const part = isDirect ? this.#direct(aim, entry) : this.#through(entry, aim);
      if (part instanceof ProxyError) return part;
      parts.push(part);
    }
    if (parts.length > 0) return parts;
    return refusal('target-denied', 'the target is not allowed on this listener');
  }

  #entries({ host, port }: ForwardTarget, origin: KnownOrigin | undefined): readonly Entry[] {
    const { rules, via } = this.#facts;
    const list = origin?.via ?? via;
    if (list.length === 0 || rules.isDirect(host, port)) return ['direct'];
    if (list[0] === 'direct') return list;
    // Whether a range of the no-proxy list names it is known once it was looked up: then it is tried
    // directly first, and goes on by the list when no address of its own is in a range.
    return rules.needsAddresses && origin === undefined ? ['in-range', ...list] : list;
  }

  #direct(aim: Aim, entry: 'direct' | 'in-range'): WayPart {
    const upstream = aim.origin?.config.name ?? DIRECT_UPSTREAM;
    const isInRange = entry === 'in-range';
    const scope = isInRange ? `${this.#scope} in range` : this.#scope;
    const own = isInRange ? { ...aim, target: this.#inRange(aim.target) } : aim;
    const facts = { ...this.#wayFacts(own, upstream), parent: undefined, scope };
    return this.#part(own, facts, aim.origin?.config);
  }

  /** The same target at those of its addresses that a range of the no-proxy list names. */
  #inRange(target: UpstreamTarget): UpstreamTarget {
    const { host, port } = target;
    return { ...target, resolve: () => this.#resolve(host, port, 'in-range') };
  }

  #through({ config, target }: KnownUpstream, aim: Aim): WayPart | ProxyError {
    const parent = parentOf({ config, target }, aim.who);
    if (parent instanceof ProxyError) return parent;
    const upstream = aim.origin?.config.name ?? config.name;
    // What goes wrong behind a parent is told with its name.
    const named = aim.origin === undefined ? { ...aim.target, name: config.name } : aim.target;
    const through = { ...aim, target: named };
    const facts = { ...this.#wayFacts(through, upstream), parent, scope: 'parent' };
    const made = this.#part(through, facts, aim.origin?.config ?? config);
    return { ...made, part: { ...made.part, parentChallenge: parent.challenge } };
  }

  #wayFacts({ target, atOrigin, carries }: Aim, upstream: string) {
    return { target, identity: atOrigin.identity, carries, upstream };
  }

  #part(aim: Aim, facts: WayFacts, settings: UpstreamConfig | undefined): WayPart {
    const { listener, fields } = this.#facts;
    const { target, atOrigin } = aim;
    const hasIdentity = target.login !== undefined && atOrigin.identity.kind !== 'none';
    const parent = parentPlan(facts);
    const part: PlanPart = {
      kind: 'plan',
      target,
      hasIdentity,
      challenge: atOrigin.challenge,
      loginSchemes: target.login?.schemes ?? [],
      partition: partitionSource(this.#deps.pool, wayPartition(facts)),
      hostLine: latin1(`Host: ${target.authority}\r\n`),
      forwardedHost: latin1(target.authority),
      stripBytes: aim.written,
      ...(parent === undefined ? {} : { parent }),
      ...(hasIdentity ? {} : { pinKey: pinKeyOf(target, aim.who) }),
      drop: dropTable(listener, fields, { dropsLogin: hasIdentity, trusted: false }),
      dropTrusted: dropTable(listener, fields, { dropsLogin: hasIdentity, trusted: true }),
      upgrade: ['websocket'],
      responseMs: settings?.timeouts.response ?? RESPONSE_MS,
      idleMs: settings?.timeouts.idle ?? IDLE_MS,
      tunnelIdleMs: limit(listener.timeouts.tunnelIdle),
      replayBytes: settings?.replay.maxBytes ?? REPLAY_BYTES,
      rewriter: undefined,
      meters: routeMeters(this.#deps.metrics, listener.name, facts.upstream),
      loggedPrincipal: undefined,
    };
    return { part, facts };
  }

  #target(target: ForwardTarget, origin: KnownOrigin | undefined): UpstreamTarget {
    // What comes before the path is the caller's to say: no base path is put there.
    if (origin !== undefined) return { ...origin.target, basePath: '' };
    const { host, port, authority } = target;
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
      resolve: this.#resolver(host, port),
      login: undefined,
      learned: nothingLearned(),
    };
  }

  /** A literal is read once; whether it may be dialled is asked each time. */
  #resolver(host: string, port: number): NonNullable<UpstreamTarget['resolve']> {
    const literal = parseIpAddress(host);
    const own = [{ address: host, family: isIP(host) === 6 ? 6 : 4 }] as const;
    const { rules } = this.#facts;
    return () =>
      literal !== undefined && rules.mayDial(host, port, literal)
        ? Promise.resolve(own)
        : this.#resolve(host, port, 'direct');
  }

  async #resolve(
    host: string,
    port: number,
    entry: 'direct' | 'in-range',
  ): ReturnType<NonNullable<UpstreamTarget['resolve']>> {
    const { rules } = this.#facts;
    const found = await this.#deps.resolver.resolve(host);
    const isInRange = entry === 'in-range';
    const own = found.filter((one) => {
      const address = parseIpAddress(one.address);
      if (address === undefined || (isInRange && !rules.isDirect(host, port, address)))
        return false;
      return rules.mayDial(host, port, address);
    });
    if (own.length > 0) return own;
    if (isInRange) {
      const facts = { side: 'upstream', stage: 'connect', retry: 'safe' } as const;
      throw new ProxyError('connect-failed', `${host} is not in the no-proxy list`, facts);
    }
    const facts = { side: 'downstream', stage: 'connect' } as const;
    throw new ProxyError('target-denied', `no address of ${host} may be reached`, facts);
  }
}

/** One caller at one origin: another one on the same connection has no part in his login (R1). */
const pinKeyOf = ({ scheme, host, port }: UpstreamTarget, { key }: HopIdentities): string =>
  `${scheme}://${host}:${port} ${key}`;

const NOBODY: HopIdentity = { identity: NO_IDENTITY, challenge: undefined };

const DEFAULT_PORTS = { http: 80, https: 443 } as const;
