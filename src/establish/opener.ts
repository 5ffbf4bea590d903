/**
 * Opens connections for the pool: dials, and where the partition has an identity, logs in.
 *
 * 1. The guard admits the login, or refuses it before anything is dialled.
 * 2. Dial, within its deadline.
 * 3. The legs without a body, on the request's own target, within the handshake's deadline. Their
 *    method is the request's own when it is safe or was challenged; else HEAD, so that an origin that
 *    asks for no login executes nothing (R33, I11).
 * 4. The last token stays with the connection as a `PendingLogin`: it goes with the real request,
 *    whose answer decides the login. Where the guard is not sure of the credential, it goes in a leg
 *    of the login's own instead, and the request follows on a connection that is logged in.
 *
 * An upstream that closes between two legs is tried once more, from the first leg (R35). A failed or
 * aborted login destroys its connection (R17).
 */
import type { GuardSettings, LoginGuard } from '../auth/guard.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import { ProxyError } from '../errors.ts';
import type { Identity, NoIdentity } from '../identity/identity.ts';
import type { ConnectionFactory, OpeningDone } from '../pool/factory.ts';
import type { Partition } from '../pool/partition.ts';
import type { BufferStore } from '../transport/buffer-store.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { dial } from '../upstream/dial.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import { DynamicTarget, type LoginSettings, type UpstreamTarget } from '../upstream/target.ts';
import type { Admitted } from './admission.ts';
import {
  abortedLogin,
  ConnectionLogin,
  type ConnectionLoginDeps,
  type LoginEnd,
  withoutRetry,
} from './connection-login.ts';
import { type LegRequest, ORIGIN_HOP } from './login-exchange.ts';

type UpstreamPartition = Partition<UpstreamConnection, OpeningRequest>;

export interface OpenerDeps extends ConnectionLoginDeps {
  readonly buffers: BufferStore;
  readonly guard: LoginGuard;
  /** By principal name. */
  readonly guardSettings: ReadonlyMap<string, GuardSettings>;
}

/** One opening as its steps see it. */
interface Opening {
  readonly target: UpstreamTarget;
  readonly partition: UpstreamPartition;
  readonly request: OpeningRequest;
  readonly signal: AbortSignal;
}

export class ConnectionOpener implements ConnectionFactory<UpstreamConnection, OpeningRequest> {
  readonly #deps: OpenerDeps;

  constructor(deps: OpenerDeps) {
    this.#deps = deps;
  }

  open(
    partition: UpstreamPartition,
    request: OpeningRequest,
    done: OpeningDone<UpstreamConnection>,
  ): { abort(): void } {
    const abort = new AbortController();
    const target = targetOf(partition);
    let login: Login | undefined;
    try {
      login = this.#login(partition, target);
    } catch (error) {
      // Nothing began, so nothing is counted as opened.
      done(asProxyError(error, target), undefined);
      return { abort: () => undefined };
    }
    void this.#finish({ target, partition, request, signal: abort.signal }, login, done);
    return { abort: () => abort.abort() };
  }

  /** Until a generation has succeeded on a hop, one login at a time runs there (config.md, Guard). */
  mayOpen(partition: UpstreamPartition): boolean {
    const { identity } = partition;
    const target = targetOf(partition);
    if (identity.kind === 'none' || target.login === undefined) return true;
    const settings = this.#guardSettings(identity);
    return this.#deps.guard.hasRoom(identity.account, target.name, identity.generation, settings);
  }

