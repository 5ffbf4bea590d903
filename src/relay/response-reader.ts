/**
 * Reads the answer of one exchange from its upstream connection and passes it on.
 *
 * Decides: whether the head is sound, what an interim or final status leads to (config.md, 401
 * table), and whether the connection may carry another request. The body is `response-body.ts`'s;
 * nothing is stored but an incomplete head.
 */
import { type ErrorCode, ProxyError } from '../errors.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { HopName } from '../upstream/login-state.ts';
import type { UpstreamTarget } from '../upstream/target.ts';
import { keepsConnection, keepsSessions } from '../wire/proxy-support.ts';
import { RESPONSE_FIELD, type ResponseHead } from '../wire/response-head.ts';
import type { Caller } from './caller.ts';
import type { RelayContext } from './context.ts';
import { IncompleteHead } from './incomplete-head.ts';
import {
  judgeAnswer,
  type Judged,
  PROXY_AUTHENTICATION_REQUIRED,
  schemesOf,
} from './login-judgement.ts';
import type { RoutePlan } from './plan.ts';
import { ResponseBody } from './response-body.ts';
import { upstreamError } from './upstream-error.ts';
import { hasChanges, INTERIM_DROP, RESPONSE_DROP, responseChanges } from './response-changes.ts';
import {
  closeGaps,
  type LineChanges,
  responseHeadBound,
  writeResponseHead,
} from './response-head-writer.ts';

/** Interim answers of one request; more are an attack (hostile row E9). */
const MAX_INTERIM = 32;

/** Schemes that authenticate a connection, however a server spells them (R19). */
const CONNECTION_SCHEME = /^(?:ntlm|nego|kerberos)/;

const UNAUTHORIZED = 401;

/** The exchange, as its reader sees it. */
export interface ResponseHost {
  readonly caller: Caller;
  readonly context: RelayContext;
  readonly plan: RoutePlan;
  readonly connection: UpstreamConnection | undefined;
  readonly body: { readonly done: boolean };
  /** Whether the connection stays with the caller, who is being asked for a login. */
  readonly pinned: { wanted: boolean };
  readonly isHead: boolean;
  readonly minor: 0 | 1;
  /** The caller takes trailers of the answer. */
  readonly takesTrailers: boolean;
  /** Lower case; undefined when no upgrade was asked for. */
  readonly askedProtocol: string | undefined;
  readonly closeWanted: boolean;
  /** The secret of this try is not the one in force any more. */
  readonly rotated: boolean;
  /** Neither answered nor given up. */
  readonly active: boolean;
  /** The body waits for an interim answer. */
  readonly heldBody: boolean;
  /** Clock ms when the head was sent. */
  readonly sentAt: number;
  /** Clock ms when the answer ended. */
  endedAt: number;
  status: number;
  continued(): void;
  expectRefused(): boolean;
  challengedAgain(hop: HopName): void;
  progressed(): void;
  stopBody(): void;
  answered(reusable: boolean, close: boolean): void;
  becomeTunnel(buffer: Buffer, start: number, end: number): void;
  fail(error: ProxyError, reason: 'error' | 'auth_failed'): void;
}

/** Room for the line of a chunk of ours. */
const CHUNK_LINE = 32;

export class ResponseReader {
  /** No byte of an answer has come. */
  untouched = true;
  /** Bytes of the final answer went to the caller. */
  started = false;
  readonly #exchange: ResponseHost;
  readonly #body: ResponseBody;
  #phase: 'head' | 'judging' | 'body' | 'done' = 'head';
  /** Grows with each try of a request, so that a late verdict is seen to be late. */
  #tries = 0;
  #interim = 0;
  #incomplete: IncompleteHead | undefined;
  #readsSinceHead = 0;
  #keep = false;
  #close = false;

  constructor(exchange: ResponseHost) {
    this.#exchange = exchange;
    this.#body = new ResponseBody(exchange.caller.transport);
  }

  /** Before each try of a request. */
  begin(): void {
    this.#tries += 1;
    this.untouched = true;
    this.started = false;
    this.#phase = 'head';
    this.#interim = 0;
    this.#incomplete = undefined;
  }

