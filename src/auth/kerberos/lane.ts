/**
 * One stream of Kerberos calls through one helper process at a time. Queues what the helper may not
 * start yet, judges what it answers, and replaces a helper whose threads hang before it is killed:
 *
 *   1. `STUCK_LIMIT` calls overran their time: a second helper is started beside the first;
 *   2. it is ready: new calls go there, calls in flight of other realms are repeated there once;
 *   3. the first is killed when nobody waits for it any more, at the latest after the deadline.
 *
 * A helper that dies by itself is started again, and its calls are repeated once.
 */
import type { Clock } from '../../clock.ts';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { type ErrorCode, ProxyError } from '../../errors.ts';
import type { Log } from '../../log/log.ts';
import { AdmissionRules, type Verdict } from './admission.ts';
import type { RealmBreakers } from './breaker.ts';
import { Call, type CallFacts, type Run } from './call.ts';
import type { StartHelper } from './helper-link.ts';
import { HelperSeat, type SeatEvents } from './helper-seat.ts';
import { kerberosError, nativeError, realmInText } from './native-errors.ts';
import type { KerberosInitiation } from './provider.ts';
import { WaitingCalls } from './waiting-calls.ts';

export interface LaneDeps {
  readonly startHelper: StartHelper;
  readonly breakers: RealmBreakers;
  readonly deadlines: DeadlineWheel;
  readonly clock: Clock;
  readonly log: Log;
  /** A helper was started in the place of another one. */
  readonly onHelperRestart: () => void;
}

/** Hanging threads that make a helper due for replacement. */
const STUCK_LIMIT = 4;
/** Longest try of an open breaker. */
const PROBE_MS = 2000;
/** A helper that is not ready by then never will be. */
const START_MS = 10_000;
/** Pauses after helpers that died before they were ready. */
const RESTART_PAUSES_MS = [100, 500, 2000, 5000] as const;
/** Errors that a ticket from the cache may cause although a fresh one would do. */
const STALE: ReadonlySet<ErrorCode> = new Set([
  'credential-missing',
  'credential-expired',
  'mechanism-failed',
]);

type AnyCall = Call<KerberosInitiation>;
type AnyRun = Run<KerberosInitiation>;

export class Lane {
  /** The package is missing: nothing of Kerberos will work in this process. */
  missing: ProxyError | undefined;
  readonly #deps: LaneDeps;
  readonly #deadlineMs: number;
  readonly #rules: AdmissionRules;
  readonly #waiting = new WaitingCalls();
  #current: HelperSeat | undefined;
  #next: HelperSeat | undefined;
  readonly #retiring = new Set<HelperSeat>();
  #lastId = 0;
  #failedStarts = 0;
  #isClosed = false;
  readonly #restart = new Deadline(() => this.start());
  readonly #startLimit = new Deadline(() => this.#starting()?.kill());

  constructor(deps: LaneDeps, deadlineMs: number) {
    this.#deps = deps;
    this.#deadlineMs = deadlineMs;
    this.#rules = new AdmissionRules(deps.breakers);
  }

