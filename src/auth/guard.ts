/**
 * The lockout guard (config.md, Guard): whether an account may try to log in now. A directory that
 * sees too many wrong passwords locks the account for everybody.
 *
 *                     rejected, not the last                 rejected
 *                    +----------------------+     +--------------------------+
 *                    v                      |     v                          |
 *     closed: go, or wait in line, ----- probe --> open --- probeAfter --> half-open: one probe
 *             or probe when last         rejected   |                        |
 *                    ^                              | flush                  | succeeded, denied
 *                    +------------------------------+------------------------+
 *
 * Rejections are counted per account, and per account and hop, over all generations and all
 * principals that share the account; a success ends both counts. What opens is one generation: on the
 * hop where its rejections were consecutive, or on all hops when it is their sum. Another generation
 * starts closed, but with the counts as they stand, so its first rejection opens it again.
 *
 * In line: until a generation has succeeded on a hop, one login at a time runs there. And while the
 * account has rejections or untried hops, logins under way count as if rejected, so that no
 * interleaving gets past the limit. Without either, nothing is held back; logins that are under way
 * when a password changes at the directory cannot be called back.
 *
 * On ground that is not firm (unproven, or with a rejection, or a last token without verdict behind
 * it) the last token is sent in a leg of its own, so that a caller who leaves or a slow request hides
 * no verdict. Only such legs shut a credential off when they get none: callers who leave do not.
 *
 * Where callers bring the secrets, those of an account that were not accepted yet are one generation, and
 * what they got rejected counts against them alone. Accepted ones work on, and their successes forgive
 * no guess of the last `probeAfter`: else whoever guesses beside a busy user could do so for ever.
 *
 * The attempt that could open the guard is a probe. Where the generation has succeeded before, only a
 * rejected probe opens: requests that an origin denies one user do not shut the account off.
 */
import type { Clock } from '../clock.ts';
import type { Log } from '../log/log.ts';
import {
  forgive,
  GuardAccount,
  NEWCOMERS,
  rememberTarget,
  settle,
  standingOn,
  type Credential,
  type Standing,
  type Tally,
} from './guard-account.ts';
import {
  decide,
  doubts,
  shutForMs,
  shutsOf,
  type Decision,
  type Place,
  type Started,
} from './guard-decision.ts';
import { CALLER_ACCOUNTS, CallerAccounts } from './guard-callers.ts';
import { Ticket, type Ledger, type LoginTicket } from './guard-ticket.ts';

/** Of one entry under `principals`. */
export interface GuardSettings {
  /** At least 1; `Infinity` never opens. */
  readonly rejections: number;
  readonly probeAfterMs: number;
  /**
   * Secrets are the callers' (`from: client`): those not accepted yet count as one, so that a guess with
   * a new one each time is shut off like any other. Default false.
   */
  readonly perAccount?: boolean;
}

export type GuardState = 'closed' | 'half-open' | 'open';

export type Admission =
  /** The last token may go with the request itself. */
  | { readonly kind: 'go'; readonly ticket: LoginTicket }
  /**
   * The last token goes in a leg of the login's own, on the request's target: the verdict must not
   * hang on how long a request takes, or on a caller who stays.
   */
  | { readonly kind: 'settle'; readonly ticket: LoginTicket }
  | {
      /**
       * Log in with HEAD on `target` first: if that is answered, what failed before was denied, not
       * rejected. Without a target, HEAD on the request's own.
       */
      readonly kind: 'probe';
      readonly target: string | undefined;
      readonly ticket: LoginTicket;
    }
  /** Others of this account go first: ask again when a login of it ends. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'open'; readonly retryAfterMs: number };

export interface GuardChange {
  readonly account: string;
  /** Undefined: all hops. */
  readonly hop: string | undefined;
  readonly state: GuardState;
}

/** Told synchronously; must not throw. That `probeAfter` has passed is seen by `state` only. */
export interface GuardListener {
  stateChanged?(change: GuardChange): void;
  /** A login of this account ended, so one that had to wait may be admitted now. */
  loginEnded?(account: string): void;
}

