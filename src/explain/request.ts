/**
 * Sends one request along its ways, with connections from the daemon's own pool and opener, and judges
 * the answer as the relay does: by the login that is pending, or by the hop that asks.
 */
import type { Runtime } from '../app/runtime.ts';
import { Deadline } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import { type ExchangeAnswer, LoginExchange, ORIGIN_HOP } from '../establish/login-exchange.ts';
import type { Lease } from '../pool/lease.ts';
import type { UpstreamPartition } from '../relay/plan.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { secure } from '../upstream/dial.ts';
import type { HopName, LoginVerdict } from '../upstream/login-state.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import { ConnectionPath } from '../upstream/path.ts';
import { SessionStore } from '../upstream/session-store.ts';
import { connectAuthority, type UpstreamTarget } from '../upstream/target.ts';
import type { LegRecorder } from './recorder.ts';
import type { Way } from './way.ts';

const METHOD = 'GET';

export class Request {
  readonly #runtime: Runtime;
  readonly #recorder: LegRecorder;

  constructor(runtime: Runtime, recorder: LegRecorder) {
    this.#runtime = runtime;
    this.#recorder = recorder;
  }

  /** The status of the answer. Throws what ended the last way. */
  async send(first: Way): Promise<number> {
    let way = first;
    for (;;) {
      try {
        return await this.#sendBy(way);
      } catch (error) {
        const next = error instanceof ProxyError ? way.after(error) : undefined;
        if (next === undefined) throw error;
        way = next;
      }
    }
  }

  /** Once more where a hop turns out to ask on this very request, and a login there is configured. */
  async #sendBy(way: Way): Promise<number> {
    const partition = way.partition();
    const path = this.#begin(way, partition);
    const first = await this.#attempt(way, partition, undefined);
    const { asks } = first;
    if (asks === undefined) return this.#statusOf(first);
    const target = asks === 'parent' ? path.parent?.target : path.origin;
    if (target !== undefined) target.learned.challenges = 'yes';
    return this.#statusOf(await this.#attempt(way, partition, asks));
  }

  #statusOf({ status, error }: Attempt): number {
    if (error !== undefined) throw error;
    return status;
  }

  #begin({ origin, inside }: Way, partition: UpstreamPartition): ConnectionPath {
    const { context, identity, parentIdentity, upstream } = partition;
    const path = context instanceof ConnectionPath ? context : new ConnectionPath(origin);
    const principalOf = (who: typeof parentIdentity): string | null =>
      who === undefined || who.kind === 'none' ? null : who.principal;
    const { parent } = path;
    this.#recorder.begin(path, {
      upstream,
      origin: `${(inside ?? origin).scheme}://${origin.authority}`,
      principal: principalOf(identity),
      parent:
        parent === undefined
          ? null
          : {
              upstream: parent.target.name,
              url: `${parent.target.scheme}://${parent.target.authority}`,
              form: parent.form,
              principal: principalOf(parentIdentity),
            },
    });
    return path;
  }

  async #attempt(
    way: Way,
    partition: UpstreamPartition,
    challenged: HopName | undefined,
  ): Promise<Attempt> {
    const lease = await this.#lease(partition, openingRequest(way, challenged));
    try {
      const connection =
        way.inside === undefined
          ? lease.connection
          : await this.#inside(lease.connection, way.inside);
      return await this.#exchange(way, partition, connection, challenged);
    } finally {
      lease.discard('error');
    }
  }

  #lease(
    partition: UpstreamPartition,
    request: OpeningRequest,
  ): Promise<Lease<UpstreamConnection>> {
    return new Promise((resolve, reject) => {
      this.#runtime.pool.acquireFresh(partition, {
        request,
        place: undefined,
        leased: resolve,
        refused: reject,
      });
    });
  }

  /** What the caller of a tunnel does. */
  async #inside(
    connection: UpstreamConnection,
    target: UpstreamTarget,
  ): Promise<UpstreamConnection> {
    if (target.tls === undefined) return connection;
    const { clock, deadlines, buffers } = this.#runtime;
    const deps = { clock, deadlines, buffers, sessions: new SessionStore(1) };
    const facts = { partition: 'explain', signal: new AbortController().signal };
    const secured = await secure(deps, connection, target, facts);
    this.#recorder.connected(target, secured);
    return secured;
  }

  async #exchange(
    { target, host, responseMs, origin }: Way,
    partition: UpstreamPartition,
    connection: UpstreamConnection,
    challenged: HopName | undefined,
  ): Promise<Attempt> {
    const request = { method: METHOD, target, host };
    const exchange = new LoginExchange(connection, request, ORIGIN_HOP, this.#recorder);
    const deadline = new Deadline(() => exchange.fail(late(origin, responseMs)));
    const { deadlines } = this.#runtime;
    deadlines.arm(deadline, responseMs);
    const carriesLogin = connection.isPending;
    try {
      const { answer, verdict } = await finish(exchange, request, connection);
      const { status } = answer;
      const mayLogIn = partition.identity.kind !== 'none' && !connection.origin.authenticated;
      const asks = answer.asks && verdict === undefined && mayLogIn && challenged !== 'origin';
      return { status, asks: asks ? 'origin' : undefined, error: errorOf(verdict, origin) };
    } catch (thrown) {
      const error = carriesLogin ? thrown : withoutLogin(thrown, origin);
      const mayAsk = error instanceof ProxyError && error.code === 'parent-auth';
      const { parentIdentity } = partition;
      const mayLogIn = parentIdentity !== undefined && parentIdentity.kind !== 'none';
      if (!mayAsk || !mayLogIn || challenged === 'parent') throw error;
      return { status: 407, asks: 'parent', error };
    } finally {
      deadlines.disarm(deadline);
    }
  }
}

