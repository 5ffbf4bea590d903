/**
 * One login on one connection to one hop.
 *
 * 1. Where what the hop offers decides and is not known, a leg without credentials asks.
 * 2. The mechanism is chosen and its legs without a body run, within one deadline.
 * 3. The last token is left for the request (`rides`), or sent in a leg of the login's own.
 *
 * A failed or aborted login throws; whoever opened the connection destroys it (R17). Which login may
 * run at all is the guard's word, and was asked before.
 */
import { DigestContext } from '../auth/digest.ts';
import { type LoginStart, startLogin } from '../auth/handshake.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import type { ObservedPersistence, Persistence } from '../auth/persistence.ts';
import type { Mechanism } from '../auth/scheme-choice.ts';
import type { SecurityContext } from '../auth/security-context.ts';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import { errorCode, ProxyError } from '../errors.ts';
import type { Challenge } from '../http/challenge.ts';
import { type Identity, isNamed } from '../identity/identity.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { LoginState, PendingLogin, RequestLine } from '../upstream/login-state.ts';
import type { SessionStore } from '../upstream/session-store.ts';
import type { LoginSettings, UpstreamTarget } from '../upstream/target.ts';
import { type ExchangeAnswer, type Hop, type LegRequest, LoginExchange } from './login-exchange.ts';
import type { ChosenLogin } from './leg-observer.ts';
import type { LoginMeters } from './login-meters.ts';
import {
  abilitiesOf,
  type ChosenContext,
  createContext,
  type MechanismDeps,
  needsQuestion,
  schemeOf,
} from './mechanisms.ts';
import { FinalLeg, ProbedLogin } from './pending-login.ts';

export interface ConnectionLoginDeps extends MechanismDeps {
  readonly deadlines: DeadlineWheel;
  readonly sessions: SessionStore;
  readonly meters: LoginMeters;
}

export interface ConnectionLoginFacts {
  readonly target: UpstreamTarget;
  readonly login: LoginSettings;
  readonly identity: Identity;
  readonly hop: Hop;
  readonly connection: UpstreamConnection;
  /** What the login leaves behind, of this hop on this connection. */
  readonly state: LoginState;
  /** What carries the legs without body. */
  readonly leg: LegRequest;
  /** The request that it is opened for. */
  readonly request: RequestLine;
  /** Request target that the answer to the last token belongs to. */
  readonly requestTarget: string;
  /** The last token goes with the request itself. */
  readonly rides: boolean;
  /** The login is a probe of the guard on the target of an earlier success. */
  readonly probes: boolean;
  readonly ticket: LoginTicket;
  /** Asks the guard for one more login, for a token of a later request. Throws `guard-open`. */
  readonly admitAgain: () => LoginTicket;
  /** Key of the partition, for its TLS session. */
  readonly partition: string;
  readonly signal: AbortSignal;
}

/** How a login that did not fail ended; the connection is logged in, or will be with the request. */
export interface LoginEnd {
  readonly kind: 'done' | 'unchallenged';
  readonly reusable: boolean;
  /** The answer to the last leg; undefined when the request carries that. */
  readonly answer: ExchangeAnswer | undefined;
}

export class ConnectionLogin {
  readonly #deps: ConnectionLoginDeps;
  readonly #facts: ConnectionLoginFacts;
  readonly #exchange: LoginExchange;
  readonly #startedAt: number;
  #mechanism: Mechanism | undefined;
  /** What the hop has asked with on this connection; undefined: it has not. */
  #asked: readonly Challenge[] | undefined;

