/**
 * Logins whose last word is the answer to a request: judged by the 401 table of config.md.
 *
 * The guard's ticket of a login is ended here, by exactly one verdict, or given back unused.
 */
import { isStale } from '../auth/digest.ts';
import {
  type ChallengeStatus,
  finalToken,
  type FinalVerdict,
  judgeFinalAnswer,
  type LoginScheme,
} from '../auth/handshake.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import { type ObservedPersistence, readPersistence } from '../auth/persistence.ts';
import type { Mechanism } from '../auth/scheme-choice.ts';
import type { SecurityContext } from '../auth/security-context.ts';
import type { Clock } from '../clock.ts';
import { ProxyError } from '../errors.ts';
import { askedChallenges } from '../http/asked-challenges.ts';
import type { Challenge } from '../http/challenge.ts';
import type {
  FinalAnswer,
  HopName,
  LoginState,
  LoginVerdict,
  PendingLogin,
} from '../upstream/login-state.ts';
import type { SessionStore } from '../upstream/session-store.ts';
import type { Learned } from '../upstream/target.ts';
import type { LoginMeters } from './login-meters.ts';
import { schemeOf } from './mechanisms.ts';

export interface FinalLegFacts {
  /** Request target of the request that carries the last token. */
  readonly target: string;
  readonly upstream: string;
  readonly mechanism: Mechanism;
  readonly context: SecurityContext;
  readonly credentials: string;
  readonly legs: number;
  readonly asksWith: ChallengeStatus;
  /** A final token that cannot be read does not matter: the peer is not asked to prove itself. */
  readonly ignoresProof: boolean;
  readonly ticket: LoginTicket;
  readonly state: LoginState;
  readonly learned: Learned;
  /** The hop had asked on this connection before the token was sent. */
  readonly wasAsked: boolean;
  readonly hop: HopName;
  readonly meters: LoginMeters;
  readonly clock: Clock;
  /** Clock ms of the first leg. */
  readonly startedAt: number;
  readonly session: { readonly store: SessionStore; readonly partition: string };
  /** Told how long a login lasts here (R37). */
  readonly learnPersistence: (observed: ObservedPersistence, credentials: string) => void;
}

/** As of any final leg. */
export type LegVerdict = FinalVerdict | 'unasked';

/** The last token travels with the request whose answer is judged. */
export class FinalLeg implements PendingLogin {
  readonly credentials: string;
  readonly #facts: FinalLegFacts;
  #judged = false;
  #sent = false;
  #ownLeg = false;
  #silent = false;

  constructor(facts: FinalLegFacts) {
    this.credentials = facts.credentials;
    this.#facts = facts;
  }

  judge(answer: FinalAnswer): LoginVerdict | Promise<LoginVerdict> {
    const challenges = askedChallenges(answer.challenges);
    return this.#judge(answer.status, challenges, answer.persistentAuth, 'request');
  }

  /** The same for a leg of the login's own; that of a probe says that earlier refusals were the request's. */
  async judgeLeg(
    answer: {
      readonly status: number;
      readonly challenges: readonly Challenge[];
      readonly persistentAuth: readonly string[];
    },
    of: 'request' | 'probe',
  ): Promise<LegVerdict> {
    this.#ownLeg = true;
    return this.#judge(answer.status, answer.challenges, answer.persistentAuth, of);
  }

