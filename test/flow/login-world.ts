/**
 * What the login flows start from: a scripted NTLM origin, the real daemon in front of it, and callers
 * that say in a field for whom they ask, so that the origin's oracles can tell who was served as whom.
 *
 * Routes: `/alice/` and `/bob/` as these principals, `/open/` to the same upstream as nobody, `/plain/`
 * through an upstream without `auth` at the same address. The origin asks for no login below `/open/`
 * and `/plain/`.
 */

import { createHash } from 'node:crypto';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import type { RawClient, RawResponse } from '../support/raw-client.ts';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.ts';
import { chunked, describeRequest } from '../support/upstream-answers.ts';
import { MARKER_FIELD, type SocketRecord } from '../support/upstream-journal.ts';
import type { ScriptedUpstreamOptions, UpstreamRequest } from '../support/upstream-options.ts';

export type Who = 'alice' | 'bob' | 'open' | 'plain';

/** Who the origin must take a request for. */
export const USERS = { alice: 'LAB\\alice', bob: 'LAB\\bob' } as const;

export interface WorldOptions {
  readonly upstream?: ScriptedUpstreamOptions & {
    /** Answers the leg of a login that is a message of its own; default 200. */
    readonly legHandler?: NonNullable<ScriptedUpstreamOptions['handler']>;
  };
  /** Inside of `auth: {…}`, beside the schemes. */
  readonly auth?: string;
  /** Inside of `pool: {…}`. */
  readonly pool?: string;
  /** Inside of `timeouts: {…}` of the upstream. */
  readonly timeouts?: string;
  /** Further keys of the upstream, e.g. `, tls: {…}`. */
  readonly more?: string;
  /** Inside of `guard: {…}` of both principals. */
  readonly guard?: string;
  /** Further keys of the listener. */
  readonly listener?: string;
  /** Further routes, one flow mapping each. */
  readonly routes?: readonly string[];
  /** What the daemon takes for the passwords; default: the right ones. */
  readonly secrets?: { readonly alice?: string; readonly bob?: string };
}

/** One execution by the origin's application. */
export interface Executed {
  readonly method: string;
  readonly target: string;
  readonly user: string | undefined;
  readonly bodyLength: number;
  readonly bodySha256: string;
  readonly socket: number;
}

/** Starts origin and daemon. */
export async function startWorld(options: WorldOptions = {}): Promise<World> {
  const executed: Executed[] = [];
  const given = options.upstream ?? {};
  const upstream = await startScriptedUpstream({
    open: ({ target }) => /^\/(?:open|plain)\//.test(target),
    ...given,
    handler: (request) => {
      // A leg of a login that is a message of its own carries no field of a caller.
      const isLeg = request.method === 'HEAD' && request.field(MARKER_FIELD) === undefined;
      if (isLeg && request.user !== undefined) return given.legHandler?.(request) ?? {};
      if (!isLeg) executed.push(execution(request));
      return (given.handler ?? describeRequest)(request);
    },
  });
  try {
    const secrets = {
      ALICE: options.secrets?.alice ?? 'alice-secret',
      BOB: options.secrets?.bob ?? 'bob-secret',
    };
    const daemon = await startDaemon({ config: worldConfig(upstream.url, options), secrets });
    return new World(upstream, daemon, executed);
  } catch (error) {
    await upstream.close();
    throw error;
  }
}

/** The running pair. Disposing it ends the daemon, then runs the oracles of the origin. */
export class World {
  readonly upstream: ScriptedUpstream;
  readonly daemon: TestDaemon;
  /** What the origin's application did, in order; legs of a login that were let in are left out. */
  get executed(): readonly Executed[] {
    return this.#ran;
  }
  readonly #ran: Executed[];
  #proving = 0;

  constructor(upstream: ScriptedUpstream, daemon: TestDaemon, executed: Executed[]) {
    this.upstream = upstream;
    this.daemon = daemon;
    this.#ran = executed;
  }

