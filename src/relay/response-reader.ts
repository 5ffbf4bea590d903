/**
 * Reads the answer of one exchange from its upstream connection and passes it on.
 *
 * Decides: whether the head is sound, what an interim or final status leads to, how the body is
 * framed towards the caller, and whether the connection is byte-clean at the end. Body bytes go out
 * from the buffer they came in, with back-pressure; nothing is stored but an incomplete head.
 */
import { ProxyError } from '../errors.ts';
import { parseChallenges } from '../http/challenge.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import { BODY_FAULT, type ByteSink, ChunkedScanner, NEED_MORE } from '../wire/chunked.ts';
import { fieldValues } from '../wire/field-values.ts';
import { RESPONSE_FIELD, type ResponseHead } from '../wire/response-head.ts';
import { latin1 } from './bytes.ts';
import type { Caller } from './caller.ts';
import type { RelayContext } from './context.ts';
import { IncompleteHead } from './incomplete-head.ts';
import type { RoutePlan } from './plan.ts';
import { hasChanges, RESPONSE_DROP, responseChanges } from './response-changes.ts';
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

const challengeLines = (head: ResponseHead, buffer: Buffer): string[] =>
  fieldValues(head, buffer, RESPONSE_FIELD.wwwAuthenticate);

/** The exchange, as its reader sees it. */
export interface ResponseHost {
  readonly caller: Caller;
  readonly context: RelayContext;
  readonly plan: RoutePlan;
  readonly connection: UpstreamConnection | undefined;
  readonly body: { readonly done: boolean };
  readonly isHead: boolean;
  readonly minor: 0 | 1;
  readonly upgrade: boolean;
  readonly closeWanted: boolean;
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
  challengedAgain(): void;
  progressed(): void;
  stopBody(): void;
  answered(reusable: boolean, close: boolean): void;
  becomeTunnel(buffer: Buffer, start: number, end: number): void;
  fail(error: ProxyError, reason: 'error' | 'auth_failed'): void;
}

type Framing = 'none' | 'counted' | 'chunked' | 'until-close';

export class ResponseReader implements ByteSink {
  /** No byte of an answer has come. */
  untouched = true;
  /** Bytes of the final answer went to the caller. */
  started = false;
  readonly #exchange: ResponseHost;
  #scanner: ChunkedScanner | undefined;
  #phase: 'head' | 'body' | 'done' = 'head';
  #interim = 0;
  #incomplete: IncompleteHead | undefined;
  #framing: Framing = 'none';
  #left = 0;
  /** The body leaves without its chunks, or in chunks of ours. */
  #reframed: 'same' | 'dechunk' | 'chunk' = 'same';
  /** The line of the chunk for the bytes at hand stands already. */
  #chunkOpen = false;
  /** What a chunk of ours starts with: the end of the one before. */
  #chunkStart = '';
  #readsSinceHead = 0;
  #keep = false;
  #close = false;
  /** Adjacent runs of a body, joined into one write. */
  #run: Buffer | undefined;
  #runStart = 0;
  #runEnd = 0;
  #flowing = true;

  constructor(exchange: ResponseHost) {
    this.#exchange = exchange;
  }

  /** Before each try of a request. */
  begin(): void {
    this.untouched = true;
    this.started = false;
    this.#phase = 'head';
    this.#interim = 0;
    this.#incomplete = undefined;
  }

