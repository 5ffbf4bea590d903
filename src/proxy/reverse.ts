/**
 * Decides what becomes of a request on a reverse listener.
 *
 * 1. Form and method: origin-form only; CONNECT and TRACE are refused (hostile rows C22, D5, D8).
 * 2. Host: one that the listener answers to, else 421. Remembered per connection by its bytes.
 * 3. Loop: our own id in Via is 508.
 * 4. Web pages of other origins are refused where a browser brings the caller's rights by itself.
 * 5. Caller: on listeners that ask who calls, or map callers to principals.
 * 6. Path: no dot segments; then the route.
 * 7. NTLM and Negotiate credentials of the caller's own get a connection of their own where the route
 *    passes them, and are refused elsewhere: they would tie a shared socket.
 */
import { ProxyError } from '../errors.ts';
import { parseAuthority } from '../http/authority.ts';
import { hasDotSegments } from '../http/request-target.ts';
import { type AcceptedHost, acceptsHost } from '../http/web-page.ts';
import type { Requester } from '../relay/caller.ts';
import type { Dispatcher } from '../relay/downstream.ts';
import type { LocalAnswer, RoutePlan, Undecided } from '../relay/plan.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { RequestHead } from '../wire/request-head.ts';
import {
  carriesConnectionLogin,
  isForeignPageRequest,
  isLoop,
  keepsLogins,
  noteRequest,
  refusal,
  refuseLogin,
} from './request-checks.ts';
import type { KnownCaller, ListenerCallers } from './listener-callers.ts';
import { bestWay } from './ways.ts';
import type { Match, Route, RouteGroup, RoutePlans, RouteTable } from './route-table.ts';

export interface ReverseSettings {
  readonly routes: RouteTable;
  /** undefined: anybody may call, and routes alone say as whom. */
  readonly callers: ListenerCallers | undefined;
  readonly scheme: 'http' | 'https';
  /** undefined: any Host value. */
  readonly hosts: readonly AcceptedHost[] | undefined;
  /** Callers are known by what a browser sends by itself, or not at all. */
  readonly pageRule: boolean;
  /** Id of this process in Via. */
  readonly viaId: string;
  /** Requests are logged, so their method and target are kept as text. */
  readonly keepsText: boolean;
}

/** What a Host value led to; kept on the connection for the next request with the same bytes. */
interface HostDecision {
  readonly bytes: Buffer;
  readonly text: string;
  readonly group: RouteGroup | undefined;
}

const DEFAULT_PORTS = { http: 80, https: 443 } as const;

export class ReverseDispatcher implements Dispatcher {
  readonly #settings: ReverseSettings;
  readonly #memos = new WeakMap<Requester, HostDecision>();

  constructor(settings: ReverseSettings) {
    this.#settings = settings;
  }