  /** Sockets at the origin, those of `prove` left out. */
  get sockets(): readonly SocketRecord[] {
    return this.upstream.journal.sockets.slice(this.#proving);
  }

  /**
   * Lets the credentials succeed once and closes the sockets of that, so that from here on the last
   * message of a login travels with a request.
   */
  async prove(...principals: ('alice' | 'bob')[]): Promise<void> {
    for (const who of principals) await this.ask(who, 'GET', { path: 'prove' });
    await this.dropAll();
    this.#proving = this.upstream.journal.sockets.length;
    this.#ran.length = 0;
  }

  /** The origin closes every socket; resolves once both sides know. */
  async dropAll(): Promise<void> {
    this.upstream.drop('fin');
    await this.upstream.saw(({ sockets }) => sockets.every(({ open }) => !open), 'all closed');
    await this.daemon.measured(
      (metrics) => metrics.sum('sidekerb_upstream_connections') === 0,
      'no socket',
    );
  }

  /** A keep-alive caller that asks for `who`. */
  async caller(who: Who): Promise<TestCaller> {
    return new TestCaller(who, await this.daemon.connect(), this.daemon.authority());
  }

  /** One request on a connection of its own. */
  async ask(who: Who, method = 'GET', request: CallerRequest = {}): Promise<RawResponse> {
    await using caller = await this.caller(who);
    return await caller.ask(method, request);
  }

  /** Executions of an unsafe method. */
  get writes(): Executed[] {
    return this.executed.filter(({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.upstream[Symbol.asyncDispose]();
  }
}

export interface CallerRequest {
  /** Below the route; default `x`. */
  readonly path?: string;
  readonly fields?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Default counted. */
  readonly framing?: 'counted' | 'chunked';
}

/** One connection of a caller to the daemon. */
export class TestCaller {
  readonly client: RawClient;
  readonly #who: Who;
  readonly #host: string;

  constructor(who: Who, client: RawClient, host: string) {
    this.#who = who;
    this.client = client;
    this.#host = host;
  }

  async ask(method = 'GET', request: CallerRequest = {}): Promise<RawResponse> {
    await this.send(method, request);
    return await this.client.response(method);
  }

  /** Sends the request without waiting for the answer. */
  async send(method = 'GET', request: CallerRequest = {}): Promise<void> {
    const { body, framing = 'counted' } = request;
    const fields = { ...this.head(), ...framed(body, framing), ...request.fields };
    const bytes = body === undefined || framing === 'counted' ? body : chunked(body, 10_000);
    await this.client.request(`${method} ${this.target(request.path)}`, fields, bytes ?? '');
  }

  target(path = 'x'): string {
    return `/${this.#who}/${path}`;
  }

  /** Host, and the marker that the origin's oracles read. */
  head(): Record<string, string> {
    const marker = this.#who === 'open' || this.#who === 'plain' ? 'anonymous' : this.#who;
    return { Host: this.#host, [MARKER_FIELD]: marker };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.client[Symbol.asyncDispose]();
  }
}

function framed(body: Uint8Array | undefined, framing: 'counted' | 'chunked') {
  if (body === undefined) return {};
  if (framing === 'chunked') return { 'Transfer-Encoding': 'chunked' };
  return { 'Content-Length': String(body.length) };
}

/** `length` bytes that differ from place to place, so that a shift or a repetition changes the hash. */
export function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at += 1) bytes[at] = (at * 31 + (at >> 8)) & 0xff;
  return bytes;
}

export const sha256 = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex');

function execution(request: UpstreamRequest): Executed {
  const { method, target, user, bodyLength, bodySha256, socketId } = request;
  return { method, target, user, bodyLength, bodySha256, socket: socketId };
}

function worldConfig(url: string, options: WorldOptions): string {
  const guard = options.guard === undefined ? '' : `, guard: { ${options.guard} }`;
  const more = options.more ?? '';
  const pool = options.pool === undefined ? '' : `, pool: { ${options.pool} }`;
  const timeouts = options.timeouts === undefined ? '' : `, timeouts: { ${options.timeouts} }`;
  const auth = `schemes: [ntlm]${options.auth === undefined ? '' : `, ${options.auth}`}`;
  const routes = [
    '{ path: /alice/, upstream: origin, principal: alice }',
    '{ path: /bob/, upstream: origin, principal: bob }',
    '{ path: /open/, upstream: origin }',
    '{ path: /plain/, upstream: plain }',
    ...(options.routes ?? []),
  ];
  return `version: 1
admin: { listen: '127.0.0.1:0' }
principals:
  alice: { username: 'LAB\\alice', password: { env: ALICE }${guard} }
  bob: { username: 'LAB\\bob', password: { env: BOB }${guard} }
upstreams:
  origin: { url: '${url}', auth: { ${auth} }${pool}${timeouts}${more} }
  plain: { url: '${url}'${pool}${timeouts}${more} }
listeners:
  - name: api
    listen: '127.0.0.1:0'
    mode: reverse
${options.listener === undefined ? '' : `    ${options.listener}\n`}    routes:
${routes.map((route) => `      - ${route}`).join('\n')}
`;
}
