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
import type { ErrorCode, ProxyError } from '../errors.ts';
import type { CloseReason } from '../pool/connection.ts';
import type { Lease } from '../pool/lease.ts';
import type { Place, Waiter } from '../pool/partition.ts';
import type { TransportOwner } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { HopName } from '../upstream/login-state.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';
import type { ByteSink } from '../wire/chunked.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import { CONTINUE, established, NO_BYTES } from './bytes.ts';
import type { Caller } from './caller.ts';
import type { RelayContext } from './context.ts';
import { eventBatch } from './event-batch.ts';
import { PinnedConnection } from './pinned.ts';
import { Expectation } from './expectation.ts';
import { answerOptionsFor, hasAnyIdentity, type RoutePlan } from './plan.ts';
import { RequestBody } from './request-body.ts';
import type { StartFacts } from './request-head-writer.ts';
import { takesTrailers } from './request-facts.ts';
import { RequestToken } from './request-token.ts';
import { LOGIN_ON_PIN, RetryBudget } from './retry-budget.ts';
import { RequestWriter } from './request-writer.ts';
import { type ResponseHost, ResponseReader } from './response-reader.ts';
import { tunnelLease } from './tunnel.ts';
import { malformedBody, upstreamError } from './upstream-error.ts';

/** How long an answer to `Expect: 100-continue` is waited for (RFC 9110 10.1.1 leaves it open). */
const CONTINUE_MS = 1000;

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
  takesTrailers = false;
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
  readonly #expectation = new Expectation();
  readonly #budget = new RetryBudget();
  /** The answer refused the rest of the body. */
  #bodyStopped = false;
  /** Turn of the event loop in which an idle connection was written to; -1: it was not idle. */
  #sentBatch = -1;
  readonly #token = new RequestToken();
  readonly pinned = new PinnedConnection(() => this.caller.drain());
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
    return { method, safe, challenged: this.#budget.challengedPlain, ...this.#writer.addressee };
  }

  get plan(): RoutePlan {
    if (this.#plan === undefined) throw new Error('no request is in work');
    return this.#plan;
  }

  get connection(): UpstreamConnection | undefined {
    return this.#lease?.connection;
  }

  /** The secret of this try is not the one in force any more. */
  get rotated(): boolean {
    return this.#lease?.rotated === true;
  }

  get active(): boolean {
    return this.#state === 'acquiring' || this.#state === 'sent';
  }

  /** Body bytes may be given to `takeBody` now. */
  get wantsBody(): boolean {
    const connection = this.connection;
    if (connection === undefined || this.#expectation.awaited || this.body.done) return false;
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
    const mayRepeat = hasAnyIdentity(plan) || head.idempotent;
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
    if (this.plan.tunnel === true) this.#establish(connection);
    else if (RequestToken.isNeeded(connection)) this.#askToken(connection);
    else this.#send(connection);
  }

  refused(error: ProxyError): void {
    // The partition was retired while this request stood in line: the new one takes it (R15).
    if (this.#budget.takeRefused(error)) {
      this.#acquire(false);
      return;
    }
    const other = this.plan.ways?.after(this.plan, error);
    if (other === undefined) this.fail(error, 'error');
    else this.#takeOtherWay(other);
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
    if (this.body.done || this.#bodyStopped || this.#expectation.awaited) return;
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
    // What a caller's own login was made on has no substitute, and its tokens are sent once (R32, R35).
    const mayRetry = reused && !this.pinned.wanted;
    if (unanswered && mayRetry && this.idempotent && this.body.whole && this.#budget.takeLost()) {
      this.#retry(reason, false);
      return;
    }
    const what = unanswered ? 'closed the connection without an answer' : 'cut its answer';
    this.fail(upstreamError(this.plan.target, 'upstream-closed', what, cause), reason);
  }

  // --- What the answer leads to (called by the reader) ------------------------------------------

  /** The upstream is ready for the body. */
  continued(): void {
    const expectation = this.#expectation;
    if (expectation.ofCaller) {
      expectation.ofCaller = false;
      this.caller.transport.write(CONTINUE, undefined);
    }
    if (!expectation.awaited) return;
    this.context.deadlines.disarm(this.#deadline);
    const transport = this.connection?.transport;
    const unsent = expectation.end(this.body);
    if (unsent !== undefined) transport?.write(unsent, undefined);
    if (transport?.blocked === true) this.#arm(this.plan.idleMs);
    if (this.body.done) this.#bodySent();
    else this.caller.bodyWanted();
  }

  /** Whether a request that waits for `100 Continue` was answered with a final status. */
  get heldBody(): boolean {
    return this.#expectation.awaited;
  }

  /** The daemon's own Expect was refused: it asks for nothing further times. */
  expectRefused(): boolean {
    if (!this.#expectation.own || !this.body.whole || !this.#budget.takeExpect()) return false;
    this.plan.target.learned.ignoresExpect = true;
    this.#retry('error', false);
    return true;
  }

  /** Our challenge of `hop` outside of a login: one login on a fresh connection, or an error. */
  challengedAgain(hop: HopName): void {
    const { plan, connection } = this;
    const target = (hop === 'parent' ? plan.parent?.target : undefined) ?? plan.target;
    target.learned.challenges = 'yes';
    const plain = connection?.[hop]?.authenticated === false;
    // A login that did not last for the next request is one for a request (R37).
    if (hop === 'parent' && !plain) target.learned.persistence = 'request';
    const refusal = this.pinned.lasting
      ? LOGIN_ON_PIN
      : this.#budget.takeLogin(hop, plain, this.body.whole);
    if (refusal !== undefined) {
      this.fail(upstreamError(target, refusal.code, refusal.what), 'auth_failed');
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
    this.#expectation.awaited = false;
    this.#bodyStopped = true;
    this.caller.bodyRefused();
  }

  /** The answer is complete. `reusable`: the connection is byte-clean and may carry another request. */
  answered(reusable: boolean, close: boolean): void {
    const lease = this.#lease;
    this.#lease = undefined;
    this.context.deadlines.disarm(this.#deadline);
    this.#state = 'ended';
    const clean = reusable && this.body.done;
    // Caller and connection end together, or he would go on as nobody.
    const ends = close || !this.body.done || (this.pinned.wanted && !clean);
    if (this.pinned.wanted) this.pinned.end(lease, this.plan.pinKey, clean && !ends);
    else if (clean) lease?.release();
    else lease?.discard('error');
    this.body.end();
    this.caller.answered(this, ends);
  }

  /** The upstream switched protocols: bytes flow both ways until both sides end (R23). */
  becomeTunnel(buffer: Buffer, start: number, end: number): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    this.context.deadlines.disarm(this.#deadline);
    this.#state = 'ended';
    tunnelLease(lease, this.context, {
      caller: this.caller.transport,
      idleMs: this.plan.tunnelIdleMs,
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
    const ends = this.closeWanted || this.minor === 0 || this.caller.draining;
    const close = ends || !this.body.done || this.pinned.wanted;
    const own = answerOptionsFor(this.plan, error, this.caller);
    const options = { accept: this.#writer.accept, isHead: this.isHead, close, ...own };
    const answer = this.context.answers.error(error, options);
    this.status = answer.status;
    this.body.end();
    this.caller.transport.write(answer.bytes, undefined);
    if (!this.body.done) this.caller.bodyRefused();
    this.caller.answered(this, close);
  }

  // --- Private --------------------------------------------------------------------------------

  #reset({ plan, head, buffer, upgrade, close }: StartFacts): void {
    this.#plan = plan;
    this.method = head.method;
    this.safe = head.safe;
    this.idempotent = head.idempotent;
    this.isHead = head.isHead;
    this.minor = head.minor;
    this.takesTrailers = takesTrailers(head, buffer);
    this.upgrade = upgrade;
    this.closeWanted = close;
    this.status = 0;
    this.errorCode = undefined;
    this.startedAt = this.context.clock.now();
    this.#expectation.reset(head.expectContinue && head.count(REQUEST_FIELD.expect) > 0);
    this.#budget.reset();
    this.#bodyStopped = false;
    this.pinned.reset(plan.pins === true);
    this.leaseResult = undefined;
    this.#reader.begin();
  }

  /** A CONNECT has its connection. */
  #establish(connection: UpstreamConnection): void {
    const early = connection.early ?? NO_BYTES;
    connection.early = undefined;
    this.status = 200;
    this.endedAt = this.context.clock.now();
    this.caller.transport.write(established(this.caller.answerLines), undefined);
    this.becomeTunnel(early, 0, early.length);
  }

  #acquire(fresh: boolean): void {
    this.#state = 'acquiring';
    const { plan } = this;
    const partition = plan.partition();
    const pinned = this.pinned.take(plan.pinKey, partition);
    if (pinned !== undefined) {
      this.leased(pinned);
      return;
    }
    // A tunnel takes no connection that could carry requests, and leaves none; nor does a caller who
    // logs in by himself.
    const alone = plan.tunnel === true || plan.pins === true;
    if (fresh || alone) this.context.pool.acquireFresh(partition, this);
    else this.context.pool.acquire(partition, this);
  }

  #askToken(connection: UpstreamConnection): void {
    const ready = (): void => {
      this.#sentBatch = eventBatch();
      this.#send(connection);
    };
    this.caller.bodyHeld();
    this.#token.ask(connection, ready, (error) => this.fail(error, 'error'));
  }

  #takeOtherWay(other: RoutePlan): void {
    this.#writer.retarget(this.plan.prefix, other.prefix);
    this.#plan = other;
    this.#acquire(false);
  }

  /** Gives the connection up and asks for another one; the body is whole. */
  #retry(reason: CloseReason, fresh: boolean): void {
    this.#discard(reason);
    this.#expectation.awaited = false;
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
    const credentials = connection.origin.credentialsFor(this.#writer);
    const proxyCredentials = connection.parent?.credentialsFor(this.#writer);
    this.sentAt = this.#synchronous ? this.startedAt : this.context.clock.now();
    if (this.body.isEmpty && credentials === undefined && proxyCredentials === undefined) {
      this.#writer.sendHead(transport);
      this.#bodySent();
      return;
    }
    // The token is used once; whatever comes of it, this body is not sent again (R32, I11).
    if (connection.carriesToken) this.body.stopKeeping();
    connection.sent();
    const mayExpect = this.minor === 1 && !this.#budget.expectTaken && !this.pinned.lasting;
    const expect = mayExpect && this.#expectation.needsOwn(this.plan, connection, this.body);
    this.#expectation.begin(expect, this.body);
    const holdsBody = this.#expectation.awaited;
    const additions = { credentials, proxyCredentials, expect, holdsBody };
    if (!this.#writer.send(transport, this.body, additions)) this.#malformedBody();
    else if (holdsBody) this.#arm(CONTINUE_MS);
    else if (this.body.done) this.#bodySent();
    else if (transport.blocked) this.#arm(this.plan.idleMs);
    else if (!this.#synchronous) this.caller.bodyWanted();
  }

  #bodySent(): void {
    this.#arm(this.plan.responseMs);
  }

  #malformedBody(): void {
    this.closeWanted = true;
    this.fail(malformedBody(), 'error');
  }

  #arm(ms: number): void {
    if (ms === Infinity) this.context.deadlines.disarm(this.#deadline);
    else this.context.deadlines.arm(this.#deadline, ms);
  }

  #expired(): void {
    if (this.#state !== 'sent') return;
    if (this.#expectation.awaited) {
      if (this.#expectation.own) this.plan.target.learned.ignoresExpect = true;
      this.continued();
      return;
    }
    const text = 'no answer, or no end of it, in time';
    this.fail(upstreamError(this.plan.target, 'response-timeout', text), 'error');
  }
}