  received(buffer: Buffer, start: number, end: number): boolean {
    this.untouched = false;
    this.#flowing = true;
    this.#readsSinceHead += 1;
    if (this.#phase === 'body') this.#readBody(buffer, start, end);
    else if (this.#phase === 'head') this.#readHead(buffer, start, end);
    // A finished exchange has no say over a connection that may be another's by now.
    return this.#phase === 'done' || this.#flowing;
  }

  /** FIN of the upstream. True when that is how this answer ends. */
  ended(): boolean {
    if (this.#phase !== 'body' || this.#framing !== 'until-close') return this.#phase === 'done';
    if (this.#reframed === 'chunk') this.#write(latin1(`${this.#chunkStart}0\r\n\r\n`));
    this.#keep = false;
    this.#finish();
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
      const length = writeResponseHead(head, buffer, RESPONSE_DROP, none, out);
      exchange.caller.transport.write(out.subarray(0, length), undefined);
    }
    return true;
  }

  #finalHead(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    const now = exchange.context.clock.now();
    exchange.endedAt = now;
    exchange.plan.meters.firstByte.observe((now - exchange.sentAt) / 1000);
    if (head.status === 101) {
      this.#switchProtocols(head, buffer, next, end);
      return;
    }
    if (head.status === 407) {
      this.#fail('proxy-auth-from-origin', 'asked for a proxy login, which only a proxy may');
      return;
    }
    if (!this.#admit(head, buffer)) return;
    if (head.status === 417 && exchange.expectRefused()) return;
    this.#deliver(head, buffer, next, end);
  }

  // --- The 401 table ----------------------------------------------------------------------------

  /** False when the answer is not the caller's: another try began, or an error was sent. */
  #admit(head: ResponseHead, buffer: Buffer): boolean {
    const exchange = this.#exchange;
    const connection = exchange.connection;
    if (connection === undefined) return false;
    const login = connection.login;
    if (login !== undefined) {
      connection.login = undefined;
      const verdict = login.judge(head.status, challengeLines(head, buffer));
      if (verdict === 'rejected') {
        this.#fail('credential-rejected', 'refused the credential', 'auth_failed');
        return false;
      }
      if (verdict === 'denied') {
        this.#fail('upstream-denied', 'denies this request to the user', 'auth_failed');
        return false;
      }
      return true;
    }
    if (head.status !== 401) return true;
    const schemes = parseChallenges(challengeLines(head, buffer)).map(({ scheme }) => scheme);
    if (exchange.plan.hasIdentity) {
      if (!schemes.includes('ntlm')) return true;
      exchange.challengedAgain();
      return false;
    }
    // Taint by response (R19): a socket that was asked for such a login serves nobody else.
    if (schemes.some((scheme) => CONNECTION_SCHEME.test(scheme))) connection.spend();
    return true;
  }

  // --- Delivery ---------------------------------------------------------------------------------

  #deliver(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    const bodiless = exchange.isHead || head.status === 204 || head.status === 304;
    if (head.status === 204 && (head.chunked || head.contentLength > 0)) {
      this.#fail('response-malformed', 'sent a 204 with content');
      return;
    }
    this.#keep = head.minor === 1 ? !head.close : head.keepAlive;
    this.#close = exchange.closeWanted || exchange.caller.draining;
    if (!exchange.body.done && (head.status >= 400 || exchange.heldBody)) {
      this.#close = true;
      exchange.stopBody();
    }
    this.#frame(head, bodiless);
    exchange.status = head.status;
    this.started = true;
    this.#readsSinceHead = 1;
    this.#phase = 'body';
    const connection = this.#connectionLine();
    const plain = connection === undefined && this.#reframed === 'same';
    if (plain && !hasChanges(head, exchange.plan.rewriter)) {
      this.#runAt(buffer, closeGaps(head, buffer, RESPONSE_DROP), next);
    } else {
      this.#changedHead(head, buffer, next, end, this.#changes(head, buffer, connection));
    }
    exchange.progressed();
    this.#readBody(buffer, next, end);
  }

  #changes(
    head: ResponseHead,
    buffer: Buffer,
    connection: 'close' | 'keep-alive' | undefined,
  ): LineChanges {
    const { plan, caller } = this.#exchange;
    const { rewriter } = plan;
    const framing = this.#reframed;
    return responseChanges({
      head,
      buffer,
      connection,
      framing,
      rewriter,
      callerHost: () => caller.hostText,
    });
  }

  #connectionLine(): 'close' | 'keep-alive' | undefined {
    if (this.#close) return 'close';
    return this.#exchange.minor === 0 ? 'keep-alive' : undefined;
  }

