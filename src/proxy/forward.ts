/**
 * Decides what becomes of a request on a forward listener.
 *
 * 1. Form and method: absolute-form with `http`, or CONNECT; TRACE is refused. Anything else is no
 *    request to a proxy (config.md, "Web pages must not use us"; hostile rows C22, D5, D8).
 * 2. Loop: our own id in Via is 508.
 * 3. Target: the one in the request line counts, whatever Host says (D4). Looked up by its bytes: on
 *    the connection, where the next request mostly names the same one, then in the cache. Each
 *    request is judged by its own target (R53).
 * 4. Caller: on listeners that ask who calls, or map callers to principals.
 * 5. Web pages of other origins are refused. A caller's own NTLM or Negotiate login gets a connection
 *    of its own, except where the daemon logs in.
 */
import { ProxyError } from '../errors.ts';
import { parseAuthority } from '../http/authority.ts';
import { type ForwardTarget, parseConnectTarget, parseHttpTarget } from '../http/forward-target.ts';
import { type AcceptedHost, acceptsHost } from '../http/web-page.ts';
import type { Requester } from '../relay/caller.ts';
import type { Dispatcher } from '../relay/downstream.ts';
import type { RoutePlan, Undecided } from '../relay/plan.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { ForwardPlans, HttpPlans } from './forward-plans.ts';
import { CallerHopIdentities, type HopIdentities } from './hop-identities.ts';
import type { KnownCaller, ListenerCallers } from './listener-callers.ts';
import {
  carriesConnectionLogin,
  isForeignPageRequest,
  isLoop,
  keepsLogins,
  noteRequest,
  refusal,
  refuseLogin,
} from './request-checks.ts';
import { PlanCache } from './plan-cache.ts';
import { bestWay } from './ways.ts';

export interface ForwardSettings {
  readonly plans: ForwardPlans;
  /** undefined: anybody may call, and upstreams alone say as whom. */
  readonly callers: ListenerCallers | undefined;
  /** As the upstreams say. */
  readonly configured: HopIdentities;
  /** Hosts that targets may name; undefined: any that the rules let through. */
  readonly hosts: readonly AcceptedHost[] | undefined;
  /** Callers are known by what a browser sends by itself, or not at all. */
  readonly pageRule: boolean;
  /** Id of this process in Via. */
  readonly viaId: string;
  /** Requests are logged, so their method and target are kept as text. */
  readonly keepsText: boolean;
}

/** Targets whose plans are kept, of each form; one counts once for each caller who has his own. */
const KEPT_PLANS = 2048;

/** `http://`, the shortest that can stand before an authority. */
const SCHEME_LENGTH = 7;
const SLASH = 0x2f;
const COLON = 0x3a;

interface Memo {
  readonly bytes: Buffer;
  readonly who: HopIdentities;
  readonly plans: HttpPlans;
}

export class ForwardDispatcher implements Dispatcher {
  readonly #settings: ForwardSettings;
  readonly #http = new PlanCache<HttpPlans>(KEPT_PLANS);
  readonly #tunnels = new PlanCache<RoutePlan>(KEPT_PLANS);
  readonly #memos = new WeakMap<Requester, Memo>();
  readonly #identities = new WeakMap<KnownCaller, HopIdentities>();

  constructor(settings: ForwardSettings) {
    this.#settings = settings;
  }

