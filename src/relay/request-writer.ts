/**
 * Writes one request upstream: the head, kept aside so that it can be sent again, what a login or an
 * expectation adds to it, and the body bytes at hand, in one write.
 *
 * The head of a request without body leaves from where it was built; everything else is gathered in
 * the shared scratch buffer first.
 */
import type { Transport } from '../transport/transport.ts';
import type { RequestLine } from '../upstream/login-state.ts';
import type { ByteSink } from '../wire/chunked.ts';
import { copyAll, CRLF, latin1 } from './bytes.ts';
import type { RelayContext } from './context.ts';
import type { RequestBody } from './request-body.ts';
import { type HeadParts, requestHeadBound, writeRequestHead } from './request-head-writer.ts';

const FIRST_HEAD = 1024;
const EXPECT = latin1('Expect: 100-continue\r\n');
const AUTHORIZATION = 'Authorization: ';
const PROXY_AUTHORIZATION = 'Proxy-Authorization: ';
/** Beside head, credentials and body: field name, line ends, Expect. */
const FIXED = 128;
const NOTHING = Buffer.alloc(0);
const SPACE = 0x20;

/** What goes with the head this time. */
export interface Additions {
  /** Value of Authorization. */
  readonly credentials: string | undefined;
  /** Value of Proxy-Authorization. */
  readonly proxyCredentials: string | undefined;
  /** The daemon's own Expect. */
  readonly expect: boolean;
  /** Body bytes wait for `100 Continue`. */
  readonly holdsBody: boolean;
}

export class RequestWriter implements ByteSink, RequestLine {
  readonly #context: RelayContext;
  /** The head as it goes upstream, less Authorization and the empty line. */
  #head = Buffer.allocUnsafeSlow(FIRST_HEAD);
  #length = 0;
  /** A write may still read `#head`. */
  #lent = false;
  /** Body bytes that stand behind the head in the buffer it came in. */
  #inHand: Buffer | undefined;
  #inHandStart = 0;
  #inHandEnd = 0;
  /** Where a message is gathered, and how far. */
  #into: Buffer = NOTHING;
  #gatherAt = 0;

  constructor(context: RelayContext) {
    this.#context = context;
  }

  /** Builds the head of a new request. */
  build(parts: HeadParts): void {
    const { via } = this.#context;
    const bound = requestHeadBound(parts, via);
    if (this.#lent || this.#head.length < bound) {
      this.#head = Buffer.allocUnsafeSlow(Math.max(bound, FIRST_HEAD));
      this.#lent = false;
    }
    this.#length = writeRequestHead(parts, via, this.#head);
  }

  /** Body bytes that may leave with the head. They are valid until `dropInHand`. */
  takeInHand(buffer: Buffer, start: number, end: number): void {
    this.#inHand = buffer;
    this.#inHandStart = start;
    this.#inHandEnd = end;
  }

  /** Answers the offset of the first byte in hand that was not taken. */
  dropInHand(): number {
    this.#inHand = undefined;
    return this.#inHandStart;
  }

  /** Another way: the start of the target is another one. */
  retarget(from: Buffer, to: Buffer): void {
    const at = this.#head.indexOf(SPACE) + 1;
    const parts = [
      this.#head.subarray(0, at),
      to,
      this.#head.subarray(at + from.length, this.#length),
    ];
    this.#length += to.length - from.length;
    // Room for the empty line too.
    this.#head = Buffer.concat(parts, Math.max(this.#length + FIXED, FIRST_HEAD));
    this.#lent = false;
  }

  get method(): string {
    return this.text.split(' ', 1)[0] ?? '';
  }

  get upstreamTarget(): string {
    return this.addressee.upstreamTarget;
  }

  /** Target and Host as they are sent. */
  get addressee(): { readonly upstreamTarget: string; readonly upstreamHost: string } {
    const { text } = this;
    return {
      upstreamTarget: text.split(' ', 2)[1] ?? '/',
      upstreamHost: /^host:[ \t]*([^\r]*)/im.exec(text)?.[1] ?? '',
    };
  }

  get accept(): string | undefined {
    return /^accept:[ \t]*([^\r]*)/im.exec(this.text)?.[1];
  }

  /** The protocol that an upgrade asks for. */
  get upgrade(): string | undefined {
    return /^upgrade:[ \t]*([^\r]*)/im.exec(this.text)?.[1];
  }

  /** The head without its end. Makes a string: cold paths only. */
  get text(): string {
    return this.#head.toString('latin1', 0, this.#length);
  }

  /** A request without body and additions. */
  sendHead(transport: Transport): void {
    const end = copyAll(CRLF, this.#head, this.#length);
    transport.write(this.#head.subarray(0, end), undefined);
    if (transport.pending !== 0) this.#lent = true;
  }

  /**
   * Head, additions, and what there is of the body: bytes kept of an earlier try, then bytes in
   * hand. False when the body's framing is broken.
   */
  send(transport: Transport, body: RequestBody, additions: Additions): boolean {
    const { credentials, proxyCredentials } = additions;
    const into = this.#room(body, additions);
    this.#into = into;
    let at = this.#head.copy(into, 0, 0, this.#length);
    if (credentials !== undefined) {
      at += into.write(`${AUTHORIZATION}${credentials}\r\n`, at, 'latin1');
    }
    if (proxyCredentials !== undefined) {
      at += into.write(`${PROXY_AUTHORIZATION}${proxyCredentials}\r\n`, at, 'latin1');
    }
    if (additions.expect) at = copyAll(EXPECT, into, at);
    at = copyAll(CRLF, into, at);
    this.#gatherAt = at;
    const sound = additions.holdsBody || this.#gather(body);
    transport.write(into.subarray(0, this.#gatherAt), undefined);
    this.#into = NOTHING;
    if (transport.pending !== 0 && into === this.#context.scratch) this.#context.giveScratchAway();
    return sound;
  }

  put(buffer: Buffer, start: number, end: number): void {
    buffer.copy(this.#into, this.#gatherAt, start, end);
    this.#gatherAt += end - start;
  }

  // The limits of heads and of kept bodies are the operator's: what is larger than the shared buffer
  // gets one of its own.
  #room(body: RequestBody, { credentials, proxyCredentials, holdsBody }: Additions): Buffer {
    const { scratch } = this.#context;
    const kept = holdsBody ? 0 : (body.kept?.length ?? 0);
    const added = (credentials?.length ?? 0) + (proxyCredentials?.length ?? 0);
    const least = this.#length + added + kept + FIXED;
    return least <= scratch.length ? scratch : Buffer.allocUnsafeSlow(least);
  }

  #gather(body: RequestBody): boolean {
    const into = this.#into;
    const { kept } = body;
    if (kept !== undefined) this.#gatherAt += kept.copy(into, this.#gatherAt);
    const buffer = this.#inHand;
    if (buffer === undefined || body.done) return true;
    // What does not fit is given again by the caller's connection.
    const end = Math.min(this.#inHandEnd, this.#inHandStart + into.length - this.#gatherAt);
    const next = body.take(buffer, this.#inHandStart, end, this);
    this.#inHandStart = next < 0 ? this.#inHandEnd : next;
    return next >= 0;
  }
}