  dispatch(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
  ): RoutePlan | LocalAnswer | ProxyError | Undecided {
    if (this.#settings.keepsText) noteRequest(head, buffer, connection);
    if (head.targetForm !== 'origin' || isRefusedMethod(head.method)) return refuseForm(head);
    const host = this.#host(head, buffer, connection);
    connection.hostText = host.text;
    if (host.group === undefined) return refusal('misdirected', 'Host is none of this listener');
    if (isLoop(head, buffer, this.#settings.viaId)) {
      return refusal('loop-detected', 'the request carries the Via of this process');
    }
    return this.#route(host.group, head, buffer, connection);
  }

  #route(
    group: RouteGroup,
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
  ): RoutePlan | LocalAnswer | ProxyError | Undecided {
    const match = this.#settings.routes.find(group, head, buffer);
    const foreign = this.#refusePage(head, buffer, match);
    if (foreign !== undefined) return foreign;
    const known = this.#settings.callers?.identify(head, buffer, connection);
    if (known instanceof ProxyError || known?.kind === 'undecided') return known;
    const raw = match?.kind === 'route' && match.route.rawPath;
    if (!raw && hasDotSegments(buffer, head.targetStart, head.pathEnd)) {
      return refusal('request-malformed', 'dot segment or encoded slash in the path');
    }
    if (match === undefined) return refusal('no-route', 'no route has this host and path');
    if (match.kind === 'add-slash') return addSlash(head, buffer);
    const plans = plansFor(match.route, known);
    if (!bringsLogin(known, head, buffer)) return planOf(match, plans, 'own');
    return keepsLogins(head, connection) ? planOf(match, plans, 'pinned') : refuseLogin();
  }

  // Equal bytes mean an equal decision: it depends on nothing else (R53).
  #host(head: RequestHead, buffer: Buffer, connection: Requester): HostDecision {
    const entry = head.first(REQUEST_FIELD.host) * KNOWN_STRIDE;
    const start = entry < 0 ? 0 : (head.known[entry + 3] ?? 0);
    const end = entry < 0 ? 0 : (head.known[entry + 4] ?? 0);
    const memo = this.#memos.get(connection);
    if (memo !== undefined && memo.bytes.length === end - start) {
      if (buffer.compare(memo.bytes, 0, memo.bytes.length, start, end) === 0) return memo;
    }
    const decision = this.#decideHost(Buffer.from(buffer.subarray(start, end)));
    this.#memos.set(connection, decision);
    return decision;
  }

  #decideHost(bytes: Buffer): HostDecision {
    const { hosts, routes, scheme } = this.#settings;
    const text = bytes.toString('latin1');
    const host = parseAuthority(text);
    const port = DEFAULT_PORTS[scheme];
    const ours = hosts === undefined || (host !== undefined && acceptsHost(hosts, host, port));
    return { bytes, text, group: ours ? routes.group(host, port) : undefined };
  }

  #refusePage(head: RequestHead, buffer: Buffer, match: Match | undefined): ProxyError | undefined {
    if (!this.#settings.pageRule) return undefined;
    const target = {
      scheme: this.#settings.scheme,
      host: head.valueText(buffer, REQUEST_FIELD.host) ?? '',
    };
    const allowed = match?.kind === 'route' ? match.route.allowOrigins : [];
    if (!isForeignPageRequest(head, buffer, target, allowed)) return undefined;
    return refusal('web-page-refused', 'a web page of another origin made the request');
  }
}

/** Of his own, for an origin. A caller known by a ticket brought the token for the listener. */
const bringsLogin = (known: KnownCaller | undefined, head: RequestHead, buffer: Buffer): boolean =>
  known?.caller.kind !== 'negotiate' && carriesConnectionLogin(head, buffer);

function planOf(
  { bare }: Match & { readonly kind: 'route' },
  plans: RoutePlans | ProxyError,
  connection: 'own' | 'pinned',
): RoutePlan | ProxyError {
  if (plans instanceof ProxyError) return plans;
  const pair = connection === 'pinned' ? plans.pinned : plans;
  return pair === undefined ? refuseLogin() : bestWay(bare ? pair.barePlan : pair.plan);
}

function plansFor({ plans }: Route, known: KnownCaller | undefined): RoutePlans | ProxyError {
  if (plans.kind === 'fixed') return plans;
  if (known !== undefined) return plans.of(known);
  return new ProxyError('internal', 'nobody asked who calls', {
    side: 'internal',
    stage: 'identify',
  });
}

const isRefusedMethod = (method: string): boolean => method === 'TRACE' || method === 'CONNECT';

function refuseForm(head: RequestHead): ProxyError {
  if (isRefusedMethod(head.method))
    return refusal('method-refused', `${head.method} is not served`);
  return refusal('request-malformed', 'a reverse listener takes targets in origin-form only');
}

function addSlash(head: RequestHead, buffer: Buffer): LocalAnswer {
  const path = buffer.toString('latin1', head.targetStart, head.pathEnd);
  const query = buffer.toString('latin1', head.pathEnd, head.targetEnd);
  // A path that starts with two slashes would be taken for another host.
  return { kind: 'redirect', location: `${path.replace(/^\/{2,}/, '/')}/${query}` };
}