  /** Starts the helper unless there is one. Calls do it by themselves. */
  start(): void {
    if (this.#isClosed || this.missing !== undefined || this.#current !== undefined) return;
    if (this.#restart.armed) return;
    this.#current = this.#seat();
  }

  /**
   * A fresh token within `deadlineMs`. Rejects with the codes of `native-errors.ts`, or with the
   * reason of `signal`.
   */
  initiate(facts: CallFacts, signal: AbortSignal, deadlineMs: number): Promise<KerberosInitiation> {
    const limits = { deadlines: this.#deps.deadlines, deadlineMs, signal };
    const call: AnyCall = new Call(facts, limits, () => this.#pump());
    if (this.missing !== undefined) call.refuse(this.missing);
    else if (this.#isClosed) call.refuse(closed());
    if (!call.settled) {
      this.#waiting.add(call);
      this.#pump();
    }
    return call.promise;
  }

  /** The package cannot be used: no helper is started, and every call is refused. */
  declareMissing(text: string): void {
    const message = 'the optional package kerberos, or a library that it needs, is not installed';
    this.missing = kerberosError('mechanism-unavailable', message, new Error(text));
    this.#deps.log.error({}, 'the package kerberos is missing: no principal can use Kerberos');
    this.#refuseAll(this.missing);
  }

  /** The cached tickets of `principal` were replaced or taken away. */
  forget(principal: string | undefined): void {
    this.#rules.forget(principal);
  }

  /** The KDC of `realm` failed elsewhere: calls that would ask it are refused now. */
  realmFailed(realm: string, error: ProxyError): void {
    this.#waiting.each((call) => {
      if (call.facts.realm === realm && this.#rules.isCold(call)) call.refuse(error);
    });
  }

  /** Kills the helpers and refuses every call; resolves when the helpers are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#deps.deadlines.disarm(this.#restart);
    this.#deps.deadlines.disarm(this.#startLimit);
    this.#refuseAll(closed());
    for (const seat of this.#seats()) {
      for (const run of seat.runs.values()) {
        this.#deps.deadlines.disarm(run.deadline);
        run.call.refuse(closed());
      }
      seat.kill();
    }
    await Promise.all(this.#seats().map((seat) => seat.gone));
  }

  #seats(): HelperSeat[] {
    return [this.#current, this.#next, ...this.#retiring].filter((seat) => seat !== undefined);
  }

  #seat(): HelperSeat {
    this.#deps.deadlines.arm(this.#startLimit, START_MS);
    return new HelperSeat(this.#deps.startHelper, this.#events);
  }

  #starting(): HelperSeat | undefined {
    return [this.#next, this.#current].find((seat) => seat?.isReady === false);
  }

  readonly #events: SeatEvents = {
    ready: (seat) => {
      this.#failedStarts = 0;
      this.#deps.deadlines.disarm(this.#startLimit);
      if (seat === this.#next) this.#replace(seat);
      this.#pump();
    },
    missing: (seat, text) => {
      this.declareMissing(text);
      seat.kill();
    },
    token: (seat, run, token) => this.#accept(seat, run, token),
    failed: (_, run, text) => this.#judge(run, text),
    eased: (seat) => {
      if (this.#retiring.has(seat) && seat.isIdle) seat.kill();
      this.#pump();
    },
    ended: (seat) => this.#ended(seat),
  };

  #pump(): void {
    const seat = this.#current;
    if (this.#waiting.isEmpty) return;
    if (seat === undefined) this.start();
    if (seat?.isReady !== true) return;
    this.#waiting.serve((call) => {
      const verdict = this.#rules.admit(call, seat.runs.values());
      if (verdict.kind === 'go') this.#run(seat, call, false);
      if (verdict.kind === 'probe') this.#run(seat, call, true);
      if (verdict.kind === 'refused') call.refuse(refusal(verdict));
      return verdict.kind;
    });
  }

  #run(seat: HelperSeat, call: AnyCall, isProbe: boolean): void {
    this.#lastId += 1;
    const run: AnyRun = {
      id: this.#lastId,
      call,
      isCold: this.#rules.isCold(call),
      isProbe,
      deadline: new Deadline(() => this.#overran(seat, run)),
      isStuck: false,
    };
    const limit = isProbe ? Math.min(PROBE_MS, this.#deadlineMs) : this.#deadlineMs;
    this.#deps.deadlines.arm(run.deadline, limit);
    seat.start(run);
  }

  #accept(seat: HelperSeat, run: AnyRun, token: Uint8Array): void {
    this.#deps.deadlines.disarm(run.deadline);
    // A thread that hung and came back says nothing about now.
    if (run.isCold && !run.isStuck) this.#deps.breakers.answered(run.call.facts.realm);
    this.#rules.succeeded(run.call);
    if (run.call.settled) seat.discard(run.id);
    else {
      const limits = { deadlines: this.#deps.deadlines, deadlineMs: this.#deadlineMs };
      run.call.answer(seat.initiation(run.id, token, limits));
    }
  }

  #judge(run: AnyRun, text: string): void {
    const { call } = run;
    const { realm } = call.facts;
    this.#deps.deadlines.disarm(run.deadline);
    this.#rules.failed(call);
    const error = nativeError(text);
    if (!run.isStuck) this.#learn(run, error, realmInText(text) ?? realm);
    if (!run.isCold && STALE.has(error.code) && !call.repeated && !call.settled) {
      call.repeated = true;
      this.#waiting.addFirst(call);
      return;
    }
    call.refuse(error);
  }

  /** What a failed call says about the KDC of its realm. */
  #learn(run: AnyRun, error: ProxyError, culprit: string): void {
    const { realm } = run.call.facts;
    // A KDC that refers to another realm has answered, whatever becomes of the other one.
    if (error.code === 'kdc-unreachable' && culprit === realm) this.#open(realm, error);
    else if (error.code === 'credential-missing' || error.code === 'mechanism-failed') {
      if (run.isProbe) this.#deps.breakers.abandoned(realm);
    } else if (run.isCold) this.#deps.breakers.answered(realm);
  }

  #overran(seat: HelperSeat, run: AnyRun): void {
    run.isStuck = true;
    const { realm } = run.call.facts;
    this.#rules.failed(run.call);
    const error = kerberosError('kdc-timeout', 'the KDC of the realm does not answer');
    run.call.refuse(error);
    this.#open(realm, error);
    if (seat === this.#current && this.#next === undefined && seat.stuck >= STUCK_LIMIT) {
      this.#deps.log.warn({ stuck: seat.stuck }, 'a Kerberos helper hangs; another one is started');
      this.#deps.onHelperRestart();
      this.#next = this.#seat();
    }
    this.#events.eased(seat);
  }

  #open(realm: string, error: ProxyError): void {
    if (this.#deps.breakers.failed(realm, error)) {
      this.#deps.log.warn({ code: error.code }, 'a Kerberos realm does not answer');
    }
    this.realmFailed(realm, error);
  }

  /** Step 2 of the replacement. */
  #replace(next: HelperSeat): void {
    const old = this.#current;
    this.#current = next;
    this.#next = undefined;
    if (old === undefined) return;
    old.isRetiring = true;
    this.#retiring.add(old);
    const silent = new Set<string>();
    for (const run of old.runs.values()) if (run.isStuck) silent.add(run.call.facts.realm);
    for (const run of old.runs.values()) {
      if (!run.isStuck && !silent.has(run.call.facts.realm)) this.#moveOff(old, run);
    }
    const limit = new Deadline(() => old.kill());
    this.#deps.deadlines.arm(limit, this.#deadlineMs);
    if (old.isIdle) old.kill();
  }

