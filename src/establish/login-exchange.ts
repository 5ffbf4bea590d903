/**
 * One connection for the time of its login: writes a leg without a body, reads and drains the answer.
 *
 * The connection belongs to this exchange alone from the first token on (R16). What an answer means
 * is decided in auth/; here only its framing counts, and whether the connection can carry another
 * message. Bodies are drained up to a limit, counted on the wire (R34, hostile row E21).
 */
import type { ChallengeStatus, LegAnswer, MessageExchange } from '../auth/handshake.ts';
import { ProxyError } from '../errors.ts';
import { askedChallenges } from '../http/asked-challenges.ts';
import type { TransportOwner } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { HopName, LoginState, LoginVerdict } from '../upstream/login-state.ts';
import { BODY_FAULT, ChunkedScanner, NEED_MORE } from '../wire/chunked.ts';
import { keepsConnection, keepsSessions } from '../wire/proxy-support.ts';
import { fieldValues } from '../wire/field-values.ts';
import { RESPONSE_FIELD, ResponseHead } from '../wire/response-head.ts';
import { type AnsweredLeg, type LegObserver, sentCredentials } from './leg-observer.ts';

/** Who is asked for a login: the origin, or the parent proxy that the connection goes to. */
export interface Hop {
  readonly name: HopName;
  /** Request field for credentials. */
  readonly field: 'Authorization' | 'Proxy-Authorization';
  /** Response field of challenges. */
  readonly challengeField: number;
  /** Status with which it asks. */
  readonly asksWith: ChallengeStatus;
}

export const ORIGIN_HOP: Hop = {
  name: 'origin',
  field: 'Authorization',
  challengeField: RESPONSE_FIELD.wwwAuthenticate,
  asksWith: 401,
};

export const PARENT_HOP: Hop = {
  name: 'parent',
  field: 'Proxy-Authorization',
  challengeField: RESPONSE_FIELD.proxyAuthenticate,
  asksWith: 407,
};

/** The answer to a leg, with what a login may learn of it. */
export interface ExchangeAnswer extends LegAnswer {
  /** Values of this hop's challenge field. */
  readonly fields: readonly string[];
  /** Values of Persistent-Auth (MS-N2HT). */
  readonly persistentAuth: readonly string[];
  /** Of a CONNECT that was granted: what came behind the answer, a copy. */
  readonly early: Buffer | undefined;
}

export const DRAIN_BYTES = 64 * 1024;
const MAX_INTERIM = 32;
const LIMITS = { maxBytes: 64 * 1024, maxFields: 200 };

/** The request that carries a leg. */
export interface LegRequest {
  readonly method: string;
  readonly target: string;
  readonly host: string;
}

export class LoginExchange implements MessageExchange, TransportOwner {
  /** The last answer left the connection clean. */
  reusable = true;
  /** The last token is out, and its verdict is waited for. */
  settling = false;
  /** The latest answer. */
  last: ExchangeAnswer | undefined;
  readonly #connection: UpstreamConnection;
  readonly #request: LegRequest;
  readonly #hop: Hop;
  readonly #observer: LegObserver | undefined;
  readonly #head = new ResponseHead();
  readonly #scanner = new ChunkedScanner();
  readonly #abort = new AbortController();
  /** Ended from outside, or broken: no further leg is sent. */
  #failed: ProxyError | undefined;
  #pending: { resolve(answer: ExchangeAnswer): void; reject(error: ProxyError): void } | undefined;
  #bytes: Buffer = Buffer.alloc(0);
  #parsing = false;
  #interim = 0;
  #headless = true;
  #framing: 'counted' | 'chunked' | 'until-close' | 'tunnel' = 'counted';
  #left = 0;
  #drained = 0;
  #method = '';
  #early: Buffer | undefined;

  constructor(
    connection: UpstreamConnection,
    request: LegRequest,
    hop: Hop,
    observer?: LegObserver,
  ) {
    this.#connection = connection;
    this.#request = request;
    this.#hop = hop;
    this.#observer = observer;
    connection.transport.owner = this;
  }

  leg(credentials: string): Promise<ExchangeAnswer> {
    return this.#exchange(this.#request, credentials);
  }

  /** The leg without credentials, to see what is offered. */
  discover(): Promise<ExchangeAnswer> {
    return this.#exchange(this.#request, undefined);
  }

  /** The leg that carries the last token, with a request of its own. */
  settle(request: LegRequest, credentials: string | undefined): Promise<ExchangeAnswer> {
    this.settling = true;
    return this.#exchange(request, credentials);
  }

