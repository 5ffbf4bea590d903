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
import { createNtlmContext } from '../auth/ntlm/context.ts';
import { type LegAnswer, type LoginStart, startLogin } from '../auth/handshake.ts';
import type { GuardSettings, LoginGuard } from '../auth/guard.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import type { Clock } from '../clock.ts';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import type { NtlmIdentity } from '../identity/identity.ts';
import type { ConnectionFactory, OpeningDone } from '../pool/factory.ts';
import type { Partition } from '../pool/partition.ts';
import type { BufferStore } from '../transport/buffer-store.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { dial } from '../upstream/dial.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { SessionStore } from '../upstream/session-store.ts';
import type { LoginSettings, UpstreamTarget } from '../upstream/target.ts';
import type { LoginMeters } from './login-meters.ts';
import { type LegRequest, LoginExchange } from './login-exchange.ts';
import { FinalLeg, ProbedLogin } from './pending-login.ts';

type UpstreamPartition = Partition<UpstreamConnection, OpeningRequest>;

export interface OpenerDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly sessions: SessionStore;
  readonly buffers: BufferStore;
  readonly guard: LoginGuard;
  readonly meters: LoginMeters;
  /** By upstream name. */
  readonly targets: ReadonlyMap<string, UpstreamTarget>;
  /** By principal name. */
  readonly guardSettings: ReadonlyMap<string, GuardSettings>;
  readonly random: (bytes: number) => Uint8Array;
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
    const target = this.#target(partition);
    let login: Login | undefined;
    try {
      login = this.#login(partition, target);
    } catch (error) {
      // Nothing began, so nothing is counted as opened.
      done(asProxyError(error, target), undefined);
      return { abort: () => undefined };
    }
    // The request object is its owner's and changes with the next request: read it now.
    const { method, safe, challenged, upstreamTarget, upstreamHost } = request;
    const frozen = { method, safe, challenged, upstreamTarget, upstreamHost };
    void this.#finish({ target, partition, request: frozen, signal: abort.signal }, login, done);
    return { abort: () => abort.abort() };
  }

  /** Until a generation has succeeded on a hop, one login at a time runs there (config.md, Guard). */
  mayOpen(partition: UpstreamPartition): boolean {
    const { identity } = partition;
    const target = this.#deps.targets.get(partition.upstream);
    if (identity.kind !== 'ntlm' || target?.login === undefined) return true;
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
    const { identity, settings, admitted } = login;
    try {
      return await this.#logIn(opening, identity, settings, admitted);
    } catch (error) {
      admitted.ticket.abandoned();
      throw error;
    }
  }

  /** The login that this partition needs, admitted by the guard; undefined when it needs none. */
  #login({ identity }: UpstreamPartition, target: UpstreamTarget): Login | undefined {
    const settings = target.login;
    if (identity.kind === 'none' || settings === undefined) return undefined;
    if (identity.kind !== 'ntlm') throw new Error(`no login with ${identity.kind} yet`);
    return { identity, settings, admitted: this.#admit(identity, target) };
  }

  #admit(identity: NtlmIdentity, target: UpstreamTarget): Admitted {
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

  #guardSettings(identity: NtlmIdentity): GuardSettings {
    const settings = this.#deps.guardSettings.get(identity.principal);
    if (settings === undefined) throw new Error(`no guard settings for ${identity.principal}`);
    return settings;
  }

  #target(partition: UpstreamPartition): UpstreamTarget {
    const target = this.#deps.targets.get(partition.upstream);
    if (target === undefined) throw new Error(`no upstream ${partition.upstream}`);
    return target;
  }

  async #dial({ target, partition, signal }: Opening): Promise<UpstreamConnection> {
    const connection = await dial(this.#deps, target, partition.key, signal);
    if (!signal.aborted) return connection;
    connection.destroy();
    throw aborted(target);
  }

  async #logIn(
    opening: Opening,
    identity: NtlmIdentity,
    login: LoginSettings,
    admitted: Admitted,
  ): Promise<UpstreamConnection> {
    // Known to ask for no login: the request goes out plain, and its answer may still change that.
    if (opening.target.learned.challenges === 'no') {
      admitted.ticket.abandoned();
      return this.#dial(opening);
    }
    try {
      return await this.#attempt(opening, identity, login, admitted);
    } catch (error) {
      const again =
        error instanceof ProxyError && error.retry === 'safe' && !opening.signal.aborted;
      if (!again || error.stage !== 'handshake') throw error;
      return await this.#attempt(opening, identity, login, admitted);
    }
  }

  /** Dials and runs the legs; destroys the connection on every failure. */
  async #attempt(
    opening: Opening,
    identity: NtlmIdentity,
    login: LoginSettings,
    admitted: Admitted,
  ): Promise<UpstreamConnection> {
    const connection = await this.#dial(opening);
    const startedAt = this.#deps.clock.now();
    const rides = ridesWithRequest(opening, login, admitted);
    const leg = rides ? legRequest(opening, login) : settlingLeg(opening, admitted);
    const exchange = new LoginExchange(connection, leg);
    const guarded = this.#guardLegs(opening, login, exchange);
    try {
      const bindings = bindingsFor(connection, login, opening.target);
      const context = createNtlmContext({
        identity,
        spn: login.spn,
        bindings,
        wall: () => this.#deps.clock.wall(),
        random: this.#deps.random,
      });
      this.#deps.meters.tied(opening.target.name);
      const start = await startLogin(exchange, context);
      if (opening.signal.aborted) throw aborted(opening.target);
      const parts = { opening, identity, login, connection, admitted };
      return await this.#conclude({ ...parts, startedAt, exchange, leg, rides }, start);
    } catch (error) {
      connection.destroy();
      this.#deps.meters.failed(opening.target.name, error);
      throw error;
    } finally {
      guarded.end();
    }
  }

  /** The deadline of the legs together, and the end of the waiting request, both end a leg in work. */
  #guardLegs(
    { target, signal }: Opening,
    login: LoginSettings,
    exchange: LoginExchange,
  ): { end(): void } {
    const deadline = new Deadline(() => {
      const text = `${target.name}: the login took longer than ${login.handshakeMs} ms`;
      exchange.fail(
        new ProxyError('handshake-timeout', text, { side: 'upstream', stage: 'handshake' }),
      );
    });
    this.#deps.deadlines.arm(deadline, login.handshakeMs);
    // A verdict on the last token is worth more than the caller who left (config.md, Guard).
    const abort = (): void => {
      if (!exchange.settling) exchange.fail(aborted(target));
    };
    signal.addEventListener('abort', abort, { once: true });
    return {
      end: () => {
        this.#deps.deadlines.disarm(deadline);
        signal.removeEventListener('abort', abort);
      },
    };
  }

  async #conclude(facts: LoginFacts, start: LoginStart): Promise<UpstreamConnection> {
    const { opening, connection, admitted } = facts;
    const { target } = opening;
    if (start.kind === 'unchallenged') {
      this.#deps.meters.unchallenged(target.name);
      admitted.ticket.abandoned();
      // The leg was an empty one of the request's own: what it did, the request must not do again.
      if (facts.leg.method !== 'HEAD' && !opening.request.safe) {
        const text = `${target.name} took a login leg without asking for a login`;
        throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
      }
      if (target.learned.challenges === 'unknown') target.learned.challenges = 'no';
      if (start.reusable) return connection;
      connection.destroy();
      return this.#dial(opening);
    }
    target.learned.challenges = 'yes';
    const session = { store: this.#deps.sessions, partition: opening.partition.key };
    const pending = new FinalLeg({
      target: opening.request.upstreamTarget,
      upstream: target.name,
      credentials: start.credentials,
      legs: start.legs,
      ticket: admitted.ticket,
      connection,
      meters: this.#deps.meters,
      clock: this.#deps.clock,
      startedAt: facts.startedAt,
      session,
    });
    if (facts.rides) {
      connection.login = pending;
      return connection;
    }
    const clean = await this.#settle(facts, pending);
    if (clean) {
      // After a probe, a challenge to the request itself means that it is denied.
      if (admitted.probeTarget !== undefined) connection.login = new ProbedLogin();
      return connection;
    }
    // The credential is good, but this connection ended with the verdict: log in on another one.
    connection.destroy();
    const again = this.#admit(facts.identity, target);
    if (again.kind === 'go') return this.#attempt(opening, facts.identity, facts.login, again);
    again.ticket.abandoned();
    const text = `${target.name} closes its connections after each login`;
    throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
  }

  /**
   * Sends the last token in a leg of the login's own. Answers whether the connection lives on; throws
   * `credential-rejected`. From here on the verdict is waited for, also when the caller is gone.
   */
  async #settle(
    { opening, admitted, exchange, leg }: LoginFacts,
    pending: FinalLeg,
  ): Promise<boolean> {
    const { target } = opening;
    const of = admitted.probeTarget === undefined ? 'request' : 'probe';
    pending.sent();
    let answer: LegAnswer;
    try {
      answer = await exchange.settle(leg, pending.credentials);
    } catch (error) {
      pending.abandon();
      throw withoutRetry(error);
    }
    if (pending.judgeLeg(answer.status, answer.challenges, of) === 'rejected') {
      const text = `${target.name} refused the credential`;
      throw new ProxyError('credential-rejected', text, { side: 'upstream', stage: 'handshake' });
    }
    return answer.reusable;
  }
}