  /** Takes a run from its helper and sends the call once more, if that is still allowed. */
  #moveOff(seat: HelperSeat, run: AnyRun): void {
    const { call } = run;
    this.#deps.deadlines.disarm(run.deadline);
    seat.drop(run);
    if (run.isProbe && !run.isStuck) this.#deps.breakers.abandoned(call.facts.realm);
    if (call.settled) return;
    if (call.repeated) {
      call.refuse(kerberosError('mechanism-failed', 'the helper process ended twice in one call'));
      return;
    }
    call.repeated = true;
    this.#waiting.addFirst(call);
  }

  #ended(seat: HelperSeat): void {
    if (this.#isClosed) return;
    for (const run of seat.runs.values()) this.#moveOff(seat, run);
    if (this.#retiring.delete(seat)) return;
    if (seat === this.#next) this.#next = undefined;
    if (seat === this.#current) this.#current = undefined;
    if (this.missing !== undefined) return;
    this.#deps.log.error({}, 'a Kerberos helper ended by itself');
    this.#deps.onHelperRestart();
    this.#startAgain(seat.isReady);
  }

  #startAgain(wasReady: boolean): void {
    if (!wasReady) this.#failedStarts += 1;
    if (this.#current === undefined && this.#next !== undefined) {
      this.#current = this.#next;
      this.#next = undefined;
    }
    if (this.#current !== undefined) {
      this.#pump();
      return;
    }
    const last = RESTART_PAUSES_MS.length - 1;
    const pause = RESTART_PAUSES_MS[Math.min(this.#failedStarts, last)] ?? 0;
    if (this.#failedStarts > last) {
      this.#refuseAll(kerberosError('mechanism-unavailable', 'the Kerberos helper does not start'));
    }
    this.#deps.deadlines.arm(this.#restart, pause);
  }

  #refuseAll(error: ProxyError): void {
    this.#waiting.each((call) => call.refuse(error));
  }
}

function refusal({ error, retryAfterMs }: Verdict & { kind: 'refused' }): ProxyError {
  const { code, message, side, stage, cause } = error;
  return new ProxyError(code, message, { side, stage, cause, retryAfterMs });
}

function closed(): ProxyError {
  return kerberosError('shutting-down', 'the Kerberos provider is closed');
}
