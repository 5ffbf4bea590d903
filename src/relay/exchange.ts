/**
 * One request and its answer, over one leased connection at a time. A caller's connection owns one
 * exchange and uses it again for each request.
 *
 * 1. `start` writes the upstream head once, aside, and asks the pool for a connection.
 * 2. `leased` sends head and body; a login's last token goes with it.
 * 3. The answer is read by `ResponseReader`; a 401 may lead back to 1, once (config.md, 401 table).
 * 4. Complete and clean on both sides: the lease is released. Anything else: discarded (I4).
 *
 * A request is sent a second time only while its body is whole, and only when the first was answered
 * by a challenge, or was lost on a reused connection without a byte of answer and is idempotent
 * (I11, R42). A time-out is never followed by a second try.
 */
import { Deadline } from '../deadlines.ts';
import { type ErrorCode, ProxyError } from '../errors.ts';
import type { CloseReason } from '../pool/connection.ts';
import type { Lease } from '../pool/lease.ts';
import type { Place, Waiter } from '../pool/partition.ts';
import type { TransportOwner } from '../transport/transport.ts';
import type { PendingLogin, UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { ByteSink } from '../wire/chunked.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import { CONTINUE, ESTABLISHED, NO_BYTES } from './bytes.ts';
import type { Caller } from './caller.ts';
import type { RelayContext } from './context.ts';
import { eventBatch } from './event-batch.ts';
import type { RoutePlan } from './plan.ts';
import { RequestBody } from './request-body.ts';
import type { HeadParts } from './request-head-writer.ts';
import { RequestToken } from './request-token.ts';
import { RetryBudget } from './retry-budget.ts';
import { RequestWriter } from './request-writer.ts';
import { type ResponseHost, ResponseReader } from './response-reader.ts';
import { tunnelLease } from './tunnel.ts';
import { upstreamError } from './upstream-error.ts';

/** How long an answer to `Expect: 100-continue` is waited for (RFC 9110 10.1.1 leaves it open). */
const CONTINUE_MS = 1000;

/** A request and what came with its head. */
export interface StartFacts extends HeadParts {
  readonly bodyStart: number;
  readonly end: number;
  /** The caller's connection ends after this answer, by its own wish or version. */
  readonly close: boolean;
}

/** Between requests · in the pool · on a connection · answered, or given up. */
type State = 'idle' | 'acquiring' | 'sent' | 'ended';

export class Exchange
  implements Waiter<UpstreamConnection, OpeningRequest>, TransportOwner, ByteSink, ResponseHost
{
  place: Place<UpstreamConnection, OpeningRequest> | undefined = undefined;
  method = '';
  safe = false;
  idempotent = false;
  isHead = false;
  minor: 0 | 1 = 1;
  upgrade = false;
  closeWanted = false;
  /** The status sent to the caller; 0 before. */
  status = 0;
  errorCode: ErrorCode | undefined;
  leaseResult: 'hit' | 'new' | 'waited' | undefined;
  /** Clock ms. */
  startedAt = 0;
  sentAt = 0;
  endedAt = 0;
  readonly caller: Caller;
  readonly context: RelayContext;
  readonly body: RequestBody;
  readonly #reader: ResponseReader;
  readonly #writer: RequestWriter;
  readonly #deadline = new Deadline(() => this.#expired());
  #plan: RoutePlan | undefined;
  #state: State = 'idle';
  #lease: Lease<UpstreamConnection> | undefined;
  #callerExpects = false;
  #awaitsContinue = false;
  #ownExpect = false;
  /** Body bytes of an earlier try that this one still has to send. */
  #keptUnsent = false;
  readonly #budget = new RetryBudget();
  /** The answer refused the rest of the body. */
  #bodyStopped = false;
  /** Turn of the event loop in which an idle connection was written to; -1: it was not idle. */
  #sentBatch = -1;
  readonly #token = new RequestToken();
  #synchronous = false;

  constructor(context: RelayContext, caller: Caller) {
    this.context = context;
    this.caller = caller;
    this.body = new RequestBody(context.replayBuffers);
    this.#reader = new ResponseReader(this);
    this.#writer = new RequestWriter(context);
  }

  /** Asked for only when a connection has to be opened. */
  get request(): OpeningRequest {
    const { method, safe } = this;
    const { target: upstreamTarget, host: upstreamHost } = this.#writer;
    return { method, safe, challenged: this.#budget.challengedPlain, upstreamTarget, upstreamHost };
  }

  get plan(): RoutePlan {
    if (this.#plan === undefined) throw new Error('no request is in work');
    return this.#plan;
  }

  get connection(): UpstreamConnection | undefined {
    return this.#lease?.connection;
  }

  get active(): boolean {
    return this.#state === 'acquiring' || this.#state === 'sent';
  }

  /** Body bytes may be given to `takeBody` now. */
  get wantsBody(): boolean {
    const connection = this.connection;
    if (connection === undefined || this.#awaitsContinue || this.body.done) return false;
    if (this.#token.awaited) return false;
    return !connection.transport.blocked;
  }

  get askedProtocol(): string | undefined {
    return this.upgrade ? this.#writer.upgrade?.toLowerCase() : undefined;
  }

  /** Begins a request; answers the offset after the body bytes that were taken with it. */
  start(facts: StartFacts): number {
    const { plan, head, buffer } = facts;
    this.#reset(facts);
    this.#writer.build(facts);
    const mayRepeat = plan.hasIdentity || head.idempotent;
    this.body.begin(head, mayRepeat ? plan.replayBytes : -1);
    this.#writer.takeInHand(buffer, facts.bodyStart, facts.end);
    this.#synchronous = true;
    this.#acquire(false);
    this.#synchronous = false;
    return this.#writer.dropInHand();
  }

  /** Takes further body bytes while `wantsBody`; answers the offset after them. */
  takeBody(buffer: Buffer, start: number, end: number): number {
    const next = this.body.take(buffer, start, end, this);
    if (next < 0) {
      this.#malformedBody();
      return end;
    }
    if (this.body.done) this.#bodySent();
    return next;
  }

  /** A run of body bytes on its way upstream. */
  put(buffer: Buffer, start: number, end: number): void {
    const transport = this.connection?.transport;
    if (transport === undefined) return;
    if (!transport.write(buffer.subarray(start, end), this.caller.transport)) {
      this.#arm(this.plan.idleMs);
    }
  }

  leased(lease: Lease<UpstreamConnection>): void {
    if (this.#state !== 'acquiring') {
      // Nobody waits for this connection: the request has ended meanwhile.
      lease.discard('error');
      return;
    }
    const connection = lease.connection;
    this.#lease = lease;
    const found = this.#synchronous ? 'hit' : 'waited';
    this.leaseResult = lease.reused ? found : 'new';
    connection.transport.owner = this;
    this.#sentBatch = lease.reused ? eventBatch() : -1;
    this.#state = 'sent';
    this.#reader.begin();
    const { authorize } = connection;
    if (this.plan.tunnel === true) this.#establish();
    else if (authorize === undefined || connection.login !== undefined) this.#send(connection);
    else this.#askToken(connection, authorize);
  }

  refused(error: ProxyError): void {
    // The partition was retired while this request stood in line: the new one takes it (R15).
    if (error.code === 'upstream-closed' && error.retry === 'safe' && this.#budget.takeLost()) {
      this.#acquire(false);
      return;
    }
    this.fail(error, 'error');
  }

  /** The caller went away: nobody waits for the answer. */
  abandon(): void {
    if (!this.active) return;
    if (this.#state === 'acquiring') this.context.pool.cancel(this);
    this.#discard('error');
    this.#state = 'ended';
    this.errorCode = 'downstream-closed';
    this.body.end();
    this.caller.broken(this);
  }

  // --- The upstream's side -------------------------------------------------------------------

  received(buffer: Buffer, start: number, end: number): boolean {
    const early = this.#sentBatch === eventBatch() || this.#token.awaited;
    if (early && this.#reader.untouched) {
      // In the kernel before the request was: the real answer would reach the next request (R40).
      this.lost(undefined, 'unsolicited');
      return false;
    }
    return this.#reader.received(buffer, start, end);
  }

  drained(): void {
    if (this.body.done || this.#bodyStopped || this.#awaitsContinue) return;
    // The next bytes are the caller's to send: his time runs now, not the upstream's.
    this.context.deadlines.disarm(this.#deadline);
    this.caller.bodyWanted();
  }

  ended(): void {
    if (!this.#reader.ended()) this.lost(undefined);
  }

  closed(error: Error | undefined): void {
    if (this.#state === 'sent') this.lost(error);
  }

  /** The connection ended before the answer did. One that legs have logged in counts as reused. */
  lost(cause: Error | undefined, reason: 'peer' | 'unsolicited' = 'peer'): void {
    const reused = this.#lease?.reused === true || this.connection?.authenticated === true;
    const unanswered = this.#reader.untouched;
    if (unanswered && reused && this.idempotent && this.body.whole && this.#budget.takeLost()) {
      this.#retry(reason, false);
      return;
    }
    const what = unanswered ? 'closed the connection without an answer' : 'cut its answer';
    this.fail(upstreamError(this.plan.target, 'upstream-closed', what, cause), reason);
  }

  // --- What the answer leads to (called by the reader) ------------------------------------------

  /** The upstream is ready for the body. */
  continued(): void {
    if (this.#callerExpects) {
      this.#callerExpects = false;
      this.caller.transport.write(CONTINUE, undefined);
    }
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.context.deadlines.disarm(this.#deadline);
    const kept = this.#keptUnsent ? this.body.kept : undefined;
    this.#keptUnsent = false;
    const transport = this.connection?.transport;
    // A copy: the body's own goes on to grow while the write may still wait.
    if (kept !== undefined) transport?.write(Buffer.from(kept), undefined);
    if (transport?.blocked === true) this.#arm(this.plan.idleMs);
    if (this.body.done) this.#bodySent();
    else this.caller.bodyWanted();
  }

  /** Whether a request that waits for `100 Continue` was answered with a final status. */
  get heldBody(): boolean {
    return this.#awaitsContinue;
  }

  /** The daemon's own Expect was refused: it asks for nothing further times. */
  expectRefused(): boolean {
    if (!this.#ownExpect || !this.body.whole || !this.#budget.takeExpect()) return false;
    this.plan.target.learned.ignoresExpect = true;
    this.#retry('error', false);
    return true;
  }

  /** A 401 with our challenge outside of a login: one login on a fresh connection, or an error. */
  challengedAgain(): void {
    this.plan.target.learned.challenges = 'yes';
    if (!this.#budget.takeLogin(this.connection?.authenticated === false)) {
      const text = 'the upstream asks for a login on every request';
      this.fail(upstreamError(this.plan.target, 'handshake-failed', text), 'auth_failed');
      return;
    }
    if (!this.body.whole) {
      const text = 'the upstream asks for a new login and the request body is gone';
      this.fail(upstreamError(this.plan.target, 'body-not-replayable', text), 'auth_failed');
      return;
    }
    this.plan.meters.reauthentications.add();
    this.#retry('auth_failed', true);
  }

  /** Bytes of the answer flow. */
  progressed(): void {
    this.#arm(this.plan.idleMs);
  }

  /** The answer began while the request was still being sent, and refuses it (R41). */
  stopBody(): void {
    this.#awaitsContinue = false;
    this.#bodyStopped = true;
    this.caller.bodyRefused();
  }

  /** The answer is complete. `reusable`: the connection is byte-clean and may carry another request. */
  answered(reusable: boolean, close: boolean): void {
    const lease = this.#lease;
    this.#lease = undefined;
    this.context.deadlines.disarm(this.#deadline);
    this.#state = 'ended';
    if (reusable && this.body.done) lease?.release();
    else lease?.discard('error');
    this.body.end();
    this.caller.answered(this, close || !this.body.done);
  }

  /** The upstream switched protocols: bytes flow both ways until both sides end (R23). */
  becomeTunnel(buffer: Buffer, start: number, end: number): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    this.context.deadlines.disarm(this.#deadline);
    this.#state = 'ended';
    tunnelLease(lease, {
      caller: this.caller.transport,
      deadlines: this.context.deadlines,
      idleMs: this.plan.tunnelIdleMs,
      bulk: this.context.bulkBuffers,
      early: buffer.subarray(start, end),
      closed: () => this.caller.broken(this),
    });
    this.caller.tunnelled();
  }

  /** Ends the request with an error: the answer of the daemon, or RST when one has begun. */
  fail(error: ProxyError, reason: CloseReason): void {
    if (!this.active) return;
    if (this.#state === 'acquiring') this.context.pool.cancel(this);
    this.#discard(reason);
    this.#state = 'ended';
    this.errorCode = error.code;
    this.endedAt = this.context.clock.now();
    if (this.#reader.started) {
      this.caller.transport.reset();
      this.caller.broken(this);
      return;
    }
    const old = this.minor === 0;
    const close = this.closeWanted || !this.body.done || this.caller.draining || old;
    const { accept } = this.#writer;
    const { challenge } = this.plan;
    const options = { accept, isHead: this.isHead, close, challenge };
    const answer = this.context.answers.error(error, options);
    this.status = answer.status;
    this.body.end();
    this.caller.transport.write(answer.bytes, undefined);
    if (!this.body.done) this.caller.bodyRefused();
    this.caller.answered(this, close);
  }

  // --- Private --------------------------------------------------------------------------------

  #reset({ plan, head, upgrade, close }: StartFacts): void {
    this.#plan = plan;
    this.method = head.method;
    this.safe = head.safe;
    this.idempotent = head.idempotent;
    this.isHead = head.isHead;
    this.minor = head.minor;
    this.upgrade = upgrade;
    this.closeWanted = close;
    this.status = 0;
    this.errorCode = undefined;
    this.startedAt = this.context.clock.now();
    this.#callerExpects = head.expectContinue && head.count(REQUEST_FIELD.expect) > 0;
    this.#awaitsContinue = false;
    this.#ownExpect = false;
    this.#budget.reset();
    this.#bodyStopped = false;
    this.leaseResult = undefined;
    this.#reader.begin();
  }

  /** A CONNECT has its connection. */
  #establish(): void {
    this.status = 200;
    this.endedAt = this.context.clock.now();
    this.caller.transport.write(ESTABLISHED, undefined);
    this.becomeTunnel(NO_BYTES, 0, 0);
  }

  #acquire(fresh: boolean): void {
    this.#state = 'acquiring';
    const partition = this.plan.partition();
    // A tunnel takes no connection that could carry requests, and leaves none.
    if (fresh || this.plan.tunnel === true) this.context.pool.acquireFresh(partition, this);
    else this.context.pool.acquire(partition, this);
  }

  #askToken(
    connection: UpstreamConnection,
    authorize: (signal: AbortSignal) => Promise<PendingLogin>,
  ): void {
    const ready = (login: PendingLogin): void => {
      connection.login = login;
      this.#sentBatch = eventBatch();
      this.#send(connection);
    };
    this.caller.bodyHeld();
    this.#token.ask(authorize, ready, (error) => {
      const known = error instanceof ProxyError;
      this.fail(known ? error : upstreamError(this.plan.target, 'internal', 'no token'), 'error');
    });
  }

  /** Gives the connection up and asks for another one; the body is whole. */
  #retry(reason: CloseReason, fresh: boolean): void {
    this.#discard(reason);
    this.#awaitsContinue = false;
    this.caller.bodyHeld();
    this.#acquire(fresh);
  }

  #discard(reason: CloseReason): void {
    this.#token.drop();
    const lease = this.#lease;
    this.#lease = undefined;
    this.context.deadlines.disarm(this.#deadline);
    lease?.discard(reason);
  }

  #send(connection: UpstreamConnection): void {
    const { transport } = connection;
    const credentials = connection.login?.credentials;
    this.sentAt = this.#synchronous ? this.startedAt : this.context.clock.now();
    if (this.body.isEmpty && credentials === undefined) {
      this.#writer.sendHead(transport);
      this.#bodySent();
      return;
    }
    // The token is used once; whatever comes of it, this body is not sent again (R32, I11).
    if (credentials !== undefined) {
      this.body.stopKeeping();
      connection.login?.sent();
    }
    this.#ownExpect = this.#needsExpect(connection);
    this.#awaitsContinue = !this.body.isEmpty && (this.#ownExpect || this.#callerExpects);
    this.#keptUnsent = this.#awaitsContinue && this.body.kept !== undefined;
    const holdsBody = this.#awaitsContinue;
    const additions = { credentials, expect: this.#ownExpect, holdsBody };
    if (!this.#writer.send(transport, this.body, additions)) this.#malformedBody();
    else if (this.#awaitsContinue) this.#arm(CONTINUE_MS);
    else if (this.body.done) this.#bodySent();
    else if (transport.blocked) this.#arm(this.plan.idleMs);
    else if (!this.#synchronous) this.caller.bodyWanted();
  }

  // A warm connection may answer with a challenge; a body that cannot be sent again then waits until
  // the upstream asks for it (protocol.md, "Body policy").
  #needsExpect(connection: UpstreamConnection): boolean {
    const { hasIdentity, target } = this.plan;
    if (!hasIdentity || target.learned.ignoresExpect || this.#budget.expectTaken) return false;
    if (this.#callerExpects || this.minor === 0 || connection.login !== undefined) return false;
    return !this.body.done && !this.body.fits();
  }

  #bodySent(): void {
    this.#arm(this.plan.responseMs);
  }

  #malformedBody(): void {
    const text = 'the request body is not framed as its head says';
    const facts = { side: 'downstream', stage: 'request' } as const;
    this.closeWanted = true;
    this.fail(new ProxyError('request-malformed', text, facts), 'error');
  }

  #arm(ms: number): void {
    if (ms === Infinity) this.context.deadlines.disarm(this.#deadline);
    else this.context.deadlines.arm(this.#deadline, ms);
  }

  #expired(): void {
    if (this.#state !== 'sent') return;
    if (this.#awaitsContinue) {
      if (this.#ownExpect) this.plan.target.learned.ignoresExpect = true;
      this.continued();
      return;
    }
    this.fail(
      upstreamError(this.plan.target, 'response-timeout', 'no answer, or no end of it, in time'),
      'error',
    );
  }
}
