/**
 * One helper process with what runs in it and the contexts that wait there for a peer's answer.
 * Decides nothing: `lane.ts` starts, replaces and retires helpers.
 */
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import type { Run } from './call.ts';
import type { HelperLink, StartHelper } from './helper-link.ts';
import type { FromHelper } from './messages.ts';
import { kerberosError } from './native-errors.ts';
import type { KerberosInitiation } from './provider.ts';

/** What a seat tells its lane. */
export interface SeatEvents {
  ready(seat: HelperSeat): void;
  missing(seat: HelperSeat, text: string): void;
  token(seat: HelperSeat, run: Run<KerberosInitiation>, token: Uint8Array): void;
  failed(seat: HelperSeat, run: Run<KerberosInitiation>, text: string): void;
  /** A run or a context ended: there is room, or nothing is left. */
  eased(seat: HelperSeat): void;
  ended(seat: HelperSeat): void;
}

/** A context whose peer has not answered yet. */
interface OpenContext {
  /** Set while the peer's token is being checked. */
  verdict: ((isSound: boolean) => void) | undefined;
}

export class HelperSeat {
  isReady = false;
  /** Takes no new calls; ends when the last run and context are gone, or when it is killed. */
  isRetiring = false;
  readonly runs = new Map<number, Run<KerberosInitiation>>();
  readonly #contexts = new Map<number, OpenContext>();
  readonly #events: SeatEvents;
  readonly #link: HelperLink;
  readonly #ending = Promise.withResolvers<void>();
  #hasEnded = false;

  constructor(start: StartHelper, events: SeatEvents) {
    this.#events = events;
    this.#link = start({
      message: (message) => this.#receive(message),
      ended: () => this.#end(),
    });
  }

  /** Runs whose helper thread hangs. */
  get stuck(): number {
    let count = 0;
    for (const run of this.runs.values()) if (run.isStuck) count += 1;
    return count;
  }

  /** Resolves when the process has ended. */
  get gone(): Promise<void> {
    return this.#ending.promise;
  }

  /** Neither a caller nor a context waits for this helper. */
  get isIdle(): boolean {
    if (this.#contexts.size > 0) return false;
    for (const run of this.runs.values()) if (!run.call.settled) return false;
    return true;
  }

  start(run: Run<KerberosInitiation>): void {
    this.runs.set(run.id, run);
    const { principal, spn } = run.call.facts;
    this.#link.send({ kind: 'initiate', id: run.id, principal, spn });
  }

  /** Gives up a run: what its helper still says of it is not for its call any more. */
  drop(run: Run<KerberosInitiation>): void {
    this.runs.delete(run.id);
  }

  /** Frees a context that nobody asked for. */
  discard(id: number): void {
    this.#link.send({ kind: 'dispose', id });
  }

  /** What the caller gets for a token of this helper. */
  initiation(
    id: number,
    token: Uint8Array,
    limits: { deadlines: DeadlineWheel; deadlineMs: number },
  ): KerberosInitiation {
    const context: OpenContext = { verdict: undefined };
    this.#contexts.set(id, context);
    const dispose = (): void => {
      if (!this.#contexts.delete(id)) return;
      if (!this.#hasEnded) this.discard(id);
      context.verdict?.(false);
      this.#events.eased(this);
    };
    const finish = (answer: Uint8Array): Promise<void> =>
      new Promise((resolve, reject) => {
        const refuse = (reason: string): void => reject(kerberosError('mutual-failed', reason));
        if (this.#contexts.get(id) !== context || context.verdict !== undefined) {
          refuse('the security context is gone');
          return;
        }
        const deadline = new Deadline(dispose);
        context.verdict = (isSound) => {
          limits.deadlines.disarm(deadline);
          if (isSound) resolve();
          else refuse('the peer did not prove that it holds the key of its service name');
        };
        limits.deadlines.arm(deadline, limits.deadlineMs);
        this.#link.send({ kind: 'finish', id, token: answer });
      });
    return { token, finish, dispose };
  }

  kill(): void {
    if (!this.#hasEnded) this.#link.kill();
  }

  #receive(message: FromHelper): void {
    switch (message.kind) {
      case 'ready':
        this.isReady = true;
        this.#events.ready(this);
        return;
      case 'missing':
        this.#events.missing(this, message.text);
        return;
      case 'token': {
        const run = this.#take(message.id);
        if (run === undefined) this.discard(message.id);
        else this.#events.token(this, run, message.token);
        this.#events.eased(this);
        return;
      }
      case 'finished':
        this.#judge(message.id, message.complete);
        return;
      case 'failed': {
        const run = this.#take(message.id);
        if (run === undefined) this.#judge(message.id, false);
        else this.#events.failed(this, run, message.text);
        this.#events.eased(this);
        return;
      }
      case 'accepted':
        // Acceptors have seats of their own.
        return;
      default:
        message satisfies never;
    }
  }

  #take(id: number): Run<KerberosInitiation> | undefined {
    const run = this.runs.get(id);
    this.runs.delete(id);
    return run;
  }

  #judge(id: number, isSound: boolean): void {
    const context = this.#contexts.get(id);
    if (context === undefined) return;
    this.#contexts.delete(id);
    context.verdict?.(isSound);
    this.#events.eased(this);
  }

  #end(): void {
    this.#hasEnded = true;
    for (const context of this.#contexts.values()) context.verdict?.(false);
    this.#contexts.clear();
    this.#ending.resolve();
    this.#events.ended(this);
  }
}
