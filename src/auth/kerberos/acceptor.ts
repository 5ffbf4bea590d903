/**
 * Says who brings a Kerberos token, by the keys of one service name, in a helper process of its own.
 *
 * 1. What is no first token of Kerberos is refused unseen. 2. It waits for its turn, in bounded number
 * and time. 3. The helper gets it once and never again: with the first look it lies in the replay cache,
 * so a helper that dies or hangs takes its tokens with it, and their callers send fresh ones.
 *
 * Whatever a caller did wrong, the error is the same; what the library said is logged (hostile row A17).
 */
import type { Clock } from '../../clock.ts';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { ProxyError } from '../../errors.ts';
import type { Log } from '../../log/log.ts';
import type { HelperLink, StartHelper } from './helper-link.ts';
import { foreignToken } from './initiator-token.ts';
import type { FromHelper } from './messages.ts';
import { RefusalLog } from './refusal-log.ts';

/** Who brought a token. */
export interface AcceptedTicket {
  /** `user@REALM` with the case of the KDC. */
  readonly name: string;
  /** For the caller, who may want proof of the acceptor; empty where there is none. */
  readonly token: Uint8Array;
}

export interface AcceptorDeps {
  /** Starts a helper that sees the keys of this acceptor. */
  readonly startHelper: StartHelper;
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  /** A helper was started in the place of another one. */
  readonly onHelperRestart: () => void;
}

/** For one token, waiting included. The helper asks nobody, so that it takes well under 1 ms. */
const ACCEPT_MS = 4000;
/** A helper that has tokens and says nothing for so long says nothing any more. */
const SILENT_MS = 3000;
/** Beyond the threads of a helper they would only wait in another place. */
const MAX_RUNS = 16;
const MAX_WAITING = 512;
/** A helper that is not ready by then never will be. */
const START_MS = 10_000;
/** Pauses after helpers that ended by themselves; the longest goes on. */
const RESTART_PAUSES_MS = [0, 100, 500, 2000, 5000] as const;

interface Call {
  readonly token: Uint8Array;
  readonly deadline: Deadline;
  readonly settle: (answer: AcceptedTicket | ProxyError) => void;
}

interface Seat {
  readonly link: HelperLink;
  readonly runs: Map<number, Call>;
  readonly gone: Promise<void>;
  isReady: boolean;
}

export class Acceptor {
  /** `HTTP/host`. */
  readonly spn: string;
  readonly #deps: AcceptorDeps;
  readonly #refusals: RefusalLog;
  #seat: Seat | undefined;
  /** In order of arrival. */
  readonly #waiting = new Set<Call>();
  #lastId = 0;
  #failedStarts = 0;
  #state: 'running' | 'retired' | 'closed' = 'running';
  #missing = false;
  readonly #restart = new Deadline(() => this.start());
  readonly #startLimit = new Deadline(() => this.#seat?.link.kill());
  readonly #silence = new Deadline(() => this.#hangs());

  constructor(spn: string, deps: AcceptorDeps) {
    this.spn = spn;
    this.#deps = deps;
    this.#refusals = new RefusalLog(spn, deps);
  }

