/**
 * The ways to a target: directly, or through parent proxies in order of preference (config.md, `via`).
 *
 * A request takes the first way whose parent is not known to be down. When no connection can be made
 * that way, nothing was sent, and the next one in the list is taken. The partition of a way has
 * everything that keeps its connections apart from others (D11, R7, R8).
 */
import type { UpstreamConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import { identityDigest } from '../identity/digest.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { PartitionInput } from '../pool/partition.ts';
import type { ParentPlan, RoutePlan, Ways } from '../relay/plan.ts';
import type { ParentHealth } from '../upstream/parent-health.ts';
import { ConnectionPath } from '../upstream/path.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import type { HopIdentities } from './hop-identities.ts';

/** A parent proxy, and who the daemon is there for the caller at hand. */
export interface Parent {
  readonly target: UpstreamTarget;
  readonly identity: Identity;
  /** The identity is the caller's own: how he is asked again. */
  readonly challenge: OwnChallenge | undefined;
}

/** An upstream of the configuration, as plans use it. */
export interface KnownUpstream {
  readonly config: UpstreamConfig;
  readonly target: UpstreamTarget;
}

/** Entry of a `via` list. */
export type ViaEntry = KnownUpstream | 'direct';

/** The parents of a list as they are for one caller; without entries: directly. */
export function parentsOf(
  via: readonly ViaEntry[],
  who: HopIdentities,
): (Parent | undefined)[] | ProxyError {
  if (via.length === 0) return [undefined];
  const parents: (Parent | undefined)[] = [];
  for (const entry of via) {
    const parent = entry === 'direct' ? undefined : parentOf(entry, who);
    if (parent instanceof ProxyError) return parent;
    parents.push(parent);
  }
  return parents;
}

/** A parent as it is for one caller. */
export function parentOf(
  { config, target }: KnownUpstream,
  who: HopIdentities,
): Parent | ProxyError {
  const found = who.atParent(config.auth?.principal);
  return found instanceof ProxyError ? found : { target, ...found };
}

export interface WayFacts {
  /** Where requests end. */
  readonly target: UpstreamTarget;
  /** Who the daemon is there. */
  readonly identity: Identity;
  /** undefined: the target is dialled. */
  readonly parent: Parent | undefined;
  /** `tunnel`: the connection is a caller's own tunnel. */
  readonly carries: 'requests' | 'tunnel';
  /** Whose limits and counts. */
  readonly upstream: string;
  /** What else keeps connections apart. */
  readonly scope: string;
}

/** Whether a parent is sent requests in absolute-form, or asked for a tunnel. */
function formOf({ target, carries }: WayFacts): 'absolute' | 'tunnel' {
  return target.scheme === 'https' || carries === 'tunnel' ? 'tunnel' : 'absolute';
}

/** The partition of a way's connections. */
export function wayPartition(facts: WayFacts): PartitionInput {
  const { target, parent, upstream, scope } = facts;
  const first = parent?.target ?? target;
  const identity = identityAt(target, facts.identity);
  const parentIdentity = identityAt(first, parent?.identity);
  const form = formOf(facts);
  // Without a login at the origin, a connection to a parent may carry requests for any (R8).
  const isShared = parent !== undefined && form === 'absolute' && identity.kind === 'none';
  const scheme = facts.carries === 'tunnel' ? 'tunnel' : target.scheme;
  const { host, port } = target;
  const path =
    parent && new ConnectionPath(isShared ? asOrigin(parent) : target, { target: first, form });
  return {
    nextHop: { host: first.host, port: first.port, tls: first.tls !== undefined },
    origin: isShared ? 'any' : { scheme, host, port },
    originIdentity: identityDigest(identity),
    proxyIdentity: identityDigest(parentIdentity),
    transport: JSON.stringify([first.tls?.digest, target.tls?.digest]),
    upstream,
    scope: JSON.stringify([scope, form, targetScope(first), isShared ? '' : targetScope(target)]),
    identity,
    parentIdentity,
    context: path ?? new ConnectionPath(target),
  };
}

/** Where no login is made, everybody is nobody. */
const identityAt = ({ login }: UpstreamTarget, identity: Identity | undefined): Identity =>
  login === undefined || identity === undefined ? NO_IDENTITY : identity;

/** What stands for the origins of a connection that carries requests for many. */
const asOrigin = ({ target }: Parent): UpstreamTarget => ({ ...target, login: undefined });

/**
 * What connections are opened and logged in for: two that differ in any of it are not alike (R4). All
 * of the target is in the partition's key, so that one found by it has an equal target.
 */
const targetScope = ({ basePath, connectMs, answerMs, login }: UpstreamTarget): string =>
  JSON.stringify([basePath, connectMs, answerMs, login]);

/** How answers of the parent are judged; undefined where none of its own come. */
export function parentPlan(facts: WayFacts): ParentPlan | undefined {
  const { parent } = facts;
  if (parent === undefined || formOf(facts) === 'tunnel') return undefined;
  const { target, identity } = parent;
  const { login } = target;
  const hasIdentity = login !== undefined && identity.kind !== 'none';
  return { target, hasIdentity, loginSchemes: login?.schemes ?? [] };
}

/** What the request target starts with, this way, before the path. */
export function targetPrefix(facts: WayFacts): string {
  const { target, parent } = facts;
  const isAbsolute = parent !== undefined && formOf(facts) === 'absolute';
  return isAbsolute ? `http://${target.authority}${target.basePath}` : target.basePath;
}

/** Where no way leads anywhere else. */
export interface WayPlan {
  readonly plan: RoutePlan;
  readonly parent: UpstreamTarget | undefined;
}

/** The plans of one request by all its ways, each knowing the others. At least one. */
export function joinWays(ways: readonly WayPlan[], health: ParentHealth): RoutePlan {
  const [only, ...more] = ways;
  if (only === undefined) throw new Error('there is no way');
  if (more.length === 0) return only.plan;
  return new WayList(ways, health).first;
}

/** The way that a request takes now. */
export const bestWay = (plan: RoutePlan): RoutePlan => plan.ways?.best() ?? plan;

class WayList implements Ways {
  readonly first: RoutePlan;
  readonly #plans: readonly RoutePlan[];
  readonly #parents: readonly (UpstreamTarget | undefined)[];
  readonly #health: ParentHealth;

  constructor(ways: readonly WayPlan[], health: ParentHealth) {
    this.#plans = ways.map(({ plan }) => ({ ...plan, ways: this }));
    this.#parents = ways.map(({ parent }) => parent);
    this.#health = health;
    this.first = this.#plans[0] as RoutePlan;
  }

  /** The first that is not known to be down; when all are, the first. */
  best(): RoutePlan {
    return this.#bestFrom(0) ?? this.first;
  }

  after(plan: RoutePlan, error: ProxyError): RoutePlan | undefined {
    // Anything else is an answer, or the daemon's own matter: it counts.
    const { side, stage, retry } = error;
    if (side !== 'upstream' || stage !== 'connect' || retry !== 'safe') return undefined;
    const at = this.#plans.indexOf(plan);
    const parent = this.#parents[at];
    if (parent !== undefined) this.#health.failed(parent);
    return this.#bestFrom(at + 1);
  }

  /** The first from there on that is not known to be down, or else the first; undefined behind the last. */
  #bestFrom(start: number): RoutePlan | undefined {
    for (let at = start; at < this.#plans.length; at += 1) {
      const parent = this.#parents[at];
      if (parent === undefined || this.#health.isUp(parent)) return this.#plans[at];
    }
    return this.#plans[start];
  }
}