/** Between the first logins on a hop that gives no verdicts; doubled by each. A guess. */
const UNSETTLED_MS = 5000;

/** Nothing is in doubt: the generation has succeeded here and nothing went wrong since. */
const isFirmGround = (place: Place): boolean =>
  place.standing.proven && place.standing.unsettled === 0 && doubts(place) === 0;

/** One guard per process. Memory is bounded by the accounts and hops of the configuration, and `callers`. */
export class LoginGuard {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #accounts = new Map<string, GuardAccount>();
  readonly #callers: CallerAccounts;
  readonly #listeners = new Set<GuardListener>();

  /** `callers`: most accounts that only callers have named. */
  constructor(deps: { readonly clock: Clock; readonly log: Log; readonly callers?: number }) {
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#callers = new CallerAccounts(deps.callers ?? CALLER_ACCOUNTS);
  }

  /** Adds a listener; the function returned takes it away. */
  subscribe(listener: GuardListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Decides on one login, and begins it when it may run. To be asked before the connection is dialled.
   * `account` is case-folded; `hop` names the peer that judges the login; `generation` differs whenever
   * the content of the credential does, also between principals that share an account.
   */
  admit(account: string, hop: string, generation: number, settings: GuardSettings): Admission {
    const place = this.#place(account, hop, generation, settings);
    const decision = this.#decide(place, settings);
    if (decision.kind === 'wait' || decision.kind === 'open') return decision;
    const rides = decision.kind === 'go' && isFirmGround(place);
    const ticket = new Ticket(this.#ledger(place, settings, rides), place, decision);
    if (decision.halfOpen) {
      const scope = place.credential.shut === undefined ? hop : undefined;
      this.#changed({ account, hop: scope, state: 'half-open' });
    }
    if (decision.kind === 'go') return { kind: rides ? 'go' : 'settle', ticket };
    return { kind: 'probe', target: place.standing.target, ticket };
  }

  /** False when `admit` would answer `wait`. Begins nothing. */
  hasRoom(account: string, hop: string, generation: number, settings: GuardSettings): boolean {
    const place = this.#place(account, hop, generation, settings);
    return this.#decide(place, settings).kind !== 'wait';
  }

  /** Forgets what is known of an account: an operator vouches for its credential (R50). */
  flush(account: string): void {
    const records = this.#accounts.get(account);
    if (records === undefined) return;
    records.reset();
    this.#tell({ account, hop: undefined, state: 'closed' });
    for (const listener of this.#listeners) listener.loginEnded?.(account);
  }

  /** The same for every account that only callers have named. */
  flushCallers(): void {
    for (const account of this.#callers.names()) this.flush(account);
  }

  /** Of the generation, or of the one last asked for. `half-open`: a probe may run, or runs. */
  state(account: string, hop: string, generation?: number): GuardState {
    const records = this.#accounts.get(account);
    const credential = records?.find(generation);
    const shuts = credential ? shutsOf(credential, credential.hops.get(hop)) : [];
    if (shuts.length === 0) return 'closed';
    return shutForMs(shuts, this.#clock.now()) > 0 ? 'open' : 'half-open';
  }

  #place(account: string, hop: string, generation: number, settings: GuardSettings): Place {
    let records = this.#accounts.get(account);
    const isNew = records === undefined;
    if (records === undefined) {
      records = new GuardAccount();
      this.#accounts.set(account, records);
    }
    const perAccount = settings.perAccount === true;
    if (!perAccount) this.#callers.keep(account);
    else
      for (const left of this.#callers.used(account, records, isNew)) this.#accounts.delete(left);
    const counted = !perAccount || records.isAccepted(generation) ? generation : NEWCOMERS;
    const credential = records.credential(counted);
    const standing = standingOn(credential, hop);
    const tally = records.hop(hop);
    return { account, hop, generation, records, tally, credential, standing, perAccount };
  }

  #decide(place: Place, settings: GuardSettings): Decision {
    return decide(place, settings.rejections, this.#clock.now());
  }

  /** The ends of a ticket; each is called at most once. */
  #ledger(place: Place, settings: GuardSettings, rides: boolean): Ledger {
    return {
      good: (target) => this.#good(place, target, settings),
      bad: (decision) => this.#bad(place, decision, settings),
      unknown: (decision) => {
        // Callers who leave are no sign of a bad credential: one that rides only ends firm ground.
        if (rides) place.standing.unsettled += 1;
        else this.#unknown(place, decision, settings);
      },
      over: () => {
        for (const listener of this.#listeners) listener.loginEnded?.(place.account);
      },
    };
  }

  #good(place: Place, target: string | undefined, settings: GuardSettings): void {
    const { records, tally, credential, standing, account, hop, generation } = place;
    const isNewcomer = credential === records.credential(NEWCOMERS);
    const keepsGuesses =
      !isNewcomer && this.#clock.now() - records.guessedAt < settings.probeAfterMs;
    for (const count of [records.total, tally]) forgive(count, keepsGuesses);
    // A newcomer that was accepted has a standing of its own from now on.
    const own = standingOn(records.credential(generation), hop);
    own.proven = true;
    own.rejected = 0;
    if (target !== undefined) rememberTarget(own, target);
    settle(standing);
    if (credential.shut !== undefined) {
      credential.shut = undefined;
      this.#changed({ account, hop: undefined, state: 'closed' });
    }
    if (standing.shut !== undefined) {
      standing.shut = undefined;
      this.#changed({ account, hop, state: 'closed' });
    }
  }

  #bad(place: Place, decision: Started, settings: GuardSettings): void {
    const { records, tally, credential, standing, account, hop } = place;
    // What got no verdict before may have been rejected as well.
    const times = 1 + settle(standing);
    const isNewcomer = credential === records.credential(NEWCOMERS);
    if (isNewcomer) records.guessedAt = this.#clock.now();
    standing.rejected += times;
    for (const count of [records.total, tally]) {
      count.rejected += times;
      if (isNewcomer) count.guessed += times;
    }
    // A good standing is not lost to a request that may have been denied: the next attempt probes.
    if (decision.kind !== 'probe' && standing.target !== undefined) return;
    const shuts = (record: Standing | Credential, count: Tally): boolean => {
      const again = decision.halfOpen && record.shut !== undefined;
      if (!again && count.rejected < settings.rejections) return false;
      const isNew = again || record.shut === undefined;
      record.shut = { probeAt: this.#clock.now() + settings.probeAfterMs };
      return isNew;
    };
    if (shuts(standing, tally)) this.#changed({ account, hop, state: 'open' });
    if (shuts(credential, records.total)) this.#changed({ account, hop: undefined, state: 'open' });
  }

  /**
   * Of a login that began on ground that is not firm. After a rejection it counts as one. Else after
   * `rejections` of these without a verdict logins are spaced out, ever wider: a server that never says what it
   * found may still have asked the directory.
   */
  #unknown(place: Place, decision: Started, settings: GuardSettings): void {
    const { standing, account, hop } = place;
    if (doubts(place) > 0) {
      this.#bad(place, decision, settings);
      return;
    }
    standing.unsettled += 1;
    standing.unsettledLegs += 1;
    if (standing.unsettledLegs < settings.rejections && !decision.halfOpen) return;
    if (decision.halfOpen) standing.unsettledProbes += 1;
    else if (standing.shut !== undefined) return;
    const ms = Math.min(settings.probeAfterMs, UNSETTLED_MS * 2 ** standing.unsettledProbes);
    standing.shut = { probeAt: this.#clock.now() + ms };
    this.#changed({ account, hop, state: 'open' });
  }

  #changed(change: GuardChange): void {
    const fields = { hop: change.hop ?? 'all' };
    if (change.state === 'open') this.#log.warn(fields, 'login guard opened: credential not used');
    else this.#log.info(fields, `login guard ${change.state}`);
    this.#tell(change);
  }

  #tell(change: GuardChange): void {
    for (const listener of this.#listeners) listener.stateChanged?.(change);
  }
}