  received(buffer: Buffer, start: number, end: number): boolean {
    this.untouched = false;
    this.#body.flowing = true;
    this.#readsSinceHead += 1;
    if (this.#phase === 'body') this.#readBody(buffer, start, end);
    else if (this.#phase === 'head') this.#readHead(buffer, start, end);
    // A finished exchange has no say over a connection that may be another's by now.
    return this.#phase === 'done' || (this.#phase !== 'judging' && this.#body.flowing);
  }

  /** FIN of the upstream. True when that is how this answer ends. */
  ended(): boolean {
    if (this.#phase !== 'body' || !this.#body.endsWithConnection) return this.#phase === 'done';
    this.#body.endWithConnection();
    this.#finish(false);
    return true;
  }

  // --- Head -----------------------------------------------------------------------------------

  #readHead(received: Buffer, receivedStart: number, receivedEnd: number): void {
    const { context } = this.#exchange;
    const incomplete = this.#incomplete;
    this.#incomplete = undefined;
    if (incomplete === undefined) {
      const head = context.responseHead;
      const next = head.parse(received, receivedStart, receivedEnd, context.responseLimits);
      this.#headParsed(head, received, receivedStart, receivedEnd, next, undefined);
      return;
    }
    incomplete.append(received, receivedStart, receivedEnd);
    const { head, buffer, end } = incomplete;
    this.#headParsed(head, buffer, head.headStart, end, head.resume(buffer, end), incomplete);
  }

  /** Goes through interim answers to the final one, or keeps what is incomplete. */
  #headParsed(
    head: ResponseHead,
    buffer: Buffer,
    firstStart: number,
    end: number,
    firstNext: number,
    incomplete: IncompleteHead | undefined,
  ): void {
    const { context } = this.#exchange;
    let start = firstStart;
    let next = firstNext;
    while (next > 0) {
      if (head.status >= 200 || head.status === 101) {
        this.#finalHead(head, buffer, next, end);
        return;
      }
      if (!this.#interimHead(head, buffer) || next === end) return;
      start = next;
      next = head.parse(buffer, start, end, context.responseLimits);
    }
    if (next < 0) {
      this.#fail('response-malformed', `sent a head that is ${head.faultDetail}`);
      return;
    }
    const own = head === context.responseHead ? context.takeResponseHead() : head;
    this.#incomplete = incomplete ?? new IncompleteHead(own, buffer, start, end);
  }

  /** False when the exchange ended over it. */
  #interimHead(head: ResponseHead, buffer: Buffer): boolean {
    this.#interim += 1;
    if (this.#interim > MAX_INTERIM || head.minor === 0) {
      this.#fail('response-malformed', 'sent more interim answers than any request has');
      return false;
    }
    const exchange = this.#exchange;
    if (head.status === 100) {
      exchange.continued();
      return exchange.active;
    }
    if (exchange.minor === 1) {
      const out = Buffer.allocUnsafe(head.headEnd - head.headStart + 64);
      const none = { leaveOut: new Set<number>(), added: Buffer.alloc(0) };
      const length = writeResponseHead(head, buffer, INTERIM_DROP, none, out);
      exchange.caller.transport.write(out.subarray(0, length), undefined);
    }
    return true;
  }

  #finalHead(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    const now = exchange.context.clock.now();
    exchange.endedAt = now;
    exchange.plan.meters.firstByte.observe((now - exchange.sentAt) / 1000);
    if (
      head.status === PROXY_AUTHENTICATION_REQUIRED &&
      exchange.connection?.parent === undefined
    ) {
      this.#fail('proxy-auth-from-origin', 'asked for a proxy login, which only a proxy may');
      return;
    }
    const judged = judgeAnswer(exchange.connection, head, buffer);
    if (judged instanceof Promise) this.#await(judged, head, buffer, next, end);
    else this.#decided(judged, head, buffer, next, end);
  }

  // --- The 401 table ----------------------------------------------------------------------------

