/**
 * Makes the plan of each route from the configuration: partition, head changes, time limits, meters.
 */
import type { ListenerConfig, RouteConfig, UpstreamConfig } from '../config/config.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import { nameFieldValue } from '../inbound/caller-name.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Partition, PartitionInput } from '../pool/partition.ts';
import type { Pool } from '../pool/pool.ts';
import { latin1 } from '../relay/bytes.ts';
import type { RouteMeters, RoutePlan, UpstreamPartition } from '../relay/plan.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { ParentHealth } from '../upstream/parent-health.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import { REQUEST_FIELD, RequestFields } from '../wire/request-fields.ts';
import { createRewriter } from './rewrite.ts';
import type { Route, RoutePlans } from './route-table.ts';
import {
  joinWays,
  type Parent,
  parentPlan,
  targetPrefix,
  type WayFacts,
  wayPartition,
} from './ways.ts';

/** The pool, as far as plans know it. */
export type PartitionPool = Pick<Pool<UpstreamConnection, OpeningRequest>, 'partition'>;

export interface PlanDeps {
  readonly pool: PartitionPool;
  readonly metrics: Metrics;
  readonly health: ParentHealth;
}

export interface PlanFacts {
  readonly listener: ListenerConfig;
  readonly route: RouteConfig;
  readonly upstream: UpstreamConfig;
  readonly target: UpstreamTarget;
  /** Of the effective principal, or none. */
  readonly identity: Identity;
  /** Parents in order of preference; undefined: without one. At least one entry. */
  readonly ways: readonly (Parent | undefined)[];
  /** Its name, for the access log. */
  readonly principal: string | undefined;
  /** The listener's own check has used up the caller's Authorization (R30). */
  readonly consumed?: boolean;
  /** `HopIdentities.key` of the caller; undefined: callers are not told apart. */
  readonly callerKey?: string;
  /** Who calls, an acceptable and verified name; undefined: there is none. For `route.forwardIdentity`. */
  readonly callerName?: string | undefined;
  /** The principal is the caller himself: how he is asked again. */
  readonly challenge?: OwnChallenge | undefined;
  readonly fields: RequestFields;
  /** `log.principals`: the access log shows names of principals. */
  readonly logsPrincipals: boolean;
}

/** The route as the table takes it. */
export function createRoute(route: RouteConfig, plans: Route['plans']): Route {
  return {
    path: route.path,
    host: route.host,
    plans,
    allowOrigins: route.allowOrigins,
    rawPath: route.dangerousRawPath,
  };
}

/** The plans of a route for one identity. */
export function createPlans(deps: PlanDeps, facts: PlanFacts): RoutePlans {
  const { route } = facts;
  const stripBytes = route.stripPrefix ? route.path.replace(/\/$/, '').length : 0;
  const shared = { ...sharedPlan(deps, facts), stripBytes };
  const ways = facts.ways.map((parent) => wayFacts(facts, parent));
  const join = (own: SharedPlan, end: string): RoutePlan =>
    joinWays(
      ways.map((way) => ({ plan: wayPlan(deps, own, way, end), parent: way.parent?.target })),
      deps.health,
    );
  const pair = (own: SharedPlan): { plan: RoutePlan; barePlan: RoutePlan } => {
    const plan = join(own, '');
    // Nothing, or a query, follows what is stripped: a path has to start with a slash all the same.
    return { plan, barePlan: stripBytes > 0 ? join(own, '/') : plan };
  };
  const pinned = shared.pinKey === undefined ? undefined : pair({ ...shared, pins: true });
  return { kind: 'fixed', ...pair(shared), pinned };
}

/** Base path without trailing slash, then the rest of the target (config.md, Routes). */
function wayPlan(deps: PlanDeps, shared: SharedPlan, way: WayFacts, end: string): RoutePlan {
  const parent = parentPlan(way);
  return {
    ...shared,
    ...(parent === undefined ? {} : { parent }),
    parentChallenge: way.parent?.challenge,
    partition: partitionSource(deps.pool, wayPartition(way)),
    prefix: latin1(`${targetPrefix(way)}${end}`),
  };
}

function wayFacts(facts: PlanFacts, parent: Parent | undefined): WayFacts {
  const { target, upstream } = facts;
  const identity = identityOf(facts);
  return { target, identity, parent, carries: 'requests', upstream: upstream.name, scope: '' };
}

/** With `challenge: pass` the daemon's own login is off. */
const identityOf = ({ route, identity }: PlanFacts): Identity =>
  route.challenge === 'pass' ? NO_IDENTITY : identity;

type SharedPlan = Omit<RoutePlan, 'prefix' | 'partition' | 'parent' | 'parentChallenge'>;

