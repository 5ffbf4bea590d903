/**
 * One GET of a key set, on a connection of its own: no redirects, no keep-alive, no proxy, bounded in
 * bytes and time. What the answer says is for others to read.
 */
import { isUtf8 } from 'node:buffer';
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request,
  type RequestOptions,
} from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { urlToHttpOptions } from 'node:url';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { MAX_JWKS_BYTES } from '../../identity/jwks.ts';

/** The body of a 200, or why there is none: static words, statuses and codes of the system. */
export type JwksAnswer = { readonly text: string } | { readonly fault: string };

/** For the whole exchange, name look-up and handshakes included. */
const EXCHANGE_MS = 10_000;

const ACCEPT = 'application/json, application/jwk-set+json';

/** Codes of the system, OpenSSL and Node. What else stands in an error may quote the peer. */
const ERROR_CODE = /^[A-Z][A-Z0-9_]*$/;

/**
 * What every fetch from `url` (http or https) needs. `extraCa` are PEM texts, trusted besides Node's store
 * and the system's. Throws what OpenSSL says of a certificate that is none, and for user information that
 * cannot be decoded.
 */
export function jwksPlace(url: URL, extraCa: readonly string[]): RequestOptions {
  // Agents of its own: the global ones keep connections, and may have been told to use a proxy.
  const agent =
    url.protocol === 'https:'
      ? new TlsAgent({
          keepAlive: false,
          // Said, so that no variable of the environment says otherwise.
          rejectUnauthorized: true,
          maxCachedSessions: 0,
          // Trusting a whole store takes tens of milliseconds: once, not in each fetch.
          secureContext: createSecureContext({
            ca: [...getCACertificates('default'), ...getCACertificates('system'), ...extraCa],
          }),
        })
      : new Agent({ keepAlive: false });
  return { ...urlToHttpOptions(url), agent, headers: { accept: ACCEPT } };
}

export class JwksFetch {
  readonly #answered = Promise.withResolvers<JwksAnswer>();
  readonly #deadlines: DeadlineWheel;
  readonly #deadline = new Deadline(() => this.#end({ fault: 'no complete answer within 10 s' }));
  readonly #request: ClientRequest;
  readonly #body: Buffer[] = [];
  #bytes = 0;
  #answering = false;

  /** Starts at once. */
  constructor(place: RequestOptions, deadlines: DeadlineWheel) {
    this.#deadlines = deadlines;
    deadlines.arm(this.#deadline, EXCHANGE_MS);
    this.#request = request(place)
      .on('response', (response) => this.#answer(response))
      .on('error', (error) => this.#end({ fault: `the connection failed (${codeOf(error)})` }))
      .on('close', () => this.#closed())
      .end();
  }

  /** Never rejects. */
  get answer(): Promise<JwksAnswer> {
    return this.#answered.promise;
  }

  /** Ends the exchange. */
  abort(): void {
    this.#end({ fault: 'it was stopped' });
  }

  #answer(response: IncomingMessage): void {
    this.#answering = true;
    const status = response.statusCode ?? 0;
    // Errors of an answer that was given up come late.
    response.on('error', () => this.#end({ fault: 'the answer was cut off' }));
    if (status >= 300 && status < 400) {
      this.#end({ fault: `the answer is a redirect (status ${status})` });
    } else if (status !== 200) {
      this.#end({ fault: `the answer has the status ${status}` });
    } else {
      response
        .on('data', (chunk: Buffer) => this.#take(chunk))
        .on('end', () => this.#end(this.#whole()));
    }
  }

  /** Also after an upgrade that nobody asked for. Of an answer that began, its own events tell. */
  #closed(): void {
    if (!this.#answering) this.#end({ fault: 'the connection ended without an answer' });
  }

  #take(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_JWKS_BYTES) this.#end({ fault: 'the answer is larger than 512 KiB' });
    else this.#body.push(chunk);
  }

  #whole(): JwksAnswer {
    const bytes = Buffer.concat(this.#body);
    return isUtf8(bytes) ? { text: bytes.toString('utf8') } : { fault: 'the answer is not UTF-8' };
  }

  /** The first call counts. */
  #end(answer: JwksAnswer): void {
    this.#answered.resolve(answer);
    this.#deadlines.disarm(this.#deadline);
    this.#request.destroy();
  }
}

function codeOf(error: NodeJS.ErrnoException): string {
  return error.code !== undefined && ERROR_CODE.test(error.code) ? error.code : 'no code';
}
