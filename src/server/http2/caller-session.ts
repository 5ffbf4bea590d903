/**
 * One HTTP/2 connection of a caller. Each stream becomes a request of its own on a connection of its
 * own inside the process, which the relay serves like any other: caller check, route, pool and limits
 * are those of HTTP/1.1, and nothing is remembered from one stream to the next.
 *
 * Decided here: how much a caller may open, reset and hold (hostile row G10), and when the connection
 * ends: idle, drained, or for abuse with GOAWAY.
 */
import type { Socket } from 'node:net';
import {
  constants,
  Http2ServerResponse,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { Deadline } from '../../deadlines.ts';
import { ProxyError } from '../../errors.ts';
import type { RelayContext } from '../../relay/context.ts';
import type { Downstream } from '../../relay/downstream.ts';
import type { ForwardingWriter } from '../../relay/plan.ts';
import { createSocketPair, type SocketEnd } from '../../transport/socket-pair.ts';
import type { Carried, Carrier } from './carrier.ts';
import { discardUpload } from './late-upload.ts';
import { ResetAllowance } from './reset-allowance.ts';
import { type StreamFields, translateFields } from './stream-fields.ts';

/** What a session needs of the listener that it came on. */
export interface SessionHost {
  readonly context: Pick<RelayContext, 'clock' | 'deadlines'>;
  readonly carrier: Carrier;
  readonly scheme: 'http' | 'https';
  /** Of the configuration in force when the connection began. */
  readonly settings: { readonly headMs: number; readonly idleMs: number };
  /** Lets the relay serve one request on `end`. */
  connect(end: SocketEnd, forwarding: ForwardingWriter): StreamConnection;
  /** The connection is gone. */
  closed(session: CallerSession): void;
}

/** The relay's side of one stream. */
export type StreamConnection = Pick<Downstream, 'loggedMethod' | 'refuse'>;

/** What a caller may have open at once. */
const MAX_STREAMS = 128;
const MEGABYTES = 16;

const SESSION_OPTIONS = {
  settings: {
    maxConcurrentStreams: MAX_STREAMS,
    // Above what listeners allow: the relay says 431, this says RST_STREAM.
    maxHeaderListSize: 256 * 1024,
    enableConnectProtocol: false,
  },
  maxHeaderListPairs: 1024,
  maxSessionMemory: MEGABYTES,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 100,
  maxSettings: 32,
  maxOutstandingPings: 10,
  // Behind the count of this file, for what it does not see.
  streamResetBurst: 1000,
  streamResetRate: 200,
  // The relay's parser takes blanks off a value, as it does for HTTP/1.1; here the field would be lost.
  strictFieldWhitespaceValidation: false,
  // An answer that the relay lets through is sent, however many fields it has.
  maxSendHeaderBlockLength: 256 * 1024,
  // An upstream that says a field twice is passed on; Node would throw in the middle of an answer.
  strictSingleValueFields: false,
} as const;

/** In place of what was refused: it is answered without being read. */
const REFUSED = { path: '/', fields: new Map([['host', 'refused.invalid']]), expect: undefined };

export class CallerSession {
  /** Counts from the next stream on. */
  forwarding: ForwardingWriter;
  readonly #host: SessionHost;
  readonly #session: ServerHttp2Session;
  readonly #deadline = new Deadline(() => this.#expired());
  readonly #resets: ResetAllowance;
  readonly #open = new Set<ServerHttp2Stream>();

  /** Takes an accepted socket; what was read of it was given back with `unshift`. */
  constructor(socket: Socket, forwarding: ForwardingWriter, host: SessionHost) {
    this.#host = host;
    this.forwarding = forwarding;
    this.#resets = new ResetAllowance(host.context.clock);
    socket.allowHalfOpen = false;
    this.#session = performServerHandshake(socket, SESSION_OPTIONS);
    this.#session.on('stream', (stream, _headers, _flags, raw) => this.#stream(stream, raw));
    this.#session.on('error', () => undefined);
    this.#session.once('close', () => {
      host.context.deadlines.disarm(this.#deadline);
      host.closed(this);
    });
    host.context.deadlines.arm(this.#deadline, host.settings.headMs);
  }

  /** GOAWAY: streams that are open end, no further one begins. */
  drain(): void {
    this.#session.close();
  }

  /** Closes at once. */
  destroy(): void {
    this.#session.destroy();
  }

  #stream(stream: ServerHttp2Stream, raw: readonly string[]): void {
    const { deadlines } = this.#host.context;
    this.#open.add(stream);
    deadlines.arm(this.#deadline, this.#host.settings.idleMs);
    // Said by 'close' as well, with the code.
    stream.on('error', () => undefined);
    const carried = this.#serve(stream, raw);
    // Node waits for the end of an upload that was reset with NO_ERROR, and its session for the stream.
    stream.once('aborted', () => {
      if (!carried.cut) process.nextTick(() => stream.destroy());
    });
    this.#watch(stream, carried);
    stream.once('close', () => {
      this.#open.delete(stream);
      if (this.#session.destroyed) return;
      if (this.#open.size === 0) deadlines.arm(this.#deadline, this.#host.settings.idleMs);
      const isWhole = carried.answered && stream.rstCode === constants.NGHTTP2_NO_ERROR;
      if (!isWhole && !carried.cut) this.#countReset();
    });
  }

  /**
   * Ends a stream whose caller takes nothing of his answer: the relay is done with it, and what waits would
   * be held for as long as he likes (hostile row G3). While the upstream is waited for, its limits count.
   */
  #watch(stream: ServerHttp2Stream, carried: Carried): void {
    stream.setTimeout(this.#host.settings.idleMs, () => {
      if (!carried.answered && stream.writableLength === 0) {
        this.#watch(stream, carried);
        return;
      }
      stream.close(constants.NGHTTP2_CANCEL);
      process.nextTick(() => stream.destroy());
    });
  }

  #serve(stream: ServerHttp2Stream, raw: readonly string[]): Carried {
    const { scheme } = this.#host;
    const response = new Http2ServerResponse(stream);
    const fields = translateFields(raw, { scheme, endsWithHead: stream.endAfterHeaders });
    if (fields instanceof ProxyError) return this.#refuse(response, raw, fields);
    try {
      return this.#carry(response, fields, () => this.#connect().end);
    } catch (cause) {
      const facts = { side: 'downstream', stage: 'request', cause } as const;
      const error = new ProxyError('request-malformed', 'no HTTP/1.1 request says this', facts);
      return this.#refuse(response, raw, error);
    }
  }

  /** The relay answers, counts and logs what cannot be given to it. */
  #refuse(response: Http2ServerResponse, raw: readonly string[], error: ProxyError): Carried {
    const isHead = pseudoField(raw, ':method') === 'HEAD';
    const fields: StreamFields = {
      ...REFUSED,
      method: isHead ? 'HEAD' : 'GET',
      takesTrailers: false,
    };
    return this.#carry(response, fields, () => {
      const { end, connection } = this.#connect();
      connection.loggedMethod = pseudoField(raw, ':method') ?? '';
      connection.refuse(error, { isHead });
      return end;
    });
  }

  #carry(response: Http2ServerResponse, fields: StreamFields, open: () => SocketEnd): Carried {
    const { carrier, context } = this.#host;
    const written = (): void => discardUpload(response.stream, context.deadlines);
    return carrier.carry(response, fields, { open, written });
  }

  #connect(): { readonly end: SocketEnd; readonly connection: StreamConnection } {
    const [near, far] = createSocketPair();
    // Node's client listens only as long as it needs the socket.
    near.on('error', () => undefined);
    return { end: near, connection: this.#host.connect(far, this.forwarding) };
  }

  /** Looks after open streams; an idle connection is told so, and closed whatever the caller makes of it. */
  #expired(): void {
    const { context, settings } = this.#host;
    if (this.#open.size > 0) {
      // Those that the caller has reset and Node has not let go: they would keep the session for ever.
      for (const stream of this.#open) if (stream.closed) stream.destroy();
      context.deadlines.arm(this.#deadline, settings.idleMs);
      return;
    }
    if (this.#session.closed) {
      this.#session.destroy();
      return;
    }
    this.#session.close();
    if (!this.#session.destroyed) context.deadlines.arm(this.#deadline, settings.headMs);
  }

  #countReset(): void {
    if (this.#resets.take()) return;
    // Whoever opens streams only to reset them makes work for nothing (CVE-2023-44487).
    const abuse = new Error('too many streams were reset');
    this.#session.destroy(abuse, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

function pseudoField(raw: readonly string[], name: string): string | undefined {
  const at = raw.indexOf(name);
  return at < 0 || at % 2 !== 0 ? undefined : raw[at + 1];
}
