/**
 * One connection of a caller: reads its requests one after the other and gives each to the exchange.
 *
 *   head ──▶ body ──▶ answer ──▶ head …      (body is skipped where a request has none)
 *    │ ▲       │         ├──▶ flushing ──▶ head   (the caller reads slower than it asks)
 *    │ └ deciding        └──▶ tunnel              (deciding: somebody is asked who calls)
 *    └─────────┴─────────┴──▶ linger ──▶ closed   (last answer sent; late bytes are thrown away)
 *
 * A pipelining caller is served in order: bytes behind the request in work stay where they are, and
 * reading stops, until its answer is complete (hostile row C23).
 */
import { Deadline } from '../deadlines.ts';
import { ProxyError } from '../errors.ts';
import type { ClientCertificate } from '../identity/client-certificate.ts';
import type { Transport, TransportOwner } from '../transport/transport.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { Caller, ExchangeRecord, Requester } from './caller.ts';
import type { RelayContext, SharedRequestHead } from './context.ts';
import type { AskedAs, DownstreamSettings } from './downstream-settings.ts';
import { Exchange } from './exchange.ts';
import { HeldBytes } from './held-bytes.ts';
import type { ForwardingWriter, LocalAnswer, RoutePlan, Undecided } from './plan.ts';
import { acceptOf, FAULT_CODES, hasContent, isUpgrade, wantsClose } from './request-facts.ts';

export type { DownstreamSettings } from './downstream-settings.ts';

/** Decides what becomes of a parsed request. Throws nothing. */
export interface Dispatcher {
  /** A plan, an answer of our own, the reason for a refusal, or what has to be waited for. */
  dispatch(
    head: RequestHead,
    buffer: Buffer,
    connection: Requester,
  ): RoutePlan | LocalAnswer | ProxyError | Undecided;
}

/** Counts and logs what a connection did. */
export interface DownstreamObserver {
  /** A request was answered, or its connection broke. */
  finished(connection: Downstream, exchange: ExchangeRecord): void;
  /** A request was refused, or answered without an upstream. */
  answeredLocally(connection: Downstream, status: number, error: ProxyError | undefined): void;
  tunnelOpened(connection: Downstream): void;
  tunnelClosed(connection: Downstream): void;
  closed(connection: Downstream): void;
}

export interface DownstreamDeps {
  readonly context: RelayContext;
  readonly heads: SharedRequestHead;
  readonly dispatcher: Dispatcher;
  readonly observer: DownstreamObserver;
  readonly settings: DownstreamSettings;
  /** It is one request of a caller who sends many side by side; a second one is never read. */
  readonly multiplexed?: boolean;
}

type State = 'head' | 'deciding' | 'body' | 'answer' | 'flushing' | 'tunnel' | 'linger' | 'closed';

/** After the last answer: how long, and how much, a caller may still send before we close. */
const LINGER_MS = 2000;
const LINGER_BYTES = 1024 * 1024;

/** Whoever is asked who calls has a shorter deadline of his own; this one is for the case that it fails. */
const DECIDE_MS = 30_000;

/** Read on behalf of a request or its successor before they can use it. */
const HELD_BYTES = 16 * 1024;

export class Downstream implements TransportOwner, Caller, Requester {
  readonly transport: Transport;
  /** Address of the caller; `unix` for a unix socket. */
  readonly remoteAddress: string;
  /** What the caller's TLS connection brought; undefined: no certificate. */
  certificate: ClientCertificate | undefined;
  readonly multiplexed: boolean;
  /** Counts from the next request on. */
  forwarding: ForwardingWriter;
  /** Method and path of the present request, for the access log; empty when it is off. */
  loggedMethod = '';
  loggedTarget = '';
  hostText = '';
  answerLines: string | undefined;
  /** Bytes of the transport that the observer has counted. */
  countedIn = 0;
  countedOut = 0;
  readonly #deps: DownstreamDeps;
  readonly #exchange: Exchange;
  readonly #deadline = new Deadline(() => this.#expired());
  #state: State = 'head';
  #draining = false;
  /** Received and not used yet. */
  readonly #held = new HeldBytes();
  /** The parser of an incomplete head, which lies in `#held`. */
  #partialHead: RequestHead | undefined;
  /** Of the present head: a configuration that comes while it arrives does not count for it. */
  #dispatcher: Dispatcher;
  #peerEnded = false;
  #lingered = 0;
  #working = false;