interface Login {
  readonly identity: NtlmIdentity;
  readonly settings: LoginSettings;
  readonly admitted: Admitted;
}

interface Admitted {
  readonly kind: 'go' | 'settle' | 'probe';
  readonly ticket: LoginTicket;
  /** Where a probe goes, when this login is one and there was a success before. */
  readonly probeTarget: string | undefined;
}

interface LoginFacts {
  readonly opening: Opening;
  readonly identity: NtlmIdentity;
  readonly login: LoginSettings;
  readonly connection: UpstreamConnection;
  readonly admitted: Admitted;
  readonly startedAt: number;
  readonly exchange: LoginExchange;
  /** What carried the legs without body. */
  readonly leg: LegRequest;
  /** The last token goes with the request itself. */
  readonly rides: boolean;
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

/** Throws `handshake-failed` when bindings are required and there are none. */
function bindingsFor(
  connection: UpstreamConnection,
  login: LoginSettings,
  target: UpstreamTarget,
): Uint8Array | undefined {
  if (login.channelBinding === 'off') return undefined;
  if (connection.binding === undefined && login.channelBinding === 'required') {
    const text = `${target.name}: the connection has no channel binding and one is required`;
    throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
  }
  return connection.binding;
}

/** After the last token nothing is tried again by itself (R32). */
function withoutRetry(error: unknown): unknown {
  if (!(error instanceof ProxyError) || error.retry === 'never') return error;
  const { code, message, side, stage, cause } = error;
  return new ProxyError(code, message, { side, stage, cause });
}

const aborted = (target: UpstreamTarget): ProxyError =>
  new ProxyError('downstream-closed', `${target.name}: the caller went away`, {
    side: 'downstream',
    stage: 'handshake',
  });

function asProxyError(error: unknown, target: UpstreamTarget): ProxyError {
  if (error instanceof ProxyError) return error;
  const facts = { side: 'internal', stage: 'handshake', cause: error } as const;
  return new ProxyError('internal', `${target.name}: the connection could not be opened`, facts);
}
