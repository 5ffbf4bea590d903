/**
 * Who is the caller of a request: the kinds of credentials that a listener takes, tried in order; the
 * first that finds its kind decides (config.md, Clients). Basic verifies nothing here: its callers get
 * an identity of their own, and the next hop judges their password.
 *
 * A connection that brings the same bytes again costs their comparison. The memo belongs to one check
 * and thereby to one generation of the configuration.
 */
import type { ClientConfig } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { basicChallenge, type OwnChallenge } from '../http/own-challenge.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { decodeBasic, isBasic } from './basic-credentials.ts';
import { type Caller, NO_CALLER } from './caller.ts';

/** Counts of one listener; told for every request. */
export interface CallerMeters {
  /** `refused`: no credentials of a kind that the listener takes, or malformed ones. */
  judged(client: 'none' | 'basic', result: 'ok' | 'refused'): void;
}

export interface CallerCheckSettings {
  readonly clients: readonly ClientConfig[];
  /** Where the listener stands: proxies read Proxy-Authorization and answer 407. */
  readonly place: 'origin' | 'proxy';
  readonly meters: CallerMeters;
}

/** What a connection brought last. */
interface Memo {
  readonly bytes: Buffer;
  readonly caller: Caller;
}

export class CallerCheck {
  /** How refused callers are asked; undefined: the listener takes no credentials. */
  readonly challenge: OwnChallenge | undefined;
  /** Id of the field that is read. */
  readonly field: number;
  readonly #takesBasic: boolean;
  readonly #takesNone: boolean;
  readonly #meters: CallerMeters;
  readonly #memos = new WeakMap<object, Memo>();

  constructor({ clients, place, meters }: CallerCheckSettings) {
    const basic = clients.find(({ kind }) => kind === 'basic');
    const status = place === 'proxy' ? 407 : 401;
    this.field = place === 'proxy' ? REQUEST_FIELD.proxyAuthorization : REQUEST_FIELD.authorization;
    this.challenge = basic?.kind === 'basic' ? basicChallenge(status, basic.realm) : undefined;
    this.#takesBasic = basic !== undefined;
    this.#takesNone = clients.some(({ kind }) => kind === 'none');
    this.#meters = meters;
  }

  /**
   * The caller, or `client-auth-required`. The parser has refused two fields of the name. `connection`
   * stands for the caller's connection and keeps the memo alive.
   */
  check(head: RequestHead, buffer: Buffer, connection: object): Caller | ProxyError {
    const entry = head.first(this.field) * KNOWN_STRIDE;
    if (entry < 0 || !this.#takesBasic) return this.#withoutCredentials();
    const start = head.known[entry + 3] ?? 0;
    const end = head.known[entry + 4] ?? 0;
    const memo = this.#memos.get(connection);
    if (memo !== undefined && memo.bytes.length === end - start) {
      if (buffer.compare(memo.bytes, 0, memo.bytes.length, start, end) === 0) {
        this.#meters.judged('basic', 'ok');
        return memo.caller;
      }
    }
    if (!isBasic(buffer, start, end)) return this.#withoutCredentials();
    const caller = decodeBasic(buffer, start, end);
    if (caller === undefined) {
      this.#meters.judged('basic', 'refused');
      return required('the caller sent malformed Basic credentials');
    }
    this.#memos.set(connection, { bytes: Buffer.from(buffer.subarray(start, end)), caller });
    this.#meters.judged('basic', 'ok');
    return caller;
  }

  #withoutCredentials(): Caller | ProxyError {
    if (this.#takesNone) {
      this.#meters.judged('none', 'ok');
      return NO_CALLER;
    }
    this.#meters.judged('basic', 'refused');
    return required('the caller sent no credentials of a kind that the listener takes');
  }
}

const required = (message: string): ProxyError =>
  new ProxyError('client-auth-required', message, { side: 'downstream', stage: 'identify' });