  #frame(head: ResponseHead, bodiless: boolean): void {
    const old = this.#exchange.minor === 0;
    this.#reframed = 'same';
    this.#left = 0;
    if (bodiless) {
      this.#framing = 'none';
    } else if (head.chunked) {
      this.#framing = 'chunked';
      this.#scanner ??= new ChunkedScanner();
      this.#scanner.reset();
      if (old) {
        this.#reframed = 'dechunk';
        this.#close = true;
      }
    } else if (head.contentLength >= 0) {
      this.#framing = 'counted';
      this.#left = head.contentLength;
    } else {
      this.#framing = 'until-close';
      this.#keep = false;
      if (old) this.#close = true;
      else this.#reframed = 'chunk';
    }
  }

  // The changed head is written aside and then put in front of the body where there is room, so that
  // both still leave in one write.
  #changedHead(
    head: ResponseHead,
    buffer: Buffer,
    next: number,
    end: number,
    changes: LineChanges,
  ): void {
    const out = Buffer.allocUnsafe(responseHeadBound(head, changes) + 32);
    let length = writeResponseHead(head, buffer, RESPONSE_DROP, changes, out);
    this.#chunkStart = '';
    this.#chunkOpen = this.#reframed === 'chunk' && next < end;
    if (this.#chunkOpen) length += out.write(`${(end - next).toString(16)}\r\n`, length, 'latin1');
    if (length <= next) {
      out.copy(buffer, next - length, 0, length);
      this.#runAt(buffer, next - length, next);
      return;
    }
    this.#write(out.subarray(0, length));
  }

  // --- Body -------------------------------------------------------------------------------------

  #readBody(buffer: Buffer, start: number, end: number): void {
    const exchange = this.#exchange;
    switch (this.#framing) {
      case 'none':
        if (start < end) this.#keep = false;
        this.#finish();
        return;
      case 'counted': {
        const length = Math.min(this.#left, end - start);
        this.#left -= length;
        if (length > 0) this.put(buffer, start, start + length);
        // Bytes behind the answer: it is delivered, the connection is not used again (E4).
        if (start + length < end) this.#keep = false;
        if (this.#left === 0) this.#finish();
        else this.#pass(exchange);
        return;
      }
      case 'chunked':
        this.#readChunks(buffer, start, end);
        return;
      case 'until-close':
        if (start < end) this.#putUntilClose(buffer, start, end);
        this.#pass(exchange);
        return;
      default:
        this.#framing satisfies never;
    }
  }

  #readChunks(buffer: Buffer, start: number, end: number): void {
    const scanner = this.#scanner;
    if (scanner === undefined) return;
    const next = scanner.scan(buffer, start, end, this, this.#reframed === 'same');
    if (next === BODY_FAULT) {
      this.#run = undefined;
      this.#fail('response-malformed', 'broke the framing of its answer');
      return;
    }
    if (next === NEED_MORE) {
      this.#pass(this.#exchange);
      return;
    }
    if (next < end) this.#keep = false;
    this.#finish();
  }

  /** A run of bytes for the caller; runs that touch are joined. */
  put(buffer: Buffer, start: number, end: number): void {
    if (buffer === this.#run && start === this.#runEnd) {
      this.#runEnd = end;
      return;
    }
    this.#flush();
    this.#runAt(buffer, start, end);
  }

  #runAt(buffer: Buffer, start: number, end: number): void {
    this.#run = buffer;
    this.#runStart = start;
    this.#runEnd = end;
  }

  // What was read becomes one chunk. Its line, with the CRLF that ends the chunk before, goes into
  // the room in front of the bytes.
  #putUntilClose(buffer: Buffer, start: number, end: number): void {
    if (this.#reframed !== 'chunk' || this.#chunkOpen) {
      this.put(buffer, start, end);
    } else {
      const line = `${this.#chunkStart}${(end - start).toString(16)}\r\n`;
      const lineStart = start - line.length;
      if (lineStart < 0) {
        this.#write(latin1(line));
        this.put(buffer, start, end);
      } else {
        buffer.write(line, lineStart, 'latin1');
        this.put(buffer, lineStart, end);
      }
    }
    this.#chunkOpen = false;
    this.#chunkStart = '\r\n';
  }

  #flush(): void {
    const run = this.#run;
    if (run === undefined) return;
    this.#run = undefined;
    const source = this.#exchange.connection?.transport;
    this.#flowing =
      this.#exchange.caller.transport.write(run.subarray(this.#runStart, this.#runEnd), source) &&
      this.#flowing;
  }

  #write(bytes: Buffer): void {
    this.#flush();
    this.#flowing = this.#exchange.caller.transport.write(bytes, undefined) && this.#flowing;
  }

  /** What was read is passed on, and more is to come. */
  #pass(exchange: ResponseHost): void {
    this.#flush();
    exchange.progressed();
  }

  #finish(): void {
    this.#flush();
    // An answer that came in one read ended when it began, as far as anybody can tell.
    if (this.#readsSinceHead > 1) this.#exchange.endedAt = this.#exchange.context.clock.now();
    this.#phase = 'done';
    this.#exchange.answered(this.#keep, this.#close);
  }

  #switchProtocols(head: ResponseHead, buffer: Buffer, next: number, end: number): void {
    const exchange = this.#exchange;
    if (!exchange.upgrade || head.first(RESPONSE_FIELD.upgrade) < 0 || !head.upgrade) {
      this.#fail('upgrade-failed', 'switched protocols without being asked');
      return;
    }
    if (exchange.connection?.login !== undefined && !this.#admit(head, buffer)) return;
    const changes = responseChanges({
      head,
      buffer,
      connection: 'upgrade',
      framing: 'same',
      rewriter: undefined,
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

  #fail(code: ProxyError['code'], what: string, reason: 'error' | 'auth_failed' = 'error'): void {
    const exchange = this.#exchange;
    this.#phase = 'done';
    const text = `${exchange.plan.target.name} ${what}`;
    exchange.fail(new ProxyError(code, text, { side: 'upstream', stage: 'response' }), reason);
  }
}