  /** Holds the answer back until the peer's last token was checked elsewhere (R36). */
  #await(
    judged: Promise<Judged>,
    head: ResponseHead,
    buffer: Buffer,
    next: number,
    end: number,
  ): void {
    const exchange = this.#exchange;
    const { context } = exchange;
    const own = head === context.responseHead ? context.takeResponseHead() : head;
    const held = new IncompleteHead(own, buffer, head.headStart, end);
    const tries = this.#tries;
    const stands = (): boolean => tries === this.#tries && exchange.active;
    this.#phase = 'judging';
    const failed = (error: unknown): void => {
      if (!stands()) return;
      const code = error instanceof ProxyError ? error.code : 'internal';
      this.#fail(code, 'could not prove who it is', 'auth_failed');
    };
    const decided = (verdict: Judged): void => {
      if (!stands()) return;
      this.#phase = 'head';
      // First: with the end of the answer the connection may belong to the next request.
      exchange.connection?.transport.resume();
      this.#decided(verdict, held.head, held.buffer, next, held.end);
    };
    void judged.then(decided, failed);
  }

  #decided(judged: Judged, head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    if (judged !== undefined && this.#isRefused(judged)) return;
    if (head.status === PROXY_AUTHENTICATION_REQUIRED) {
      this.#parentAsks(judged, head, buffer);
    } else if (
      judged === undefined &&
      head.status === UNAUTHORIZED &&
      this.#asksAgain(head, buffer)
    ) {
      exchange.challengedAgain('origin');
    } else if (head.status === 101) {
      this.#switchProtocols(head, buffer, next, end);
    } else if (head.status !== 417 || !exchange.expectRefused()) {
      this.#deliver(head, buffer, next, end);
    }
  }

  /** The hop let the login not pass, so that the answer is none to the request; true: it was seen to. */
  #isRefused({ hop, verdict }: NonNullable<Judged>): boolean {
    const exchange = this.#exchange;
    if (verdict === 'denied') {
      this.#fail('upstream-denied', 'denies this request to the user', 'auth_failed', hop);
      return true;
    }
    if (verdict !== 'rejected' && verdict !== 'unasked') return false;
    // With a new secret, or on a connection that has asked, it may pass: nothing was executed (R15, R39).
    if (verdict === 'unasked' || exchange.rotated) exchange.challengedAgain(hop);
    else this.#fail('credential-rejected', 'refused the credential', 'auth_failed', hop);
    return true;
  }

  /** Whether a 401 outside of a login asks for ours. */
  #asksAgain(head: ResponseHead, buffer: Buffer): boolean {
    const { plan, connection, pinned, minor, closeWanted } = this.#exchange;
    const schemes = schemesOf(head, buffer, 'origin');
    if (plan.hasIdentity) return schemes.some((scheme) => plan.loginSchemes.includes(scheme));
    if (!schemes.some((scheme) => CONNECTION_SCHEME.test(scheme))) return false;
    // Taint by response (R19): a socket that was asked for such a login serves nobody else.
    const mayKeep = plan.pinKey !== undefined && minor === 1 && !closeWanted;
    if (mayKeep && this.#reachesOrigin(head, buffer)) pinned.wanted = true;
    else connection?.spend();
    return false;
  }

  /** The caller's connection is one to the origin, also through a parent that says so. */
  #reachesOrigin(head: ResponseHead, buffer: Buffer): boolean {
    return this.#exchange.plan.parent === undefined || keepsSessions(head, buffer);
  }

  /** A 407 of the parent that did not refuse a token of ours. */
  #parentAsks(judged: Judged, head: ResponseHead, buffer: Buffer): void {
    const { parent } = this.#exchange.plan;
    const ours = schemesOf(head, buffer, 'parent').some(
      (scheme) => parent?.loginSchemes.includes(scheme) === true,
    );
    if (judged === undefined && parent?.hasIdentity === true && ours) {
      this.#exchange.challengedAgain('parent');
      return;
    }
    const what = 'asks for a login that is not configured or not offered here';
    this.#fail('parent-auth', what, 'auth_failed', 'parent');
  }

  // --- Delivery ---------------------------------------------------------------------------------

  #deliver(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    const bodiless = exchange.isHead || head.status === 204 || head.status === 304;
    if (head.status === 204 && (head.chunked || head.contentLength > 0)) {
      this.#fail('response-malformed', 'sent a 204 with content');
      return;
    }
    this.#keep = keepsConnection(head, buffer, exchange.connection?.parent !== undefined);
    this.#close = this.#endsCaller();
    if (!exchange.body.done && (head.status >= 400 || exchange.heldBody)) {
      this.#close = true;
      exchange.stopBody();
    }
    const { minor, connection: upstream } = exchange;
    const body = this.#body;
    const trailers = exchange.takesTrailers;
    body.begin(head, { bodiless, callerMinor: minor, trailers }, upstream?.transport);
    // An HTTP/1.0 caller learns the end of such a body from the connection alone.
    if (body.reframed === 'dechunk' || (minor === 0 && body.endsWithConnection)) this.#close = true;
    exchange.status = head.status;
    this.started = true;
    this.#readsSinceHead = 1;
    this.#phase = 'body';
    this.#sendHead(head, buffer, next, end);
    this.#readBody(buffer, next, end);
  }

  /** The caller's own login ends with its connection; he is told, and begins anew on another one. */
  #endsCaller(): boolean {
    const { closeWanted, caller, pinned } = this.#exchange;
    return closeWanted || caller.draining || (pinned.wanted && !this.#keep);
  }

  #sendHead(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const body = this.#body;
    const connection = this.#connectionLine();
    const { answerLines } = this.#exchange.caller;
    const says = connection !== undefined || answerLines !== undefined;
    const plain = !says && body.reframed === 'same';
    if (plain && !hasChanges(head, buffer, this.#exchange.plan.rewriter)) {
      body.headAt(buffer, closeGaps(head, buffer, RESPONSE_DROP), next);
      return;
    }
    const changes = this.#changes(head, buffer, connection);
    const out = Buffer.allocUnsafe(responseHeadBound(head, changes) + CHUNK_LINE);
    const length = writeResponseHead(head, buffer, RESPONSE_DROP, changes, out);
    body.headAside(out, length, buffer, next, end);
  }

  #changes(
    head: ResponseHead,
    buffer: Buffer,
    connection: 'close' | 'keep-alive' | undefined,
  ): LineChanges {
    const { plan, caller } = this.#exchange;
    const { rewriter } = plan;
    const framing = this.#body.reframed;
    return responseChanges({
      head,
      buffer,
      connection,
      framing,
      passesLogins: this.#exchange.pinned.wanted && this.#reachesOrigin(head, buffer),
      rewriter,
      answerLines: caller.answerLines,
      callerHost: () => caller.hostText,
    });
  }

  #connectionLine(): 'close' | 'keep-alive' | undefined {
    if (this.#close) return 'close';
    return this.#exchange.minor === 0 ? 'keep-alive' : undefined;
  }

  #readBody(buffer: Buffer, start: number, end: number): void {
    const progress = this.#body.read(buffer, start, end);
    if (progress === 'more') this.#exchange.progressed();
    else if (progress === 'ended') this.#finish(this.#keep && this.#body.clean);
    else this.#fail('response-malformed', 'broke the framing of its answer');
  }

  #finish(reusable: boolean): void {
    // An answer that came in one read ended when it began, as far as anybody can tell.
    if (this.#readsSinceHead > 1) this.#exchange.endedAt = this.#exchange.context.clock.now();
    this.#phase = 'done';
    this.#exchange.answered(reusable, this.#close);
  }

  #switchProtocols(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    const protocol = head.valueText(buffer, RESPONSE_FIELD.upgrade)?.toLowerCase();
    const asked = protocol !== undefined && protocol === exchange.askedProtocol;
    if (!asked || head.count(RESPONSE_FIELD.upgrade) !== 1 || !head.upgrade) {
      this.#fail('upgrade-failed', 'switched protocols without being asked');
      return;
    }
    const changes = responseChanges({
      head,
      buffer,
      connection: 'upgrade',
      framing: 'same',
      rewriter: undefined,
      answerLines: exchange.caller.answerLines,
      callerHost: () => '',
    });
    const out = Buffer.allocUnsafe(responseHeadBound(head, changes) + 32);
    const length = writeResponseHead(head, buffer, RESPONSE_DROP, changes, out);
    exchange.status = head.status;
    this.started = true;
    this.#phase = 'done';
    exchange.caller.transport.write(out.subarray(0, length), undefined);
    exchange.becomeTunnel(buffer, next, end);
  }

  #fail(
    code: ErrorCode,
    what: string,
    reason: 'error' | 'auth_failed' = 'error',
    hop: HopName = 'origin',
  ): void {
    const exchange = this.#exchange;
    this.#phase = 'done';
    const error = upstreamError(targetOf(exchange.plan, hop), code, what);
    exchange.fail(hop === 'parent' ? error.with({ hop }) : error, reason);
  }
}

const targetOf = (plan: RoutePlan, hop: HopName): UpstreamTarget =>
  (hop === 'parent' ? plan.parent?.target : undefined) ?? plan.target;