interface Attempt {
  readonly status: number;
  /** Who asks for a login that was not made, and could be. */
  readonly asks: HopName | undefined;
  readonly error: ProxyError | undefined;
}

/** The request with what is pending; its answer ends the login. */
async function finish(
  exchange: LoginExchange,
  request: { readonly method: string; readonly target: string; readonly host: string },
  { origin }: UpstreamConnection,
): Promise<{ answer: ExchangeAnswer; verdict: LoginVerdict | undefined }> {
  const login = origin.pending ?? (await origin.authorize?.(new AbortController().signal));
  origin.pending = undefined;
  login?.sent();
  const line = { method: request.method, upstreamTarget: request.target };
  const credentials = login?.credentials ?? origin.credentialsFor(line);
  let answer: ExchangeAnswer;
  try {
    answer = await exchange.settle(request, credentials);
  } catch (error) {
    login?.abandon();
    throw error;
  }
  const { status, fields, persistentAuth } = answer;
  return { answer, verdict: await login?.judge({ status, challenges: fields, persistentAuth }) };
}

function openingRequest(
  { inside, origin, target, host }: Way,
  challenged: HopName | undefined,
): OpeningRequest {
  if (inside === undefined) {
    return { method: METHOD, safe: true, challenged, upstreamTarget: target, upstreamHost: host };
  }
  const authority = connectAuthority(origin);
  const to = { upstreamTarget: authority, upstreamHost: authority };
  return { method: 'CONNECT', safe: false, challenged, ...to };
}

function errorOf(
  verdict: LoginVerdict | undefined,
  { name }: UpstreamTarget,
): ProxyError | undefined {
  const facts = { side: 'upstream', stage: 'response', hop: 'origin' } as const;
  if (verdict === 'rejected')
    return new ProxyError('credential-rejected', `${name} refused the credential`, facts);
  if (verdict !== 'denied') return undefined;
  return new ProxyError('upstream-denied', `${name} denies this to the principal`, facts);
}

/** What the relay says of a request that ended like a login that breaks off. */
function withoutLogin(error: unknown, { name }: UpstreamTarget): unknown {
  if (!(error instanceof ProxyError) || error.code !== 'handshake-failed') return error;
  const isClosed = error.retry === 'safe';
  const code = isClosed ? 'upstream-closed' : 'response-malformed';
  const what = isClosed ? 'closed the connection without an answer' : 'broke the protocol';
  return new ProxyError(code, `${name} ${what}`, { side: 'upstream', stage: 'response' });
}

const late = ({ name }: UpstreamTarget, ms: number): ProxyError =>
  new ProxyError('response-timeout', `${name}: no answer within ${ms} ms`, {
    side: 'upstream',
    stage: 'response',
  });