  async #finish(
    opening: Opening,
    login: Login | undefined,
    done: OpeningDone<UpstreamConnection>,
  ): Promise<void> {
    let connection: UpstreamConnection;
    try {
      connection = await this.#run(opening, login);
    } catch (error) {
      done(asProxyError(error, opening.target), undefined);
      return;
    }
    done(undefined, connection);
  }

  async #run(opening: Opening, login: Login | undefined): Promise<UpstreamConnection> {
    if (login === undefined) return this.#dial(opening);
    try {
      return await this.#logIn(opening, login);
    } catch (error) {
      login.admitted.ticket.abandoned();
      throw error;
    }
  }

  /** The login that this partition needs, admitted by the guard; undefined when it needs none. */
  #login({ identity }: UpstreamPartition, target: UpstreamTarget): Login | undefined {
    const settings = target.login;
    if (identity.kind === 'none' || settings === undefined) return undefined;
    return { identity, settings, admitted: this.#admit(identity, target) };
  }

  #admit(identity: LoginIdentity, target: UpstreamTarget): Admitted {
    const { guard } = this.#deps;
    const settings = this.#guardSettings(identity);
    const admission = guard.admit(identity.account, target.name, identity.generation, settings);
    if (admission.kind === 'open' || admission.kind === 'wait') {
      const retryAfterMs = admission.kind === 'open' ? admission.retryAfterMs : 1000;
      const text = `${target.name}: the credential of ${identity.principal} is not used for now`;
      const facts = { side: 'upstream', stage: 'handshake', retry: 'safe', retryAfterMs } as const;
      throw new ProxyError('guard-open', text, facts);
    }
    const probeTarget = admission.kind === 'probe' ? admission.target : undefined;
    return { kind: admission.kind, ticket: admission.ticket, probeTarget };
  }

  /** For the token of one further request. A probe is no user's request: a new connection makes it. */
  #admitToken(identity: LoginIdentity, target: UpstreamTarget): LoginTicket {
    const { kind, ticket } = this.#admit(identity, target);
    if (kind !== 'probe') return ticket;
    ticket.abandoned();
    const text = `${target.name}: the credential of ${identity.principal} is to be probed first`;
    const facts = { side: 'upstream', stage: 'handshake', retryAfterMs: 1000 } as const;
    throw new ProxyError('guard-open', text, facts);
  }

  #guardSettings(identity: LoginIdentity): GuardSettings {
    const settings = this.#deps.guardSettings.get(identity.principal);
    if (settings === undefined) throw new Error(`no guard settings for ${identity.principal}`);
    return settings;
  }

  async #dial({ target, partition, signal }: Opening): Promise<UpstreamConnection> {
    const connection = await dial(this.#deps, target, partition.key, signal);
    if (!signal.aborted) return connection;
    connection.destroy();
    throw abortedLogin(target);
  }

  async #logIn(opening: Opening, login: Login): Promise<UpstreamConnection> {
    // Known to ask for no login: the request goes out plain, and its answer may still change that.
    if (opening.target.learned.challenges === 'no') {
      login.admitted.ticket.abandoned();
      return this.#dial(opening);
    }
    try {
      return await this.#attempt(opening, login);
    } catch (error) {
      const again =
        error instanceof ProxyError && error.retry === 'safe' && !opening.signal.aborted;
      if (!again || error.stage !== 'handshake') throw error;
      return await this.#attempt(opening, login);
    }
  }

  /** Dials and runs the legs; destroys the connection on every failure. */
  async #attempt(opening: Opening, login: Login): Promise<UpstreamConnection> {
    const { target, partition, request, signal } = opening;
    const { settings, identity, admitted } = login;
    const connection = await this.#dial(opening);
    const rides = ridesWithRequest(opening, settings, admitted);
    const leg = rides ? legRequest(opening, settings) : settlingLeg(opening, admitted);
    try {
      const run = new ConnectionLogin(this.#deps, {
        target,
        identity,
        connection,
        leg,
        rides,
        signal,
        login: settings,
        hop: ORIGIN_HOP,
        requestTarget: request.upstreamTarget,
        probes: admitted.probeTarget !== undefined,
        ticket: admitted.ticket,
        admitAgain: () => this.#admitToken(identity, target),
        partition: partition.key,
      });
      const end = await run.run();
      if (end.kind === 'unchallenged') {
        admitted.ticket.abandoned();
        return await this.#unchallenged(opening, end, leg, connection);
      }
      if (end.reusable) return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
    // The credential is good, but this connection ended with the verdict: log in on another one.
    connection.destroy();
    const again = this.#admit(identity, target);
    if (again.kind === 'go') return this.#attemptAgain(opening, { ...login, admitted: again });
    again.ticket.abandoned();
    const text = `${target.name} closes its connections after each login`;
    throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
  }

  /** The login that follows one whose connection ended; it has a ticket of its own, and no other try. */
  async #attemptAgain(opening: Opening, login: Login): Promise<UpstreamConnection> {
    try {
      return await this.#attempt(opening, login);
    } catch (error) {
      login.admitted.ticket.abandoned();
      throw withoutRetry(error);
    }
  }

  /** The upstream asked for no login: the request goes out plain. */
  async #unchallenged(
    opening: Opening,
    end: LoginEnd,
    leg: LegRequest,
    connection: UpstreamConnection,
  ): Promise<UpstreamConnection> {
    const { target, request } = opening;
    this.#deps.meters.unchallenged(target.name);
    // The leg was an empty one of the request's own: what it did, the request must not do again.
    if (leg.method !== 'HEAD' && !request.safe) {
      const text = `${target.name} took a login leg without asking for a login`;
      throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
    }
    if (target.learned.challenges === 'unknown') target.learned.challenges = 'no';
    if (end.reusable) return connection;
    connection.destroy();
    return this.#dial(opening);
  }
}

/** A partition carries what it is opened to: the configuration may have changed since it was made. */
function targetOf({ context, upstream }: UpstreamPartition): UpstreamTarget {
  if (context instanceof DynamicTarget) return context.target;
  throw new Error(`a partition of ${upstream} has no target`);
}

/** Somebody, by whatever mechanism. */
type LoginIdentity = Exclude<Identity, NoIdentity>;

interface Login {
  readonly identity: LoginIdentity;
  readonly settings: LoginSettings;
  readonly admitted: Admitted;
}

/**
 * Whether the last token goes with the request. It does where the credential is not in doubt, and
 * where only the request's own method is known to be challenged: another one would prove nothing.
 */
function ridesWithRequest({ request }: Opening, login: LoginSettings, admitted: Admitted): boolean {
  return admitted.kind === 'go' || request.challenged || login.probe === 'same';
}

/** All legs of a login that is settled before the request: the last is judged, so none may differ. */
function settlingLeg({ request }: Opening, { probeTarget }: Admitted): LegRequest {
  const target = probeTarget ?? request.upstreamTarget;
  return { method: 'HEAD', target, host: request.upstreamHost };
}

/** The method of legs that carry no body before a request that carries the last token (config.md, `auth.probe`). */
function legRequest({ request }: Opening, login: LoginSettings): LegRequest {
  // An own method with `Content-Length: 0` is executed by an origin that asks for no login on this
  // path, whatever it does on others. So it is used only for a request that was challenged itself,
  // which also logs in where HEAD goes unchallenged.
  const own = request.safe || request.challenged || login.probe === 'same';
  const method = own ? request.method : 'HEAD';
  return { method, target: request.upstreamTarget, host: request.upstreamHost };
}

function asProxyError(error: unknown, target: UpstreamTarget): ProxyError {
  if (error instanceof ProxyError) return error;
  const facts = { side: 'internal', stage: 'handshake', cause: error } as const;
  return new ProxyError('internal', `${target.name}: the connection could not be opened`, facts);
}
