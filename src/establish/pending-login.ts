/**
 * Logins whose last word is the answer to a request: judged by the 401 table of config.md.
 *
 * The guard's ticket of a login is ended here, by exactly one verdict, or given back unused.
 */
import { type FinalVerdict, judgeFinalAnswer } from '../auth/handshake.ts';
import type { LoginTicket } from '../auth/guard-ticket.ts';
import type { Clock } from '../clock.ts';
import { askedChallenges } from '../http/asked-challenges.ts';
import type { Challenge } from '../http/challenge.ts';
import type { LoginVerdict, PendingLogin, UpstreamConnection } from '../upstream/connection.ts';
import type { SessionStore } from '../upstream/session-store.ts';
import type { LoginMeters } from './login-meters.ts';

export interface FinalLegFacts {
  /** Request target of the request that carries the last token. */
  readonly target: string;
  readonly upstream: string;
  readonly credentials: string;
  readonly legs: number;
  readonly ticket: LoginTicket;
  readonly connection: UpstreamConnection;
  readonly meters: LoginMeters;
  readonly clock: Clock;
  /** Clock ms of the first leg. */
  readonly startedAt: number;
  readonly session: { readonly store: SessionStore; readonly partition: string };
}

/** The last token travels with the request whose answer is judged. */
export class FinalLeg implements PendingLogin {
  readonly credentials: string;
  readonly #facts: FinalLegFacts;
  #judged = false;
  #sent = false;

  constructor(facts: FinalLegFacts) {
    this.credentials = facts.credentials;
    this.#facts = facts;
  }

  judge(status: number, wwwAuthenticate: readonly string[]): LoginVerdict {
    return this.#judge(status, askedChallenges(wwwAuthenticate), 'request');
  }

  /** The same for a leg of the login's own; that of a probe says that earlier refusals were the request's. */
  judgeLeg(
    status: number,
    challenges: readonly Challenge[],
    of: 'request' | 'probe',
  ): FinalVerdict {
    return this.#judge(status, challenges, of);
  }

  sent(): void {
    this.#sent = true;
  }

  abandon(): void {
    if (this.#judged) return;
    this.#judged = true;
    if (this.#sent) this.#facts.ticket.unsettled();
    else this.#facts.ticket.abandoned();
    this.#count('aborted');
  }

  #judge(status: number, challenges: readonly Challenge[], of: 'request' | 'probe'): FinalVerdict {
    this.#judged = true;
    const { ticket, connection, session, target } = this.#facts;
    const verdict = judgeFinalAnswer('ntlm', status, challenges);
    if (verdict === 'rejected') {
      // A resumed session keeps the binding of the certificate it was made under; if the server has
      // a new one since, only a full handshake can tell (hostile row F7).
      session.store.forget(session.partition);
      ticket.rejected();
      this.#count('rejected');
      return verdict;
    }
    connection.authenticated = true;
    // A 401 without our challenge may also be how this server answers a wrong password, and a server
    // that fails says nothing: neither counts for or against the credential.
    const silent = verdict === 'origin-refused' || status >= 500 || status === 400;
    if (silent) ticket.abandoned();
    else if (of === 'probe') ticket.denied();
    else ticket.succeeded(target);
    this.#count('ok');
    return verdict;
  }

  #count(result: 'ok' | 'rejected' | 'aborted'): void {
    const { meters, upstream, legs, clock, startedAt } = this.#facts;
    meters.ended(upstream, result, legs, (clock.now() - startedAt) / 1000);
  }
}

/** A login that a probe completed: a challenge to the request itself then means that it is denied. */
export class ProbedLogin implements PendingLogin {
  readonly credentials = undefined;

  sent(): void {
    // There is nothing to send.
  }

  judge(status: number, wwwAuthenticate: readonly string[]): LoginVerdict {
    const verdict = judgeFinalAnswer('ntlm', status, askedChallenges(wwwAuthenticate));
    return verdict === 'rejected' ? 'denied' : verdict;
  }

  abandon(): void {
    // The probe was judged.
  }
}