  readonly #deadline = new Deadline(() => {
    const { target } = this.#facts;
    const text = `${target.name}: no answer to a leg of the login in time`;
    const facts = { side: 'upstream', stage: 'handshake' } as const;
    this.#exchange.fail(new ProxyError('handshake-timeout', text, facts));
  });

  constructor(deps: ConnectionLoginDeps, facts: ConnectionLoginFacts) {
    this.#deps = deps;
    this.#facts = facts;
    this.#exchange = new LoginExchange(facts.connection, facts.leg, facts.hop, deps.legs);
    this.#startedAt = deps.clock.now();
  }

  /** Runs it. Throws what made it fail; the ticket is then ended, or given back by the caller. */
  async run(): Promise<LoginEnd> {
    const guarded = this.#guardLegs();
    try {
      const end = await this.#run();
      // Who that was may be another one by the next request (R5).
      if (end.kind === 'done' && !isNamed(this.#facts.identity)) this.#facts.connection.spend();
      return end;
    } catch (error) {
      const { target, ticket, hop } = this.#facts;
      // Also a KDC's word on a password: no token was made then (config.md, Guard). What a parent on the
      // way says of its own login is not about this one.
      if (errorCode(error) === 'credential-rejected' && !isOnTheWay(error)) ticket.rejected();
      const scheme = this.#mechanism === undefined ? undefined : schemeOf(this.#mechanism);
      this.#deps.meters.failed({ upstream: target.name, hop: hop.name }, scheme, error);
      throw error;
    } finally {
      guarded.end();
    }
  }

  async #run(): Promise<LoginEnd> {
    const { target, signal } = this.#facts;
    const open = await this.#discover();
    if (open !== undefined) return open;
    const chosen = await this.#choose(signal);
    this.#mechanism = chosen.mechanism;
    if (signal.aborted) {
      chosen.context.dispose?.();
      throw abortedLogin(target);
    }
    this.#deps.meters.tied(target.name);
    const start = await this.#start(chosen);
    if (start.kind !== 'final-leg' || signal.aborted) chosen.context.dispose?.();
    if (signal.aborted) throw abortedLogin(target);
    if (start.kind === 'unchallenged') {
      const { kind, reusable } = start;
      return { kind, reusable, answer: this.#exchange.last };
    }
    target.learned.challenges = 'yes';
    return this.#conclude(chosen, start);
  }

  /** Learns what is offered where that decides. An answer means that no login is asked for. */
  async #discover(): Promise<LoginEnd | undefined> {
    const { target, login, identity } = this.#facts;
    const { learned } = target;
    const must = needsQuestion(login.schemes, learned.offered, abilitiesOf(identity));
    if (!must && !learned.asksFirst) return undefined;
    const answer = await this.#exchange.discover();
    const { reusable } = answer;
    if (!answer.asks) return { kind: 'unchallenged', reusable, answer };
    this.#asked = answer.challenges;
    learned.offered = new Set(answer.challenges.map(({ scheme }) => scheme));
    if (reusable) return undefined;
    const text = `${target.name} closes its connections with each challenge`;
    const facts = { side: 'upstream', stage: 'handshake', retry: 'safe' } as const;
    throw new ProxyError('handshake-failed', text, facts);
  }

  async #choose(signal: AbortSignal): Promise<ChosenContext> {
    const { target, login, identity, connection } = this.#facts;
    const bindings = bindingsFor(connection, login, target);
    const { legs } = this.#deps;
    return createContext(this.#deps, {
      schemes: login.schemes,
      offered: target.learned.offered,
      abilities: abilitiesOf(identity),
      spn: login.spn,
      bindings,
      bindingRequired: login.channelBinding === 'required',
      mutual: login.mutual,
      challenges: this.#asked ?? [],
      request: this.#lastRequest(),
      signal,
      chose: legs && ((mechanism) => legs.chose(this.#chosen(mechanism, bindings !== undefined))),
    });
  }

  /** What the last token goes with. At an origin the target is what reaches it. */
  #lastRequest(): RequestLine {
    const { rides, leg, request, hop } = this.#facts;
    const line = rides ? request : { method: leg.method, upstreamTarget: leg.target };
    return hop.name === 'origin' ? withoutOrigin(line) : line;
  }

  #chosen(mechanism: Mechanism, hasBindings: boolean): ChosenLogin {
    const { target, login, identity, hop } = this.#facts;
    return {
      hop: hop.name,
      upstream: target.name,
      principal: identity.kind === 'none' ? '' : identity.principal,
      mechanism,
      spn: login.spn,
      // The provider's Kerberos tokens carry none, and a password is none.
      binding: hasBindings && mechanism.startsWith('ntlm') ? 'sent' : 'none',
      bindingRequired: login.channelBinding === 'required',
    };
  }

  async #start({ context }: ChosenContext): Promise<LoginStart> {
    try {
      return await startLogin(this.#exchange, context);
    } catch (error) {
      context.dispose?.();
      // What was learned of the offer does not hold any more: ask again next time.
      if (error instanceof ProxyError && error.code === 'no-common-scheme') {
        this.#facts.target.learned.offered = undefined;
      }
      throw error;
    }
  }

  async #conclude(
    { mechanism, context }: ChosenContext,
    start: LoginStart & { readonly kind: 'final-leg' },
  ): Promise<LoginEnd> {
    const { target, connection, state, hop, rides, probes, ticket } = this.#facts;
    const facts = { ticket, legs: start.legs, startedAt: this.#startedAt };
    const pending = this.#finalLeg({ mechanism, context }, start.credentials, facts);
    if (rides) {
      if (!connection.isReusable()) {
        context.dispose?.();
        throw gone(target);
      }
      state.pending = pending;
      return { kind: 'done', reusable: true, answer: undefined };
    }
    const answer = await this.#settle(pending);
    const reusable = answer.reusable && connection.isReusable();
    const undecided = pending.undecided();
    // The request has a token of its own, which is judged by its own answer.
    if (state.authorize !== undefined) ticket.abandoned();
    else if (undecided !== undefined && reusable) state.pending = undecided;
    else if (undecided !== undefined) undecided.abandon();
    // After a probe, a challenge to the request itself means that it is denied.
    else if (probes && reusable) state.pending = new ProbedLogin(schemeOf(mechanism), hop.asksWith);
    return { kind: 'done', reusable, answer };
  }

  /**
   * Sends the last token in a leg of the login's own. Answers what it was answered with; throws
   * `credential-rejected`. From here on the verdict is waited for, also when the caller is gone.
   */
  async #settle(pending: FinalLeg): Promise<ExchangeAnswer> {
    const { target, leg, hop, probes } = this.#facts;
    pending.sent();
    // A parent that lets the user in answers when it has reached what lies behind it.
    const { handshakeMs } = this.#facts.login;
    const waitMs = Math.max(handshakeMs, target.answerMs);
    if (hop.name === 'parent') this.#deps.deadlines.arm(this.#deadline, waitMs);
    let answer: ExchangeAnswer;
    try {
      answer = await this.#exchange.settle(leg, pending.credentials);
    } catch (error) {
      // A parent on the way kept it: the hop that it was for knows nothing of it.
      const cameBack = errorCode(error) === 'parent-auth';
      if (cameBack) pending.cameBack();
      pending.abandon();
      throw cameBack ? error : withoutRetry(error);
    }
    const verdict = await pending.judgeLeg(answer, probes ? 'probe' : 'request');
    if (verdict === 'unasked') throw unasked(target);
    if (verdict === 'rejected') {
      const text = `${target.name} refused the credential`;
      throw new ProxyError('credential-rejected', text, { side: 'upstream', stage: 'handshake' });
    }
    return answer;
  }

  #finalLeg(
    { mechanism, context }: ChosenContext,
    credentials: string,
    own: { readonly ticket: LoginTicket; readonly legs: number; readonly startedAt: number },
  ): FinalLeg {
    const { target, hop, login, state, requestTarget, partition } = this.#facts;
    const { clock, meters, sessions } = this.#deps;
    return new FinalLeg({
      mechanism,
      context,
      credentials,
      state,
      learned: target.learned,
      wasAsked: this.#asked !== undefined,
      hop: hop.name,
      meters,
      clock,
      ...own,
      target: requestTarget,
      upstream: target.name,
      asksWith: hop.asksWith,
      ignoresProof: login.mutual === 'off',
      session: { store: sessions, partition },
      learnPersistence: (observed, used) => this.#learn(observed, { mechanism, context }, used),
    });
  }

  /** How long logins last here; a connection whose login is over needs a token for each request. */
  #learn(
    observed: ObservedPersistence,
    { mechanism, context }: ChosenContext,
    credentials: string,
  ): void {
    const { login, connection, state, leg } = this.#facts;
    // What follows a CONNECT is not the parent's any more.
    if (leg.method === 'CONNECT') return;
    if (mechanism === 'basic') state.standing = credentials;
    if (context instanceof DigestContext) state.standing = this.#answersWith(context);
    if (state.standing !== undefined) return;
    const said = observed === 'unsaid' ? this.#assumed() : observed;
    const persistence = login.persistence === 'auto' ? said : login.persistence;
    if (persistence === 'connection') state.authorize = undefined;
    else if (mechanism === 'kerberos') state.authorize = (signal) => this.#authorize(signal);
    // A login of several legs is a connection's by its nature: this one is over.
    else connection.spend();
  }

  #answersWith(context: DigestContext): (request: RequestLine) => string {
    if (this.#facts.hop.name === 'parent') return (request) => context.credentialsFor(request);
    return (request) => context.credentialsFor(withoutOrigin(request));
  }

  /**
   * An origin may answer a request without a token as nobody's, so each has one (R37). A parent proxy
   * lets it through or asks again, which the relay learns from.
   */
  #assumed(): Persistence {
    const { hop, target } = this.#facts;
    return hop.name === 'origin' ? 'request' : (target.learned.persistence ?? 'connection');
  }

  /** A fresh token for one further request on this connection (R32). */
  async #authorize(signal: AbortSignal): Promise<PendingLogin> {
    const ticket = this.#facts.admitAgain();
    let context: SecurityContext | undefined;
    try {
      const startedAt = this.#deps.clock.now();
      const chosen = await this.#choose(signal);
      ({ context } = chosen);
      const token = await context.step();
      const credentials = `${context.scheme} ${Buffer.from(token).toString('base64')}`;
      if (context.complete) {
        return this.#finalLeg(chosen, credentials, { ticket, legs: 1, startedAt });
      }
      const text = `${this.#facts.target.name}: this mechanism has no token for one request`;
      throw new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
    } catch (error) {
      context?.dispose?.();
      if (errorCode(error) === 'credential-rejected') ticket.rejected();
      else ticket.abandoned();
      throw error;
    }
  }

  /** The deadline of the legs together, and the end of the waiting request, both end a leg in work. */
  #guardLegs(): { end(): void } {
    const { target, login, signal } = this.#facts;
    const exchange = this.#exchange;
    const deadline = this.#deadline;
    this.#deps.deadlines.arm(deadline, login.handshakeMs);
    // A verdict on the last token is worth more than the caller who left (config.md, Guard).
    const abort = (): void => {
      if (!exchange.settling) exchange.fail(abortedLogin(target));
    };
    signal.addEventListener('abort', abort, { once: true });
    return {
      end: () => {
        this.#deps.deadlines.disarm(deadline);
        signal.removeEventListener('abort', abort);
      },
    };
  }
}

