/**
 * Decides what becomes of a request on a reverse listener.
 *
 * 1. Form and method: origin-form only; CONNECT and TRACE are refused (hostile rows C22, D5, D8).
 * 2. Host: one that the listener answers to, else 421. Remembered per connection by its bytes.
 * 3. Loop: our own id in Via is 508.
 * 4. Web pages of other origins are refused where a browser brings the caller's rights by itself.
 * 5. Path: no dot segments; then the route.
 * 6. NTLM and Negotiate credentials of the caller's own are refused: they would tie a shared socket.
 */
import { type ErrorCode, ProxyError } from '../errors.ts';
import { parseAuthority } from '../http/authority.ts';
import { hasDotSegments } from '../http/request-target.ts';
import { type AcceptedHost, acceptsHost, isForeignPage } from '../http/web-page.ts';
import type { Dispatcher, Downstream } from '../relay/downstream.ts';
import type { LocalAnswer, RoutePlan } from '../relay/plan.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { fieldValues } from '../wire/field-values.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { Match, Route, RouteGroup, RouteTable } from './route-table.ts';

export interface ReverseSettings {
  readonly routes: RouteTable;
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
  readonly #memos = new WeakMap<Downstream, HostDecision>();

  constructor(settings: ReverseSettings) {
    this.#settings = settings;
  }

  dispatch(
    head: RequestHead,
    buffer: Buffer,
    connection: Downstream,
  ): RoutePlan | LocalAnswer | ProxyError {
    if (this.#settings.keepsText) noteRequest(head, buffer, connection);
    if (head.targetForm !== 'origin' || isRefusedMethod(head.method)) return refuseForm(head);
    const host = this.#host(head, buffer, connection);
    connection.hostText = host.text;
    if (host.group === undefined) return refusal('misdirected', 'Host is none of this listener');
    if (head.first(REQUEST_FIELD.via) >= 0 && this.#isLoop(head, buffer)) {
      return refusal('loop-detected', 'the request carries the Via of this process');
    }
    return this.#route(host.group, head, buffer);
  }

  #route(
    group: RouteGroup,
    head: RequestHead,
    buffer: Buffer,
  ): RoutePlan | LocalAnswer | ProxyError {
    const match = this.#settings.routes.find(group, head, buffer);
    const foreign = this.#refusePage(head, buffer, match);
    if (foreign !== undefined) return foreign;
    const raw = match?.kind === 'route' && match.route.rawPath;
    if (!raw && hasDotSegments(buffer, head.targetStart, head.pathEnd)) {
      return refusal('request-malformed', 'dot segment or encoded slash in the path');
    }
    if (match === undefined) return refusal('no-route', 'no route has this host and path');
    if (match.kind === 'add-slash') return addSlash(head, buffer);
    if (carriesConnectionLogin(head, buffer)) {
      return refusal('caller-credentials-refused', 'the caller sent NTLM or Negotiate credentials');
    }
    return match.bare ? match.route.barePlan : match.route.plan;
  }

  // Equal bytes mean an equal decision: it depends on nothing else (R53).
  #host(head: RequestHead, buffer: Buffer, connection: Downstream): HostDecision {
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

  #isLoop(head: RequestHead, buffer: Buffer): boolean {
    const values = fieldValues(head, buffer, REQUEST_FIELD.via);
    return values.some((value) => value.includes(this.#settings.viaId));
  }

  #refusePage(head: RequestHead, buffer: Buffer, match: Match | undefined): ProxyError | undefined {
    if (!this.#settings.pageRule) return undefined;
    const hasOrigin = head.first(REQUEST_FIELD.origin) >= 0;
    if (!hasOrigin && head.first(REQUEST_FIELD.secFetchSite) < 0) return undefined;
    const route: Route | undefined = match?.kind === 'route' ? match.route : undefined;
    const repeated =
      head.count(REQUEST_FIELD.origin) > 1 || head.count(REQUEST_FIELD.secFetchSite) > 1;
    const facts = {
      method: head.method,
      scheme: this.#settings.scheme,
      host: head.valueText(buffer, REQUEST_FIELD.host) ?? '',
      origin: head.valueText(buffer, REQUEST_FIELD.origin),
      secFetchSite: head.valueText(buffer, REQUEST_FIELD.secFetchSite),
      secFetchMode: head.valueText(buffer, REQUEST_FIELD.secFetchMode),
      secFetchDest: head.valueText(buffer, REQUEST_FIELD.secFetchDest),
      upgrade: head.first(REQUEST_FIELD.upgrade) >= 0,
    };
    if (!repeated && !isForeignPage(facts, route?.allowOrigins ?? [])) return undefined;
    return refusal('web-page-refused', 'a web page of another origin made the request');
  }
}

function refusal(code: ErrorCode, message: string): ProxyError {
  return new ProxyError(code, message, { side: 'downstream', stage: 'identify' });
}

const isRefusedMethod = (method: string): boolean => method === 'TRACE' || method === 'CONNECT';

function refuseForm(head: RequestHead): ProxyError {
  if (isRefusedMethod(head.method))
    return refusal('method-refused', `${head.method} is not served`);
  return refusal('request-malformed', 'a reverse listener takes targets in origin-form only');
}

function noteRequest(head: RequestHead, buffer: Buffer, connection: Downstream): void {
  connection.loggedMethod = head.method;
  connection.loggedTarget = buffer.toString('latin1', head.targetStart, head.pathEnd);
}

function addSlash(head: RequestHead, buffer: Buffer): LocalAnswer {
  const path = buffer.toString('latin1', head.targetStart, head.pathEnd);
  const query = buffer.toString('latin1', head.pathEnd, head.targetEnd);
  // A path that starts with two slashes would be taken for another host.
  return { kind: 'redirect', location: `${path.replace(/^\/{2,}/, '/')}/${query}` };
}

/** Authorization with a scheme that authenticates connections. */
function carriesConnectionLogin(head: RequestHead, buffer: Buffer): boolean {
  const entry = head.first(REQUEST_FIELD.authorization) * KNOWN_STRIDE;
  if (entry < 0) return false;
  const start = head.known[entry + 3] ?? 0;
  const scheme = buffer.toString('latin1', start, Math.min(start + 10, head.known[entry + 4] ?? 0));
  return /^(?:ntlm|nego|kerberos)/i.test(scheme);
}