  /** A leg towards the origin carries what the parent on the way wants of each message (R25). */
  async #exchange(request: LegRequest, credentials: string | undefined): Promise<ExchangeAnswer> {
    const own = credentials === undefined ? '' : `${this.#hop.field}: ${credentials}\r\n`;
    const parent = this.#hop.name === 'origin' ? this.#connection.parent : undefined;
    if (parent === undefined) return this.#send(request, own);
    const answer = await this.#sendThrough(parent, request, own);
    // A login of several messages through a parent that shares its connections to the origin would be
    // lost, or found by somebody else (RFC 4559 6).
    const goesOn = answer.asks && credentials !== undefined && !this.settling;
    if (goesOn && !keepsSessions(this.#head, this.#bytes)) throw sharedOnTheWay();
    return answer;
  }

  async #sendThrough(
    parent: LoginState,
    request: LegRequest,
    own: string,
  ): Promise<ExchangeAnswer> {
    const login = parent.pending ?? (await parent.authorize?.(this.#abort.signal));
    parent.pending = undefined;
    const line = { method: request.method, upstreamTarget: request.target };
    const outer = login?.credentials ?? parent.credentialsFor(line);
    const field = outer === undefined ? '' : `${PARENT_HOP.field}: ${outer}\r\n`;
    if (this.#failed === undefined) login?.sent();
    const answer = await this.#send(request, `${field}${own}`).catch((error: unknown) => {
      login?.abandon();
      throw error;
    });
    const challenges = fieldValues(this.#head, this.#bytes, PARENT_HOP.challengeField);
    const verdict = await login?.judge({ status: answer.status, challenges, persistentAuth: [] });
    if (answer.status === PARENT_HOP.asksWith) throw refusedOnTheWay(verdict);
    return answer;
  }

  /** `login`: whole lines. */
  #send(request: LegRequest, login: string): Promise<ExchangeAnswer> {
    if (this.#failed !== undefined) return Promise.reject(this.#failed);
    const { method, target, host } = request;
    // A method with content semantics says that there is none (RFC 9110 8.6); CONNECT has none.
    const bare = /^(?:GET|HEAD|OPTIONS|DELETE|CONNECT)$/.test(method);
    const fields = `Host: ${host}\r\n${login}${bare ? '' : 'Content-Length: 0\r\n'}`;
    this.#method = method;
    this.#early = undefined;
    this.#bytes = Buffer.alloc(0);
    this.#parsing = false;
    this.#headless = true;
    this.#interim = 0;
    this.#drained = 0;
    const answer = new Promise<ExchangeAnswer>((resolve, reject) => {
      this.#pending = { resolve, reject };
    });
    if (this.#observer !== undefined) {
      const credentials = sentCredentials(login);
      this.#observer.sent({ hop: this.#hop.name, method, target, host, credentials });
    }
    const text = `${method} ${target} HTTP/1.1\r\n${fields}\r\n`;
    this.#connection.transport.write(Buffer.from(text, 'latin1'), undefined);
    this.#connection.transport.resume();
    return answer;
  }

  /** Ends a leg in work from outside, and lets none follow. */
  fail(error: ProxyError): void {
    this.#failed ??= error;
    const pending = this.#pending;
    this.#pending = undefined;
    this.reusable = false;
    this.#abort.abort();
    pending?.reject(error);
  }

  received(buffer: Buffer, start: number, end: number): boolean {
    if (this.#pending === undefined) {
      // Bytes between two legs: nobody asked for them.
      this.#connection.spend();
      this.reusable = false;
      return false;
    }
    if (this.#headless) this.#readHead(buffer, start, end);
    else this.#readBody(buffer, start, end);
    // What follows in a tunnel is for whoever takes it over.
    return this.#framing !== 'tunnel' || this.#headless;
  }

  drained(): void {
    // A leg is one small write.
  }

  ended(): void {
    if (!this.#headless && this.#framing === 'until-close') this.#answer(false);
    else this.#broken('closed the connection during the login', 'safe');
  }

  closed(): void {
    this.#broken('closed the connection during the login', 'safe');
  }

  #readHead(buffer: Buffer, start: number, end: number): void {
    this.#bytes = Buffer.concat([this.#bytes, buffer.subarray(start, end)]);
    let bytes = this.#bytes;
    for (;;) {
      const next = this.#parsing
        ? this.#head.resume(bytes, bytes.length)
        : this.#head.parse(bytes, 0, bytes.length, LIMITS);
      this.#parsing = next === 0;
      if (next === 0) return;
      if (next < 0) {
        this.#broken('sent a malformed answer to the login');
        return;
      }
      const { status } = this.#head;
      if (status >= 200) {
        this.#beginBody(bytes, next);
        return;
      }
      this.#interim += 1;
      if (status === 101 || this.#interim > MAX_INTERIM) {
        this.#broken('sent interim answers without end to the login');
        return;
      }
      bytes = bytes.subarray(next);
      this.#bytes = bytes;
      if (bytes.length === 0) return;
    }
  }

  #beginBody(bytes: Buffer, next: number): void {
    const head = this.#head;
    this.#headless = false;
    this.#left = 0;
    const { status } = head;
    if (this.#method === 'CONNECT' && status >= 200 && status < 300) {
      // Whatever its framing fields say, there is no body (RFC 9110 9.3.6).
      this.#framing = 'tunnel';
      if (next < bytes.length) this.#early = Buffer.from(bytes.subarray(next));
      this.#connection.transport.pause();
      this.#answer(true);
      return;
    }
    if (this.#method === 'HEAD' || status === 204 || status === 304) {
      this.#framing = 'counted';
    } else if (head.chunked) {
      this.#framing = 'chunked';
      this.#scanner.reset();
    } else if (head.contentLength >= 0) {
      this.#framing = 'counted';
      this.#left = head.contentLength;
    } else {
      this.#framing = 'until-close';
    }
    // A body over the limit is not read at all: the login goes on elsewhere or not.
    if (this.#left > DRAIN_BYTES) this.#answer(false);
    else this.#readBody(bytes, next, bytes.length);
  }

  #readBody(buffer: Buffer, start: number, end: number): void {
    this.#drained += end - start;
    if (this.#framing === 'counted') {
      const surplus = end - start - this.#left;
      this.#left -= Math.min(this.#left, end - start);
      if (this.#left === 0) this.#answer(surplus <= 0);
    } else if (this.#framing === 'chunked') {
      const next = this.#scanner.scan(buffer, start, end, { put: () => undefined }, false);
      if (next === BODY_FAULT) this.#broken('broke the framing of its answer to the login');
      else if (next !== NEED_MORE) this.#answer(next === end);
    }
    if (this.#pending !== undefined && this.#drained > DRAIN_BYTES) this.#answer(false);
  }

  /** `clean`: the message ended exactly with the last byte read. */
  #answer(clean: boolean): void {
    const head = this.#head;
    const ofProxy = this.#hop.name === 'parent' || this.#connection.parent !== undefined;
    const keeps = this.#framing === 'tunnel' || keepsConnection(head, this.#bytes, ofProxy);
    this.reusable = clean && keeps && this.#framing !== 'until-close';
    const pending = this.#pending;
    this.#pending = undefined;
    const { status } = head;
    if (pending !== undefined) this.#observer?.answered(this.#seen());
    const asProxy = status === 407 && this.#hop.name === 'origin' && !this.settling;
    if (asProxy && this.#connection.parent === undefined) {
      // Of an origin: no credential of ours is for it (R26).
      const facts = { side: 'upstream', stage: 'handshake' } as const;
      const text = 'login: the origin asks as if it were a proxy';
      pending?.reject(new ProxyError('proxy-auth-from-origin', text, facts));
      return;
    }
    const fields = fieldValues(head, this.#bytes, this.#hop.challengeField);
    this.last = {
      status,
      asks: status === this.#hop.asksWith,
      challenges: askedChallenges(fields),
      fields,
      persistentAuth: this.#persistentAuth(),
      reusable: this.reusable,
      early: this.#early,
    };
    pending?.resolve(this.last);
  }

  /** For the observer. */
  #seen(): AnsweredLeg {
    const { status } = this.#head;
    const values = (field: number): string[] => fieldValues(this.#head, this.#bytes, field);
    const asked =
      status === PARENT_HOP.asksWith
        ? RESPONSE_FIELD.proxyAuthenticate
        : RESPONSE_FIELD.wwwAuthenticate;
    return {
      status,
      challenges: askedChallenges(values(asked)),
      persistentAuth: values(RESPONSE_FIELD.persistentAuth),
      date: values(RESPONSE_FIELD.date)[0],
    };
  }

  /** Between a client and its origin (MS-N2HT): a parent passes it on. */
  #persistentAuth(): string[] {
    if (this.#hop.name === 'parent') return [];
    return fieldValues(this.#head, this.#bytes, RESPONSE_FIELD.persistentAuth);
  }

  /** `safe`: the connection ended, which a new one may not; nothing was executed. */
  #broken(what: string, retry: 'never' | 'safe' = 'never'): void {
    this.#connection.spend();
    const facts = { side: 'upstream', stage: 'handshake', retry } as const;
    this.fail(new ProxyError('handshake-failed', `the upstream ${what}`, facts));
  }
}

/** A 407 to a leg that was meant for the origin. */
function refusedOnTheWay(verdict: LoginVerdict | undefined): ProxyError {
  const facts = { side: 'upstream', stage: 'handshake' } as const;
  if (verdict === 'rejected') {
    const text = 'the parent proxy refused the credential';
    return new ProxyError('credential-rejected', text, { ...facts, hop: 'parent' });
  }
  const text = 'login: the parent proxy asks for a login on each request, or for another one';
  return new ProxyError('parent-auth', text, { ...facts, retry: 'safe' });
}

function sharedOnTheWay(): ProxyError {
  const text = 'login: the parent proxy does not keep connections for logins (Proxy-Support)';
  return new ProxyError('handshake-failed', text, { side: 'upstream', stage: 'handshake' });
}