  /**
   * What decides a login whose own leg was answered, without a word about the credential; undefined
   * when the leg said enough. Whoever takes it ends it: by an answer, or by `abandon`.
   */
  undecided(): PendingLogin | undefined {
    if (!this.#silent) return undefined;
    const { mechanism, asksWith, ticket, target } = this.#facts;
    return new UndecidedLogin({ scheme: schemeOf(mechanism), asksWith, ticket, target });
  }

  sent(): void {
    this.#sent = true;
  }

  /** The last token did not reach its hop. */
  cameBack(): void {
    this.#sent = false;
  }

  abandon(): void {
    if (this.#judged) return;
    this.#judged = true;
    this.#facts.context.dispose?.();
    if (this.#sent) this.#facts.ticket.unsettled();
    else this.#facts.ticket.abandoned();
    this.#count('aborted');
  }

  #judge(
    status: number,
    challenges: readonly Challenge[],
    persistentAuth: readonly string[],
    of: 'request' | 'probe',
  ): LegVerdict | Promise<LegVerdict> {
    this.#judged = true;
    const { ticket, session, mechanism, asksWith } = this.#facts;
    const scheme = schemeOf(mechanism);
    const verdict = judgeFinalAnswer(scheme, status, challenges, asksWith);
    if (verdict === 'rejected' && this.#mayNotHaveAsked(challenges)) {
      this.#facts.learned.asksFirst ||= mechanism === 'kerberos';
      this.#facts.context.dispose?.();
      ticket.abandoned();
      this.#count('aborted');
      return 'unasked';
    }
    if (verdict === 'rejected') {
      // A resumed session keeps the binding of the certificate it was made under; if the server has
      // a new one since, only a full handshake can tell (hostile row F7).
      session.store.forget(session.partition);
      this.#facts.context.dispose?.();
      ticket.rejected();
      this.#count('rejected');
      return verdict;
    }
    const token = finalToken(scheme, challenges);
    const checked = this.#check(token);
    if (checked === undefined) return this.#accept(status, persistentAuth, of, verdict);
    return checked.then(() => this.#accept(status, persistentAuth, of, verdict));
  }

  /**
   * Some hops refuse a token that comes before they asked (R39): a bare challenge in answer to the one
   * token of Kerberos is no word on the credential, the first time; nor is that on an old nonce.
   */
  #mayNotHaveAsked(challenges: readonly Challenge[]): boolean {
    const { mechanism, legs, wasAsked, learned } = this.#facts;
    if (mechanism === 'digest') return isStale(challenges);
    if (mechanism !== 'kerberos' || legs > 1 || wasAsked || learned.asksFirst) return false;
    return finalToken('negotiate', challenges) === undefined;
  }

  /** The peer's last word about itself; undefined when there is nothing to wait for. */
  #check(token: Uint8Array | undefined | 'malformed'): Promise<void> | undefined {
    const { context, ignoresProof } = this.#facts;
    try {
      if (token === 'malformed' && !ignoresProof) {
        const facts = { side: 'upstream', stage: 'handshake' } as const;
        throw new ProxyError('mutual-failed', 'login: the final token is malformed', facts);
      }
      const checked = context.finish(token === 'malformed' ? undefined : token);
      return checked === undefined ? undefined : checked.catch((error) => this.#distrust(error));
    } catch (error) {
      return this.#distrust(error);
    }
  }

  #distrust(error: unknown): never {
    this.#facts.context.dispose?.();
    this.#facts.ticket.abandoned();
    this.#count('mutual_failed');
    throw error;
  }

  #accept(
    status: number,
    persistentAuth: readonly string[],
    of: 'request' | 'probe',
    verdict: FinalVerdict,
  ): FinalVerdict {
    const { ticket, state, target, mechanism, legs } = this.#facts;
    state.authenticated = true;
    const observed = readPersistence(persistentAuth, mechanism, legs);
    this.#facts.learnPersistence(observed, this.credentials);
    const silent = saysNothing(verdict, status, this.#facts.asksWith);
    if (silent && this.#ownLeg) this.#silent = true;
    else if (silent) ticket.abandoned();
    else if (of === 'probe' || verdict === 'denied') ticket.denied();
    else ticket.succeeded(target);
    this.#count('ok');
    return verdict;
  }

  #count(result: 'ok' | 'rejected' | 'aborted' | 'mutual_failed'): void {
    const { meters, upstream, hop, mechanism, legs, clock, startedAt } = this.#facts;
    const seconds = (clock.now() - startedAt) / 1000;
    meters.ended({ upstream, hop }, schemeOf(mechanism), result, legs, seconds);
  }
}

const PARENT_ASKS: ChallengeStatus = 407;

/** A 401 without our challenge may be the word on a wrong password; a server that fails says nothing. */
function saysNothing(verdict: FinalVerdict, status: number, asksWith: ChallengeStatus): boolean {
  if (verdict === 'origin-refused' || status === 400 || status === 500) return true;
  // A parent proxy that has let the user in tells with these of what lies behind it.
  return status > 500 && asksWith !== PARENT_ASKS;
}

interface UndecidedFacts extends Pick<FinalLegFacts, 'asksWith' | 'ticket' | 'target'> {
  readonly scheme: LoginScheme;
}

/**
 * A login whose last token was answered without a verdict: the answer to the request on its connection
 * is one, as a challenge there says that nobody is logged in.
 */
class UndecidedLogin implements PendingLogin {
  readonly credentials = undefined;
  readonly #facts: UndecidedFacts;

  constructor(facts: UndecidedFacts) {
    this.#facts = facts;
  }

  sent(): void {
    // The token is out already.
  }

  judge({ status, challenges }: FinalAnswer): LoginVerdict {
    const { scheme, asksWith, ticket, target } = this.#facts;
    const verdict = judgeFinalAnswer(scheme, status, askedChallenges(challenges), asksWith);
    if (verdict === 'rejected') ticket.rejected();
    else if (verdict === 'denied') ticket.denied();
    else if (saysNothing(verdict, status, asksWith)) ticket.abandoned();
    else ticket.succeeded(target);
    return verdict;
  }

  abandon(): void {
    this.#facts.ticket.unsettled();
  }
}

/** A login that a probe completed: a challenge to the request itself then means that it is denied. */
export class ProbedLogin implements PendingLogin {
  readonly credentials = undefined;
  readonly #scheme: LoginScheme;
  readonly #asksWith: ChallengeStatus;

  constructor(scheme: LoginScheme, asksWith: ChallengeStatus) {
    this.#scheme = scheme;
    this.#asksWith = asksWith;
  }

  sent(): void {
    // There is nothing to send.
  }

  judge({ status, challenges }: FinalAnswer): LoginVerdict {
    const asked = askedChallenges(challenges);
    const verdict = judgeFinalAnswer(this.#scheme, status, asked, this.#asksWith);
    return verdict === 'rejected' ? 'denied' : verdict;
  }

  abandon(): void {
    // The probe was judged.
  }
}