  /** Why nobody can come in by a ticket; undefined: all is well, or nobody has tried yet. */
  get trouble(): string | undefined {
    if (this.#missing) return 'the optional package kerberos is not installed';
    return this.#failedStarts > 1 ? 'the Kerberos helper does not start' : undefined;
  }

  /** Starts the helper unless there is one. Calls do it by themselves. */
  start(): void {
    if (this.#state !== 'running' || this.#missing || this.#seat !== undefined) return;
    if (this.#restart.armed) return;
    try {
      this.#seat = this.#createSeat();
    } catch (error) {
      // The keytab could not be written, or a process not be made.
      const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
      this.#deps.log.error({ spn: this.spn, reason }, 'an acceptor helper cannot be started');
      this.#failedStarts += 1;
      this.#startAgain();
    }
  }

  /**
   * Who brings `token`, which is given to nobody twice; `caller-ticket-refused`, `caller-check-busy` or
   * `acceptor-unavailable`. Never rejects, and settles within a deadline.
   */
  accept(token: Uint8Array): Promise<AcceptedTicket | ProxyError> {
    const foreign = foreignToken(token);
    if (foreign !== undefined) return Promise.resolve(this.#refuse(foreign));
    if (this.#state !== 'running') return Promise.resolve(unavailable('the acceptor is closed'));
    if (this.#missing) return Promise.resolve(unavailable('the package kerberos is missing'));
    if (this.#waiting.size >= MAX_WAITING) {
      return Promise.resolve(busy('too many tickets wait to be checked'));
    }
    const { promise, resolve } = Promise.withResolvers<AcceptedTicket | ProxyError>();
    const call: Call = {
      token,
      deadline: new Deadline(() => this.#overran(call)),
      settle: (answer) => {
        this.#deps.deadlines.disarm(call.deadline);
        resolve(answer);
      },
    };
    this.#deps.deadlines.arm(call.deadline, ACCEPT_MS);
    this.#waiting.add(call);
    this.#pump();
    return promise;
  }

  /** Takes no new tokens; the helper ends with the last one under way. Resolves when it is gone. */
  async retire(): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'retired';
    this.#deps.deadlines.disarm(this.#restart);
    const seat = this.#seat;
    if (seat === undefined) this.#refuseWaiting(unavailable('the acceptor is closed'));
    this.#endIfIdle();
    await seat?.gone;
  }

  /** Ends the helper at once; resolves when it is gone. */
  async close(): Promise<void> {
    this.#state = 'closed';
    const { deadlines } = this.#deps;
    for (const one of [this.#restart, this.#startLimit, this.#silence]) deadlines.disarm(one);
    this.#refuseWaiting(unavailable('the acceptor is closed'));
    const seat = this.#seat;
    seat?.link.kill();
    await seat?.gone;
  }

  #createSeat(): Seat {
    const { deadlines, startHelper } = this.#deps;
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    const seat: Seat = {
      link: startHelper({
        message: (message) => this.#receive(seat, message),
        ended: () => {
          resolve();
          this.#ended(seat);
        },
      }),
      runs: new Map(),
      gone,
      isReady: false,
    };
    deadlines.arm(this.#startLimit, START_MS);
    return seat;
  }

  #pump(): void {
    this.start();
    const seat = this.#seat;
    if (seat?.isReady !== true) return;
    for (const call of this.#waiting) {
      if (seat.runs.size >= MAX_RUNS) return;
      this.#waiting.delete(call);
      this.#lastId += 1;
      seat.runs.set(this.#lastId, call);
      seat.link.send({ kind: 'accept', id: this.#lastId, token: call.token });
      if (!this.#silence.armed) this.#deps.deadlines.arm(this.#silence, SILENT_MS);
    }
  }

  #receive(seat: Seat, message: FromHelper): void {
    switch (message.kind) {
      case 'ready':
        seat.isReady = true;
        this.#failedStarts = 0;
        this.#deps.deadlines.disarm(this.#startLimit);
        break;
      case 'missing':
        this.#declareMissing(seat);
        return;
      case 'accepted':
        this.#settle(seat, message.id, this.#judge(message));
        break;
      case 'failed':
        if (seat.runs.has(message.id)) this.#settle(seat, message.id, this.#refuse(message.text));
        break;
      default:
        // Answers to what only initiators ask.
        return;
    }
    this.#pump();
    this.#endIfIdle();
  }

  #settle(seat: Seat, id: number, answer: AcceptedTicket | ProxyError): void {
    const call = seat.runs.get(id);
    seat.runs.delete(id);
    this.#deps.deadlines.disarm(this.#silence);
    if (seat.runs.size > 0) this.#deps.deadlines.arm(this.#silence, SILENT_MS);
    call?.settle(answer);
  }

  #judge({ name, token }: AcceptedTicket): AcceptedTicket | ProxyError {
    if (isNobody(name)) return this.#refuse('the ticket names nobody');
    return { name, token };
  }

  #refuse(reason: string): ProxyError {
    this.#refusals.note(reason);
    return new ProxyError('caller-ticket-refused', 'the ticket is not accepted', {
      side: 'downstream',
      stage: 'identify',
      cause: new Error(reason),
    });
  }

  #overran(call: Call): void {
    this.#waiting.delete(call);
    const isReady = this.#seat?.isReady === true;
    call.settle(isReady ? busy('no answer in time') : unavailable('the helper is not ready'));
  }

  #hangs(): void {
    this.#deps.log.error({ spn: this.spn }, 'an acceptor helper hangs; it is ended');
    this.#seat?.link.kill();
  }

  #ended(seat: Seat): void {
    if (this.#seat === seat) this.#seat = undefined;
    for (const call of seat.runs.values()) call.settle(unavailable('the helper ended'));
    seat.runs.clear();
    for (const limit of [this.#startLimit, this.#silence]) this.#deps.deadlines.disarm(limit);
    if (this.#state !== 'running' || this.#missing) {
      this.#refuseWaiting(unavailable('the acceptor is closed'));
      return;
    }
    this.#deps.log.error({ spn: this.spn }, 'an acceptor helper ended by itself');
    this.#deps.onHelperRestart();
    this.#failedStarts = seat.isReady ? 0 : this.#failedStarts + 1;
    this.#startAgain();
  }

  #startAgain(): void {
    const last = RESTART_PAUSES_MS.length - 1;
    const pause = RESTART_PAUSES_MS[Math.min(this.#failedStarts, last)] ?? 0;
    this.#deps.deadlines.arm(this.#restart, pause);
  }

  #declareMissing(seat: Seat): void {
    this.#missing = true;
    const { log } = this.#deps;
    log.error({ spn: this.spn }, 'the package kerberos is missing: nobody can call by a ticket');
    this.#refuseWaiting(unavailable('the package kerberos is missing'));
    seat.link.kill();
  }

  #endIfIdle(): void {
    const seat = this.#seat;
    const isIdle = seat !== undefined && seat.runs.size === 0 && this.#waiting.size === 0;
    if (this.#state === 'retired' && isIdle) seat.link.kill();
  }

  #refuseWaiting(error: ProxyError): void {
    for (const call of this.#waiting) call.settle(error);
    this.#waiting.clear();
  }
}

/** An anonymous ticket (RFC 8062), or a name that is not UTF-8 and would be somebody else's. */
const isNobody = (name: string): boolean =>
  name === '' || name.startsWith('WELLKNOWN/ANONYMOUS@') || name.includes('\uFFFD');

const busy = (message: string): ProxyError => failure('caller-check-busy', message);
const unavailable = (message: string): ProxyError => failure('acceptor-unavailable', message);

const failure = (code: 'caller-check-busy' | 'acceptor-unavailable', message: string): ProxyError =>
  new ProxyError(code, message, { side: 'internal', stage: 'identify' });