  dispatch(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
  ): RoutePlan | ProxyError | Undecided {
    if (this.#settings.keepsText) noteRequest(head, buffer, connection);
    if (head.method === 'TRACE') return refusal('method-refused', 'TRACE is not served');
    if (head.targetForm !== 'absolute' && head.targetForm !== 'authority') {
      return refusal('target-malformed', `a target in ${head.targetForm}-form names no host`);
    }
    if (isLoop(head, buffer, this.#settings.viaId)) {
      return refusal('loop-detected', 'the request carries the Via of this process');
    }
    const who = this.#who(head, buffer, connection);
    if (who instanceof ProxyError || 'settled' in who) return who;
    const plan =
      head.targetForm === 'authority'
        ? this.#tunnel(head, buffer, who)
        : this.#request(head, buffer, connection, who);
    return plan instanceof ProxyError ? plan : bestWay(plan);
  }

  #who(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
  ): HopIdentities | ProxyError | Undecided {
    const { callers, configured } = this.#settings;
    if (callers === undefined) return configured;
    const known = callers.identify(head, buffer, connection);
    if (known instanceof ProxyError || known.kind === 'undecided') return known;
    const found = this.#identities.get(known);
    if (found !== undefined) return found;
    const made = new CallerHopIdentities(callers, known);
    this.#identities.set(known, made);
    return made;
  }

  #tunnel(head: RequestHead, buffer: Buffer, who: HopIdentities): RoutePlan | ProxyError {
    const text = buffer.toString('latin1', head.targetStart, head.targetEnd);
    const known = this.#tunnels.find(text, who);
    if (known !== undefined) return known;
    const target = parseConnectTarget(text);
    if (target === undefined) return refusal('target-malformed', 'no host and port to connect to');
    const refused = this.#refuseHost(target);
    if (refused !== undefined) return refused;
    const plan = this.#settings.plans.tunnel(target, who);
    if (!(plan instanceof ProxyError)) this.#tunnels.keep(text, who, plan);
    return plan;
  }

  #request(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
    who: HopIdentities,
  ): RoutePlan | ProxyError {
    const plans = this.#httpPlans(head, buffer, connection, who);
    if (plans instanceof ProxyError) return plans;
    const page = { scheme: 'http', host: plans.target.authority } as const;
    if (this.#settings.pageRule && isForeignPageRequest(head, buffer, page, [])) {
      return refusal('web-page-refused', 'a web page of another origin made the request');
    }
    const pins = carriesConnectionLogin(head, buffer);
    const forms = pins ? plans.pinned : plans.own;
    if (forms === undefined || (pins && !keepsLogins(head, connection))) return refuseLogin();
    const pathStart = head.targetStart + forms.plan.stripBytes;
    if (buffer[pathStart] === SLASH) return forms.plan;
    return head.method === 'OPTIONS' && pathStart === head.targetEnd ? forms.server : forms.bare;
  }

  #httpPlans(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
    who: HopIdentities,
  ): HttpPlans | ProxyError {
    const start = head.targetStart;
    const end = authorityEnd(head, buffer);
    const memo = this.#memos.get(connection);
    if (memo !== undefined && memo.who === who && memo.bytes.length === end - start) {
      if (buffer.compare(memo.bytes, 0, memo.bytes.length, start, end) === 0) return memo.plans;
    }
    const text = buffer.toString('latin1', start, end);
    const plans = this.#http.find(text, who) ?? this.#makePlans(text, who);
    if (plans instanceof ProxyError) return plans;
    this.#memos.set(connection, { bytes: latin1Copy(text), who, plans });
    return plans;
  }

  #makePlans(text: string, who: HopIdentities): HttpPlans | ProxyError {
    const target = parseHttpTarget(text);
    if (target === undefined) {
      return refusal('target-malformed', 'the target is no http URI without userinfo');
    }
    const refused = this.#refuseHost(target);
    if (refused !== undefined) return refused;
    const plans = this.#settings.plans.http(target, text.length, who);
    if (!(plans instanceof ProxyError)) this.#http.keep(text, who, plans);
    return plans;
  }

  #refuseHost(target: ForwardTarget): ProxyError | undefined {
    const { hosts } = this.#settings;
    const authority = parseAuthority(target.authority);
    if (hosts === undefined || authority === undefined) return undefined;
    if (acceptsHost(hosts, authority, target.port)) return undefined;
    return refusal('misdirected', 'the target is none of the hosts of this listener');
  }
}

const latin1Copy = (text: string): Buffer => Buffer.from(text, 'latin1');

/** The parser has seen the scheme and a sound authority. */
function authorityEnd(head: RequestHead, buffer: Buffer): number {
  let at = head.targetStart + SCHEME_LENGTH;
  // `https://` is one byte longer.
  if (buffer[head.targetStart + 4] !== COLON) at += 1;
  while (at < head.pathEnd && buffer[at] !== SLASH) at += 1;
  return at;
}
