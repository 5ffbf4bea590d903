/**
 * Carries the request of one HTTP/2 stream, and its answer, over a socket of its own that speaks
 * HTTP/1.1. The only importer of http-proxy-3 (2.0.1).
 *
 * The package copies fields and bodies between Node's objects. What it would get wrong is put right
 * around it, and is found by number in the tests:
 *
 *   1 framing: the head says how the body is framed, whatever the method (stream-fields.ts);
 *   2 its pass `deleteLength`, which lets the body of a DELETE run on without framing, is taken out;
 *   3 its way over `fetch` is never taken: cmd/ removes the variable that asks for it;
 *   4 fields of the connection leave an answer before it is copied;
 *   5 interim answers and trailers are passed on here, the package has neither;
 *   6 a switch of protocols that nobody asked for never gets here: the relay makes it a 502;
 *   7 the path goes as it came: it is set on what the package made, which never sees it.
 */
import { Agent, type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from 'node:http2';
import { type Duplex, Stream } from 'node:stream';
import { createProxyServer } from 'http-proxy-3';
import { hasSendableStatus, passInterim, passTrailers, reduceFields } from './answer-fields.ts';
import type { StreamFields } from './stream-fields.ts';

/** Heads that the relay lets through are never too large for Node's client. */
const MAX_HEAD = 256 * 1024;

/** The package wants a place to go to; the agent knows a better one. */
const TARGET = { host: 'relay.invalid', port: 80 };

const BAD_GATEWAY = 502;

interface Pass {
  readonly name: string;
}

export interface CarryOptions {
  /** The socket for the request. */
  readonly open: () => Duplex;
  /** Told when the answer has been written, whether or not the request has ended. */
  readonly written: () => void;
}

/** A request under way. */
export interface Carried {
  /** The stream was reset for want of a whole answer, and not by the caller. */
  readonly cut: boolean;
  /** There is a whole answer, whatever became of its connection since. */
  readonly answered: boolean;
}

export class Carrier {
  readonly #proxy = createProxyServer({ toProxy: true, prependPath: false, xfwd: false });

  constructor() {
    takeOutPasses(this.#proxy);
  }

  /**
   * Sends the request over a socket of its own and the answer back on `response`, whose stream is reset
   * where the answer is cut. Throws what Node says of fields that no HTTP/1.1 request can have; nothing
   * was sent then, and the response can be used for another one.
   */
  carry(
    response: Http2ServerResponse,
    fields: StreamFields,
    { open, written }: CarryOptions,
  ): Carried {
    response.sendDate = false;
    const request = new CarriedRequest(response, fields, written);
    const options = {
      target: TARGET,
      method: fields.method,
      agent: new OneSocketAgent(open),
      // The base of what the package asks Node for; a new one each time, since it is changed.
      ssl: { maxHeaderSize: MAX_HEAD },
    };
    // Of either it asks only for what these have.
    const incoming = request as unknown as IncomingMessage;
    const outgoing = response as unknown as ServerResponse;
    this.#proxy.web(incoming, outgoing, options, () => request.fail());
    return request;
  }
}

// Private in the package's types; a version without the field is found at the start, not by a request.
function takeOutPasses(proxy: object): void {
  const holder = proxy as { webPasses?: readonly Pass[] };
  const kept = holder.webPasses?.filter(({ name }) => name === 'stream') ?? [];
  if (kept.length !== 1) throw new Error('http-proxy-3 has other passes than 2.0.1');
  holder.webPasses = kept;
}

/** For a single request. */
class OneSocketAgent extends Agent {
  readonly #open: () => Duplex;

  constructor(open: () => Duplex) {
    super({ keepAlive: false });
    this.#open = open;
  }

  override createConnection(): Duplex {
    return this.#open();
  }
}

/** The request as the package reads it, and what becomes of it. */
class CarriedRequest extends Stream implements Carried {
  readonly method: string;
  /** Not the request's: the package would lose a `?` at its end, and shows it to whoever debugs. */
  readonly url = '/';
  readonly headers: Record<string, string | readonly string[]>;
  readonly httpVersion = '2.0';
  readonly httpVersionMajor = 2;
  cut = false;
  readonly #stream: ServerHttp2Stream;
  readonly #fields: StreamFields;
  readonly #response: Http2ServerResponse;
  readonly #written: () => void;
  #answer: IncomingMessage | undefined;

  constructor(response: Http2ServerResponse, fields: StreamFields, written: () => void) {
    super();
    this.#written = written;
    this.#stream = response.stream;
    this.#fields = fields;
    this.#response = response;
    this.method = fields.method;
    this.headers = Object.fromEntries(fields.fields);
  }

  get socket(): { readonly destroyed: boolean } {
    return this.#stream;
  }

  get answered(): boolean {
    return this.#answer?.complete === true;
  }

  /** The connection broke. Behind a whole answer that does no harm, bytes that follow it neither. */
  fail(): void {
    if (this.answered || this.#stream.closed) return;
    this.cut = true;
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  /** With this the package sends the body on its way; nothing of the head has left yet. */
  override pipe<T extends NodeJS.WritableStream>(destination: T): T {
    const outgoing = destination as unknown as ClientRequest;
    const stream = this.#stream;
    outgoing.path = this.#fields.path;
    if (this.#fields.expect !== undefined) outgoing.setHeader('expect', this.#fields.expect);
    outgoing.on('information', (answer) => passInterim(stream, answer));
    outgoing.once('response', (answer) => this.#prepare(answer));
    stream.once('close', () => {
      if (!this.answered) outgoing.destroy();
    });
    if (stream.endAfterHeaders) {
      outgoing.end();
      stream.resume();
    } else {
      outgoing.flushHeaders();
      this.#sendBody(outgoing);
    }
    return destination;
  }

  #sendBody(outgoing: ClientRequest): void {
    const stream = this.#stream;
    stream.on('trailers', (_trailers, _flags, raw: string[]) => outgoing.addTrailers(pairs(raw)));
    // Who goes away in the middle has not sent a whole body: it must not end like one.
    stream.once('end', () => {
      if (!stream.aborted) outgoing.end();
    });
    stream.pipe(outgoing, { end: false });
  }

  /** Runs before the package copies anything of the answer. */
  #prepare(answer: IncomingMessage): void {
    this.#answer = answer;
    if (!hasSendableStatus(answer)) {
      this.#refuse(answer);
      return;
    }
    const cut = (): void => this.fail();
    answer.on('error', cut);
    answer.once('aborted', cut);
    answer.once('end', () => this.#tellWhenWritten());
    if (this.#fields.takesTrailers) {
      answer.once('end', () => passTrailers(answer, this.#response));
    }
    reduceFields(answer);
  }

  #tellWhenWritten(): void {
    // After HEAD there was nothing to write.
    if (this.#stream.writableFinished) this.#written();
    else this.#stream.once('finish', () => this.#written());
  }

  #refuse(answer: IncomingMessage): void {
    answer.on('error', () => undefined);
    this.#response.writeHead(BAD_GATEWAY);
    this.#response.end();
    answer.destroy();
    this.#tellWhenWritten();
  }
}

function pairs(raw: readonly string[]): [string, string][] {
  const found: [string, string][] = [];
  for (let at = 0; at < raw.length; at += 2) found.push([raw[at] ?? '', raw[at + 1] ?? '']);
  return found;
}
