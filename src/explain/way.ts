/**
 * The way that a request takes, as the daemon decides it: by a listener, which is asked with the head of
 * such a request, or by the upstream whose origin the URL names. Nothing is decided anew here.
 */
import { createCallers } from '../app/callers.ts';
import { createDispatcher } from '../app/dispatchers.ts';
import { viaEntries } from '../app/forward.ts';
import type { Generation } from '../app/generation.ts';
import type { Runtime } from '../app/runtime.ts';
import type { ListenerConfig, UpstreamConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { abilitiesOf } from '../establish/mechanisms.ts';
import { type Identity, NO_IDENTITY } from '../identity/identity.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import { directLimits } from '../proxy/forward-plans.ts';
import { ConfiguredIdentities } from '../proxy/hop-identities.ts';
import { requestFieldsOf } from '../proxy/plans.ts';
import {
  type Parent,
  parentsOf,
  targetPrefix,
  type WayFacts,
  wayPartition,
} from '../proxy/ways.ts';
import { FAULT_CODES } from '../relay/request-facts.ts';
import type { RoutePlan, UpstreamPartition } from '../relay/plan.ts';
import { nothingLearned, type UpstreamTarget } from '../upstream/target.ts';
import { createTlsProfile } from '../upstream/tls-profile.ts';
import type { RequestFields } from '../wire/request-fields.ts';
import { RequestHead } from '../wire/request-head.ts';

/** One way, and the one after it. */
export interface Way {
  readonly partition: () => UpstreamPartition;
  /** Where requests end. */
  readonly origin: UpstreamTarget;
  /** As it is sent. */
  readonly target: string;
  readonly host: string;
  /** Until the head of the answer, in milliseconds. */
  readonly responseMs: number;
  /** What is spoken to inside the tunnel that the way ends with; undefined: it ends with a request. */
  readonly inside: UpstreamTarget | undefined;
  /** The way to take when `error` ended this one. */
  readonly after: (error: ProxyError) => Way | undefined;
}

export interface Found {
  readonly notes: readonly string[];
  readonly way: Way | { readonly redirect: string } | ProxyError;
}

/** What cannot be asked: a fault of the command line. */
export class QuestionError extends Error {
  override readonly name = 'QuestionError';
}

const HEAD_LIMITS = { maxBytes: 64 * 1024, maxFields: 200 };
const CONNECT_MS = 5000;
const RESPONSE_MS = 60_000;

/** As a request of the listener `name`. Throws `QuestionError`. */
export function wayOfListener(
  generation: Generation,
  runtime: Runtime,
  { url, name }: { readonly url: URL; readonly name: string },
): Found {
  const listener = generation.config.listeners.find((one) => one.name === name);
  if (listener === undefined) throw new QuestionError(`--as: there is no listener ${name}`);
  const isTunnel = listener.mode === 'forward' && url.protocol === 'https:';
  const fields = requestFieldsOf(listener, generation.config.listeners);
  const { written, head, buffer } = requestHead(listener, url, { isTunnel, fields });
  const notes = [`as a request of the listener ${name}`];
  if (isTunnel)
    notes.push('https through a proxy is a tunnel: the caller itself speaks to the origin');
  if (head === undefined) return { notes, way: malformed() };
  const callers = createCallers(generation, runtime, listener, fields);
  const dispatcher = createDispatcher(generation, runtime, listener, { fields, callers });
  const logged = { hostText: '', loggedMethod: '', loggedTarget: '' };
  const requester = { ...logged, remoteAddress: '', multiplexed: false, certificate: undefined };
  const decided = dispatcher.dispatch(head, buffer, requester);
  if (decided instanceof ProxyError) return { notes, way: decided };
  if (decided.kind === 'undecided') throw new QuestionError('--as: callers are checked elsewhere');
  if (decided.kind === 'redirect') return { notes, way: { redirect: decided.location } };
  return { notes, way: wayOfPlan(decided, { written, url }) };
}

interface HeadOfRequest {
  /** The request target. */
  readonly written: string;
  readonly head: RequestHead | undefined;
  readonly buffer: Buffer;
}

function requestHead(
  listener: ListenerConfig,
  url: URL,
  { isTunnel, fields }: { readonly isTunnel: boolean; readonly fields: RequestFields },
): HeadOfRequest {
  const path = `${url.pathname}${url.search}`;
  const absolute = `http://${url.host}${path}`;
  const written = isTunnel ? authorityWithPort(url) : path;
  const target = listener.mode === 'forward' && !isTunnel ? absolute : written;
  const method = isTunnel ? 'CONNECT' : 'GET';
  const text = `${method} ${target} HTTP/1.1\r\nHost: ${isTunnel ? written : url.host}\r\n\r\n`;
  const buffer = Buffer.from(text, 'latin1');
  const head = new RequestHead(fields);
  const end = head.parse(buffer, 0, buffer.length, HEAD_LIMITS);
  return { written: target, head: end > 0 ? head : undefined, buffer };
}

const authorityWithPort = (url: URL): string =>
  `${url.hostname}:${url.port === '' ? DEFAULT_PORTS[url.protocol] : url.port}`;

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

const malformed = (): ProxyError =>
  new ProxyError(FAULT_CODES.malformed, 'the request cannot be written', {
    side: 'downstream',
    stage: 'identify',
  });

function wayOfPlan(plan: RoutePlan, asked: { readonly written: string; readonly url: URL }): Way {
  const { written, url } = asked;
  const path = `${url.pathname}${url.search}`;
  const after = (error: ProxyError): Way | undefined => {
    const next = plan.ways?.after(plan, error);
    return next && wayOfPlan(next, asked);
  };
  const { target: origin, responseMs, hostLine } = plan;
  const common = { partition: () => plan.partition(), origin, responseMs, after };
  if (plan.tunnel === true) {
    return { ...common, target: path, host: url.host, inside: plainTarget(url) };
  }
  const host = hostLine?.toString('latin1').replace(/^Host: |\r\n$/g, '') ?? url.host;
  const target = `${plan.prefix.toString('latin1')}${written.slice(plan.stripBytes)}`;
  return { ...common, target, host, inside: undefined };
}

/**
 * To the upstream whose origin `url` names, with its own ways; `principal` instead of its own. Throws
 * `QuestionError`.
 */
export function wayOfUrl(
  generation: Generation,
  runtime: Runtime,
  { url, principal }: { readonly url: URL; readonly principal: string | undefined },
): Found {
  const identity = principal === undefined ? undefined : identityOf(generation, principal);
  const upstream = upstreamOf(generation, url);
  if (upstream === undefined) {
    if (identity !== undefined)
      throw new QuestionError('--principal: the URL is at no upstream of the configuration');
    return direct(generation, runtime, url);
  }
  const { name, auth, via } = upstream;
  if (identity !== undefined && auth === undefined)
    throw new QuestionError(`--principal: nobody logs in at ${name}, as it has no auth`);
  if (identity !== undefined && !canServe(identity, auth?.schemes ?? []))
    throw new QuestionError(`--principal: it can serve none of the schemes of ${name}`);
  const configured = new ConfiguredIdentities(generation.identities);
  const own = identity ?? identityOf(generation, auth?.principal);
  const parents = parentsOf(viaEntries(generation, via), configured);
  const known = generation.targets.get(name);
  const notes = [`to the upstream ${name}, whose origin this is`];
  if (parents instanceof ProxyError || known === undefined) {
    return { notes, way: parents instanceof ProxyError ? parents : malformed() };
  }
  // The URL says what stands before the path.
  const target = { ...known, basePath: '' };
  return { notes, way: firstWay(runtime, { target, identity: own, parents, upstream, url }) };
}

function identityOf({ identities, config }: Generation, name: string | undefined): Identity {
  if (name === undefined) return NO_IDENTITY;
  const identity = identities.get(name);
  if (identity !== undefined) return identity;
  const why =
    config.principals[name] === undefined
      ? `there is no principal ${name}`
      : `${name} is each caller himself (from: client), and there is none here`;
  throw new QuestionError(`--principal: ${why}`);
}

/** As the configuration is judged: Negotiate takes NTLM inside. */
function canServe(identity: Identity, schemes: readonly string[]): boolean {
  const { ntlm, kerberos } = abilitiesOf(identity);
  return schemes.some((scheme) => {
    if (scheme === 'negotiate') return ntlm !== undefined || kerberos !== undefined;
    return scheme === 'basic' ? ntlm?.password !== undefined : ntlm !== undefined;
  });
}

/** Of several at one origin the one with the longest path before this one. */
function upstreamOf({ config }: Generation, url: URL): UpstreamConfig | undefined {
  const port = Number(url.port === '' ? DEFAULT_PORTS[url.protocol] : url.port);
  const host = url.hostname.replace(/^\[|\]$|\.$/g, '');
  const covers = ({ target }: UpstreamConfig): boolean =>
    url.pathname === target.basePath || url.pathname.startsWith(`${target.basePath}/`);
  const [best] = Object.values(config.upstreams)
    .filter(({ kind }) => kind === 'origin')
    .filter(({ target }) => `${target.scheme}:` === url.protocol)
    .filter(({ target }) => target.host === host && target.port === port)
    .toSorted((a, b) => {
      const better = Number(covers(b)) - Number(covers(a));
      return better === 0 ? b.target.basePath.length - a.target.basePath.length : better;
    });
  return best;
}

function direct(generation: Generation, runtime: Runtime, url: URL): Found {
  const { upstreamConnections } = generation.config.limits;
  runtime.pool.addUpstream(DIRECT_UPSTREAM, directLimits(upstreamConnections));
  const target = plainTarget(url);
  const facts = { target, identity: NO_IDENTITY, parents: [undefined], upstream: undefined, url };
  return {
    notes: ['no upstream of the configuration has this origin: a plain request, without a login'],
    way: firstWay(runtime, facts),
  };
}

interface UrlFacts {
  readonly target: UpstreamTarget;
  readonly identity: Identity;
  readonly parents: readonly (Parent | undefined)[];
  /** undefined: none of the configuration's. */
  readonly upstream: UpstreamConfig | undefined;
  readonly url: URL;
}

function firstWay(runtime: Runtime, facts: UrlFacts, at = 0): Way {
  const { target, identity, parents, upstream, url } = facts;
  const way: WayFacts = {
    target,
    identity,
    parent: parents[at],
    carries: 'requests',
    upstream: upstream?.name ?? DIRECT_UPSTREAM,
    scope: 'explain',
  };
  const hasNext = at + 1 < parents.length;
  return {
    partition: () => runtime.partitions.partition(wayPartition(way)),
    origin: target,
    target: `${targetPrefix(way)}${url.pathname}${url.search}`,
    host: target.authority,
    responseMs: upstream?.timeouts.response ?? RESPONSE_MS,
    inside: undefined,
    after: (error) =>
      hasNext && error.stage === 'connect' && error.retry === 'safe'
        ? firstWay(runtime, facts, at + 1)
        : undefined,
  };
}

/** An origin that the configuration says nothing of. */
function plainTarget(url: URL): UpstreamTarget {
  const scheme = url.protocol === 'https:' ? 'https' : 'http';
  const tls = { ca: undefined, extraCa: [], servername: undefined, identity: undefined } as const;
  return {
    name: DIRECT_UPSTREAM,
    scheme,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port === '' ? DEFAULT_PORTS[url.protocol] : url.port),
    authority: url.host,
    basePath: '',
    tls:
      scheme === 'http'
        ? undefined
        : createTlsProfile({ ...tls, minVersion: 'TLSv1.2', dangerousSkipVerify: false }),
    connectMs: CONNECT_MS,
    answerMs: RESPONSE_MS,
    login: undefined,
    learned: nothingLearned(),
  };
}