  constructor(
    deps: DownstreamDeps,
    transport: Transport,
    remoteAddress: string,
    forwarding: ForwardingWriter,
  ) {
    this.#deps = deps;
    this.transport = transport;
    this.remoteAddress = remoteAddress;
    this.multiplexed = deps.multiplexed === true;
    this.forwarding = forwarding;
    this.#dispatcher = deps.dispatcher;
    this.#exchange = new Exchange(deps.context, this);
    transport.owner = this;
    this.#arm(deps.settings.headMs);
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** No further request: closes at once when idle, else after the present answer. */
  drain(): void {
    this.#draining = true;
    if (this.#state === 'head' && this.#held.isEmpty) this.#closeNow();
  }

  /** Closes whatever is in work. */
  destroy(): void {
    this.transport.destroy();
  }

  /**
   * Refuses the connection as a whole, before any request was read. `isHead`: the answer is one to HEAD.
   */
  refuse(error: ProxyError, { isHead = false }: { readonly isHead?: boolean } = {}): void {
    this.#answerLocally(error, { isHead });
  }

  // --- The caller's side ------------------------------------------------------------------------

  received(buffer: Buffer, start: number, end: number): boolean {
    if (this.#state === 'linger') return this.#throwAway(end - start);
    if (this.#state === 'closed') return true;
    if (this.#held.isEmpty) return this.#work(buffer, start, end);
    this.#held.append(buffer, start, end);
    return this.#isWaiting() ? this.#mayRead() : this.#workHeld();
  }

  drained(): void {
    if (this.#state === 'flushing') {
      this.#state = 'head';
      this.#next();
      return;
    }
    this.#exchange.connection?.transport.resume();
  }

  ended(): void {
    this.#peerEnded = true;
    switch (this.#state) {
      case 'head':
        this.#closeNow();
        return;
      case 'body':
        if (!this.#held.isEmpty && this.#exchange.active) return;
        // The rest of the body will not come: the upstream must not take it for complete.
        this.#exchange.abandon();
        this.#closeNow();
        return;
      case 'linger':
        this.#closeNow();
        return;
      default:
    }
  }

  closed(): void {
    if (this.#state === 'closed') return;
    const wasTunnel = this.#state === 'tunnel';
    this.#state = 'closed';
    this.#deps.context.deadlines.disarm(this.#deadline);
    this.#held.drop();
    if (!wasTunnel) this.#exchange.abandon();
    this.#exchange.pinned.drop();
    this.#deps.observer.closed(this);
  }

  // --- The exchange's side ------------------------------------------------------------------------

  bodyWanted(): void {
    if (this.#state !== 'body') return;
    if (!this.#held.isEmpty && !this.#working) this.#workHeld();
    if (this.#state === 'body' && this.#exchange.wantsBody) {
      if (this.#endsHere()) return;
      this.#arm(this.#deps.settings.bodyMs);
      this.transport.resume();
    }
  }

  bodyHeld(): void {
    if (this.#state === 'body') this.#disarm();
  }

  bodyRefused(): void {
    if (this.#state !== 'body') return;
    this.#state = 'answer';
    this.#disarm();
    this.#held.drop();
  }

  answered(exchange: ExchangeRecord, close: boolean): void {
    this.#deps.observer.finished(this, exchange);
    if (this.#state === 'closed') return;
    if (close) {
      this.#linger();
      return;
    }
    this.#becomeFree();
    this.#next();
  }

  broken(exchange: ExchangeRecord): void {
    if (this.#state === 'tunnel') this.#deps.observer.tunnelClosed(this);
    this.#deps.observer.finished(this, exchange);
    if (this.#state === 'tunnel') this.closed();
  }

  tunnelled(): void {
    this.#state = 'tunnel';
    this.#disarm();
    this.#deps.observer.tunnelOpened(this);
    const { bytes, start, end } = this.#held;
    this.#held.drop();
    if (bytes !== undefined) this.transport.owner.received(bytes, start, end);
    if (this.#peerEnded) this.transport.owner.ended();
  }

  // --- Private ----------------------------------------------------------------------------------

  /** Uses bytes; what cannot be used yet is held. Answers false to stop reading. */
  #work(buffer: Buffer, start: number, end: number): boolean {
    this.#working = true;
    let at = start;
    for (;;) {
      if (this.#state === 'head') {
        if (at === end) break;
        const next = this.#readHead(buffer, at, end);
        if (next < 0) break;
        at = next;
      } else if (this.#state === 'body') {
        if (at === end || !this.#exchange.wantsBody) break;
        at = this.#exchange.takeBody(buffer, at, end);
        this.#afterBody();
      } else {
        break;
      }
    }
    this.#working = false;
    if (this.#state === 'linger' || this.#state === 'closed') {
      this.#held.drop();
      return true;
    }
    if (this.#partialHead === undefined) this.#hold(buffer, at, end);
    return this.#mayRead();
  }

  // A caller that goes away is noticed only while it is read from: a login or a queue must not go on
  // for nobody (R17). So reading stops only once enough is held.
  #mayRead(): boolean {
    const head = this.#state === 'deciding' ? this.#deps.settings.limits.maxBytes : 0;
    return this.#partialHead !== undefined || this.#held.length < head + HELD_BYTES;
  }

  /** What is held cannot be used yet. */
  #isWaiting(): boolean {
    if (this.#state === 'body') return !this.#exchange.wantsBody;
    return this.#state !== 'head';
  }

  #workHeld(): boolean {
    const { bytes, start, end } = this.#held;
    if (bytes === undefined) return true;
    if (this.#partialHead === undefined) this.#held.drop();
    const mayRead = this.#work(bytes, start, end);
    return !this.#endsHere() && mayRead;
  }

  /**
   * Closes where more would have to come from a caller who has closed his side: the next head, the rest
   * of one, or the rest of a body, which the upstream must not take for complete.
   */
  #endsHere(): boolean {
    if (!this.#peerEnded) return false;
    const { active, wantsBody } = this.#exchange;
    const isCut = this.#state === 'body' && this.#held.isEmpty && active && wantsBody;
    if (!isCut && this.#state !== 'head') return false;
    if (isCut) this.#exchange.abandon();
    this.#closeNow();
    return true;
  }

  /** An answer is complete: the next head may be read once the caller has taken what was written. */
  #becomeFree(): void {
    this.#state = this.transport.blocked ? 'flushing' : 'head';
    if (this.#state === 'flushing') this.#arm(this.#deps.settings.idleMs);
  }

  /** Goes on with what was held, after an answer. */
  #next(): void {
    if (this.#working || this.#state === 'flushing') return;
    if (this.#draining) {
      this.#linger();
      return;
    }
    this.#arm(this.#deps.settings.idleMs);
    if (!this.#held.isEmpty && !this.#workHeld()) return;
    if (this.#endsHere()) return;
    if (this.#mayRead()) this.transport.resume();
  }

  #hold(buffer: Buffer, start: number, end: number): void {
    if (start < end) {
      this.#held.keep(buffer, start, end);
      return;
    }
    this.#held.drop();
    if (this.#state === 'head') this.#arm(this.#deps.settings.idleMs);
  }

  /** Answers the offset of the next byte to use, or -1 when this reading is over. */
  #readHead(buffer: Buffer, start: number, end: number): number {
    const { heads, settings } = this.#deps;
    const partial = this.#partialHead;
    const head = partial ?? heads.current;
    if (partial === undefined) this.#dispatcher = this.#deps.dispatcher;
    const next =
      partial === undefined
        ? head.parse(buffer, start, end, settings.limits)
        : head.resume(buffer, end);
    if (next === 0) {
      if (partial === undefined) {
        this.#partialHead = heads.take();
        this.#arm(settings.headMs);
        this.#held.keepHead(buffer, start, end);
      }
      return -1;
    }
    this.#partialHead = undefined;
    if (partial !== undefined) this.#held.drop();
    if (next < 0) {
      this.loggedMethod = '';
      this.loggedTarget = '';
      const facts = { side: 'downstream', stage: 'request' } as const;
      this.#answerLocally(new ProxyError(FAULT_CODES[head.fault], head.faultDetail, facts));
      return -1;
    }
    return this.#begin(head, buffer, next, end);
  }

  #begin(head: RequestHead, buffer: Buffer, bodyStart: number, end: number): number {
    this.answerLines = undefined;
    const decision = this.#dispatcher.dispatch(head, buffer, this);
    if (decision instanceof ProxyError) {
      const { answerLines } = this;
      const accept = acceptOf(head, buffer);
      this.#answerLocally(decision, { isHead: head.isHead, accept, answerLines });
      return -1;
    }
    if (decision.kind === 'redirect') return this.#redirect(decision, head, bodyStart);
    if (decision.kind === 'undecided') {
      this.#state = 'deciding';
      this.#arm(DECIDE_MS);
      void decision.settled.then(() => this.#decided());
      return -1;
    }
    const plan: RoutePlan = decision;
    const hasBody = hasContent(head);
    this.#state = hasBody ? 'body' : 'answer';
    this.#disarm();
    const upgrade = head.upgrade && !hasBody && isUpgrade(plan, head, buffer);
    // A caller whose CONNECT is refused may have sent more than HTTP already.
    const close = plan.tunnel === true || this.#isLast(head);
    const { forwarding } = this;
    const facts = { plan, head, buffer, bodyStart, end, forwarding, upgrade, close };
    const next = this.#exchange.start(facts);
    this.#afterBody();
    return next;
  }

  // The head lies in `#held` and is parsed once more: a configuration that came meanwhile counts for it.
  #decided(): void {
    if (this.#state !== 'deciding') return;
    this.#state = 'head';
    if (this.#workHeld()) this.transport.resume();
  }

  #afterBody(): void {
    if (this.#state !== 'body') return;
    if (this.#exchange.body.done) {
      this.#state = 'answer';
      this.#disarm();
      // An upload is over: an idle caller needs no large buffer.
      this.transport.shrink();
    } else if (this.#exchange.wantsBody) {
      this.#arm(this.#deps.settings.bodyMs);
    } else {
      this.#disarm();
    }
  }

  #redirect(answer: LocalAnswer, head: RequestHead, bodyStart: number): number {
    const hasBody = hasContent(head);
    const close = hasBody || head.minor === 0 || this.#isLast(head);
    const { answerLines } = this;
    const options = { accept: undefined, isHead: head.isHead, close, answerLines };
    const { bytes, status } = this.#deps.context.answers.redirect(answer.location, options);
    this.transport.write(bytes, undefined);
    this.#deps.observer.answeredLocally(this, status, undefined);
    if (close) {
      this.#linger();
      return -1;
    }
    this.#becomeFree();
    return bodyStart;
  }

  /** The caller's connection ends after the answer to this request. */
  #isLast(head: RequestHead): boolean {
    return this.#draining || this.multiplexed || wantsClose(head);
  }

  #answerLocally(error: ProxyError, asked: AskedAs = { isHead: false }): void {
    const { challenge } = this.#deps.settings;
    const options = { accept: undefined, ...asked, close: true, challenge };
    const { bytes, status } = this.#deps.context.answers.error(error, options);
    this.transport.write(bytes, undefined);
    this.#deps.observer.answeredLocally(this, status, error);
    this.#linger();
  }

  // A close right after the answer would make the caller's kernel drop it when more bytes are on
  // their way (RFC 9112 9.6): FIN first, then read to the end, bounded. What is bounded begins when
  // the kernel has the whole answer: a caller may take its time to read it.
  #linger(): void {
    if (this.#state === 'closed') return;
    this.#state = 'linger';
    this.#held.drop();
    this.#partialHead = undefined;
    this.#arm(this.#deps.settings.idleMs);
    this.transport.pause();
    this.transport.end(() => this.#answerLeft());
  }

  #answerLeft(): void {
    if (this.#state !== 'linger' || this.transport.closed) return;
    if (this.#peerEnded) {
      this.#closeNow();
      return;
    }
    this.#arm(LINGER_MS);
    this.transport.resume();
  }

  #throwAway(bytes: number): boolean {
    this.#lingered += bytes;
    // What goes beyond stays in the kernel: a close would cut off an answer that is not read yet.
    return this.#lingered <= LINGER_BYTES;
  }

  #closeNow(): void {
    if (this.#state !== 'closed') {
      this.#state = 'linger';
      // The caller may never read what is still to be sent.
      this.#arm(this.#deps.settings.idleMs);
    }
    this.transport.destroyAfterFlush();
  }

  #arm(ms: number): void {
    this.#deps.context.deadlines.arm(this.#deadline, ms);
  }

  #disarm(): void {
    this.#deps.context.deadlines.disarm(this.#deadline);
  }

  #expired(): void {
    const facts = { side: 'downstream', stage: 'request' } as const;
    if (this.#state === 'head' && this.#partialHead !== undefined) {
      this.#answerLocally(
        new ProxyError('request-timeout', 'the request head is incomplete', facts),
      );
    } else if (this.#state === 'deciding') {
      const late = new ProxyError('caller-check-busy', 'nobody said who calls in time', facts);
      this.#answerLocally(late);
    } else if (this.#state === 'body') {
      const error = new ProxyError('request-timeout', 'the request body stopped', facts);
      this.#exchange.fail(error, 'error');
    } else {
      this.transport.destroy();
    }
  }
}