/** The leg did not reach the hop that it was for. */
const isOnTheWay = (error: unknown): boolean =>
  error instanceof ProxyError && error.hop !== undefined;

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

/** A parent on the way makes origin-form of an absolute target (RFC 9112 3.2.2). */
function withoutOrigin({ method, upstreamTarget }: RequestLine): RequestLine {
  return { method, upstreamTarget: upstreamTarget.replace(/^https?:\/\/[^/?]*/i, '') || '/' };
}

/** The same error, of which nothing is tried again by itself: the last token is out (R32). */
export function withoutRetry(error: unknown): unknown {
  if (!(error instanceof ProxyError) || error.retry === 'never') return error;
  return error.with({ retry: 'never' });
}

const unasked = (target: UpstreamTarget): ProxyError =>
  new ProxyError('handshake-failed', `${target.name} takes no token before it has asked`, {
    side: 'upstream',
    stage: 'handshake',
    retry: 'safe',
  });

export const abortedLogin = (target: UpstreamTarget): ProxyError =>
  new ProxyError('downstream-closed', `${target.name}: the caller went away`, {
    side: 'downstream',
    stage: 'handshake',
  });

const gone = (target: UpstreamTarget): ProxyError =>
  new ProxyError('handshake-failed', `${target.name} closed the connection during the login`, {
    side: 'upstream',
    stage: 'handshake',
    retry: 'safe',
  });
