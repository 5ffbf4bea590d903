/**
 * Which route serves a request: most specific host first (exact, wildcard, none), then the longest
 * path; a path matches at a segment boundary (config.md, Routes).
 *
 * The host part is decided once per Host value, the path part per request over bytes, without
 * building strings. Routes are asked for on every request, also on kept connections (R53).
 */
import type { Authority } from '../http/authority.ts';
import { type AcceptedHost, isHost } from '../http/web-page.ts';
import type { ProxyError } from '../errors.ts';
import type { RoutePlan } from '../relay/plan.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { KnownCaller } from './listener-callers.ts';

/** The plans of a route for one identity. */
export interface RoutePlans {
  readonly kind: 'fixed';
  /** For targets that go on with a slash behind what is stripped. */
  readonly plan: RoutePlan;
  /** For targets that end, or go on with a query, where the path ends. */
  readonly barePlan: RoutePlan;
  /** The same for callers who log in by themselves; undefined: nobody does here. */
  readonly pinned: { readonly plan: RoutePlan; readonly barePlan: RoutePlan } | undefined;
}

/** The plans of a route that depend on who calls. */
export interface CallerPlanSource {
  readonly kind: 'caller';
  of(known: KnownCaller): RoutePlans | ProxyError;
}

export interface Route {
  /** Starts with a slash. */
  readonly path: string;
  readonly host: AcceptedHost | undefined;
  readonly plans: RoutePlans | CallerPlanSource;
  /** Origins of web pages that may call. */
  readonly allowOrigins: readonly string[];
  /** Dot segments and encoded slashes pass. */
  readonly rawPath: boolean;
}

/** A route as it is matched. */
interface CompiledRoute extends Route {
  readonly bytes: Buffer;
  readonly endsWithSlash: boolean;
}

export type RouteGroup = readonly CompiledRoute[];

export type Match =
  | { readonly kind: 'route'; readonly route: Route; readonly bare: boolean }
  /** The path of a route without its last slash: the caller is sent to the one with it. */
  | { readonly kind: 'add-slash' };

const SLASH = 0x2f;
const QUESTION = 0x3f;
const ADD_SLASH: Match = { kind: 'add-slash' };

export class RouteTable {
  readonly #routes: readonly CompiledRoute[];
  readonly #matches: ReadonlyMap<CompiledRoute, { readonly plain: Match; readonly bare: Match }>;

  constructor(routes: readonly Route[]) {
    const compiled = routes.map((route) => ({
      ...route,
      bytes: Buffer.from(route.path, 'latin1'),
      endsWithSlash: route.path.endsWith('/'),
    }));
    this.#routes = compiled.toSorted(
      (a, b) => hostRank(b) - hostRank(a) || b.bytes.length - a.bytes.length,
    );
    this.#matches = new Map(
      compiled.map((route) => [
        route,
        {
          plain: { kind: 'route', route, bare: false },
          bare: { kind: 'route', route, bare: true },
        },
      ]),
    );
  }

  /** The routes that may serve a host, most specific first. `host` undefined: none was sent. */
  group(host: Authority | undefined, defaultPort: number): RouteGroup {
    return this.#routes.filter(
      ({ host: pattern }) =>
        pattern === undefined || (host !== undefined && isHost(pattern, host, defaultPort)),
    );
  }

  /** The first route of the group whose path matches the target. */
  find(group: RouteGroup, head: RequestHead, buffer: Buffer): Match | undefined {
    for (const route of group) {
      const found = this.#match(route, head, buffer);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #match(route: CompiledRoute, head: RequestHead, buffer: Buffer): Match | undefined {
    const { bytes } = route;
    const start = head.targetStart;
    const length = head.pathEnd - start;
    const sameLength = route.endsWithSlash && length === bytes.length - 1;
    if (length < bytes.length && !sameLength) return undefined;
    const compared = sameLength ? length : bytes.length;
    for (let i = 0; i < compared; i += 1) if (buffer[start + i] !== bytes[i]) return undefined;
    if (sameLength) return ADD_SLASH;
    const matches = this.#matches.get(route);
    if (route.endsWithSlash) return matches?.plain;
    const after = length === bytes.length ? QUESTION : buffer[start + bytes.length];
    if (after === SLASH) return matches?.plain;
    return after === QUESTION ? matches?.bare : undefined;
  }
}

const hostRank = ({ host }: Route): number => {
  if (host === undefined) return 0;
  // A longer wildcard is the more specific one.
  return host.wildcard ? 1 + host.host.length / 1000 : 3;
};