function sharedPlan(deps: PlanDeps, facts: PlanFacts): Omit<SharedPlan, 'stripBytes'> {
  const { route, upstream, target, listener } = facts;
  const hasIdentity = identityOf(facts).kind !== 'none' && target.login !== undefined;
  const dropsLogin = hasIdentity || facts.consumed === true;
  const ownHost = upstream.host === 'client';
  return {
    kind: 'plan',
    target,
    hasIdentity,
    challenge: facts.challenge,
    ...(route.challenge === 'pass' ? { pinKey: `${upstream.name} ${facts.callerKey ?? ''}` } : {}),
    loginSchemes: target.login?.schemes ?? [],
    identityLine: identityLine(facts),
    hostLine: ownHost ? undefined : latin1(`Host: ${target.authority}\r\n`),
    drop: dropTable(listener, facts.fields, { dropsLogin, trusted: false }),
    dropTrusted: dropTable(listener, facts.fields, { dropsLogin, trusted: true }),
    upgrade: route.upgrade,
    responseMs: limit(route.timeouts.response),
    idleMs: limit(route.timeouts.idle),
    tunnelIdleMs: limit(listener.timeouts.tunnelIdle),
    replayBytes: upstream.replay.maxBytes,
    rewriter: createRewriter({
      upstreamScheme: target.scheme,
      upstreamHost: target.host,
      upstreamPort: target.port,
      basePath: target.basePath,
      routePrefix: route.stripPrefix ? route.path.replace(/\/$/, '') : '',
      listenerScheme: listener.tls === undefined ? 'http' : 'https',
      sendsCallerHost: ownHost,
      location: route.rewriteLocation,
      cookies: route.rewriteCookies,
    }),
    meters: routeMeters(deps.metrics, listener.name, upstream.name),
    loggedPrincipal: facts.logsPrincipals && hasIdentity ? facts.principal : undefined,
  };
}

/** Tells the upstream who called. What a caller sent under this name was dropped. */
function identityLine({ route, callerName }: PlanFacts): Buffer | undefined {
  if (route.forwardIdentity === undefined || callerName === undefined) return undefined;
  return latin1(`${route.forwardIdentity}: ${nameFieldValue(callerName)}\r\n`);
}

/** A time limit of the configuration as the relay takes it. */
export const limit = (ms: number | 'off'): number => (ms === 'off' ? Infinity : ms);

/** Keeps the partition, and asks the pool again when it was retired (R14, R15). */
export function partitionSource(
  pool: PartitionPool,
  input: PartitionInput,
): () => UpstreamPartition {
  let partition: Partition<UpstreamConnection, OpeningRequest> | undefined;
  return () => {
    if (partition === undefined || partition.retired) partition = pool.partition(input);
    return partition;
  };
}

/** Fields that end at this hop, whoever sent them (RFC 9110 7.6.1; R30). */
const HOP_BY_HOP = [
  REQUEST_FIELD.host,
  REQUEST_FIELD.connection,
  REQUEST_FIELD.keepAlive,
  REQUEST_FIELD.proxyConnection,
  REQUEST_FIELD.te,
  REQUEST_FIELD.trailer,
  REQUEST_FIELD.upgrade,
  REQUEST_FIELD.http2Settings,
  REQUEST_FIELD.proxyAuthorization,
  REQUEST_FIELD.nominated,
];

const FORWARDING = [
  REQUEST_FIELD.forwarded,
  REQUEST_FIELD.xForwardedFor,
  REQUEST_FIELD.xForwardedHost,
  REQUEST_FIELD.xForwardedProto,
  REQUEST_FIELD.xForwardedOther,
  REQUEST_FIELD.xRealIp,
];

/** Fields that a trusted proxy names callers of the listener in: a request has one (config.md, Clients). */
const trustedFields = ({ clients }: ListenerConfig): readonly string[] =>
  clients.flatMap((one) => (one.kind === 'header' ? [one.name] : []));

/** Fields that the listener tells upstreams who calls in. */
const toldFields = (listener: ListenerConfig): readonly string[] =>
  listener.mode === 'reverse'
    ? listener.routes.flatMap(({ forwardIdentity }) => forwardIdentity ?? [])
    : [];

/**
 * The fields of requests that a listener knows. Those that say who calls, to any listener or to any
 * upstream, are no caller's to send by whatever way (R30): two listeners may have one upstream.
 */
export function requestFieldsOf(
  listener: ListenerConfig,
  all: readonly ListenerConfig[],
): RequestFields {
  const names = all.flatMap((one) => [...trustedFields(one), ...toldFields(one)]);
  return new RequestFields([...listener.identityHeaders, ...names], trustedFields(listener));
}

/** Which fields of a request are not forwarded, by their id. */
export function dropTable(
  listener: ListenerConfig,
  fields: RequestFields,
  { dropsLogin, trusted }: { readonly dropsLogin: boolean; readonly trusted: boolean },
): Uint8Array {
  const drop = new Uint8Array(fields.size);
  for (const id of HOP_BY_HOP) drop[id] = 1;
  for (const id of fields.customIds) drop[id] = 1;
  if (dropsLogin) drop[REQUEST_FIELD.authorization] = 1;
  if (!trusted) {
    for (const id of FORWARDING) drop[id] = 1;
    return drop;
  }
  // Written again, with ours behind.
  const { send } = listener.forwarded;
  if (send === 'x-forwarded' || send === 'both') drop[REQUEST_FIELD.xForwardedFor] = 1;
  if (send === 'forwarded' || send === 'both') drop[REQUEST_FIELD.forwarded] = 1;
  return drop;
}

/** The meters of a listener and an upstream. */
export function routeMeters(metrics: Metrics, listener: string, upstream: string): RouteMeters {
  const of = (word: '1xx' | '2xx' | '3xx' | '4xx' | '5xx' | 'none') =>
    metrics.requests.child(listener, upstream, word);
  return {
    classes: [of('none'), of('1xx'), of('2xx'), of('3xx'), of('4xx'), of('5xx')],
    duration: metrics.requestDuration.child(listener, upstream),
    firstByte: metrics.upstreamFirstByte.child(upstream),
    reauthentications: metrics.reauthentications.child(upstream, 'midlife_401'),
  };
}
