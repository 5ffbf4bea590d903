/**
 * The login of one connection of the scripted upstream: from an Authorization field to a verdict,
 * and from a challenge to field lines. Bodies and sockets are the server's.
 */

import { messageType, NtlmAcceptor, type AcceptorSettings } from './ntlm-acceptor.ts';
import { fieldValues, type Fields } from './strict-http.ts';
import { claimedUser, type SocketRecord, type TokenKind } from './upstream-journal.ts';
import type { ChallengeText, ScriptedUpstreamOptions } from './upstream-options.ts';

/** The connection ends after the answer: with `Connection: close`, or without a word. */
export type Closing = 'said' | 'silent';

export type LoginVerdict =
  /** Serve the request as this user (undefined: as nobody). */
  | { readonly kind: 'serve'; readonly user: string | undefined; readonly close?: Closing }
  /** 401; `token` is the base64 of a type 2. */
  | { readonly kind: 'challenge'; readonly token: string | undefined; readonly close?: Closing }
  /** 401 that offers the scheme again without a token: the login failed. */
  | { readonly kind: 'refuse' }
  | { readonly kind: 'cut'; readonly how: 'fin' | 'reset' };

export type Role = NonNullable<ScriptedUpstreamOptions['role']>;

export interface LoginMessage {
  readonly kind: TokenKind;
  readonly bytes: Buffer;
}

const NTLM = /^NTLM (?<token>[A-Za-z0-9+/]+={0,2})$/i;

/** What the Authorization fields of a request are, or at a proxy those for it. */
export function loginMessage(fields: Fields, role: Role = 'origin'): LoginMessage {
  const name = role === 'proxy' ? 'proxy-authorization' : 'authorization';
  const values = fieldValues(fields, name);
  const [value] = values;
  const none = Buffer.alloc(0);
  if (value === undefined) return { kind: 'none', bytes: none };
  if (values.length > 1) return { kind: 'other', bytes: none };
  if (/^basic /i.test(value))
    return { kind: 'basic', bytes: Buffer.from(value.slice(6), 'base64') };
  const token = NTLM.exec(value)?.groups?.['token'];
  if (token === undefined) return { kind: 'other', bytes: none };
  const bytes = Buffer.from(token, 'base64');
  const type = messageType(bytes);
  if (type === 1) return { kind: 'type1', bytes };
  return type === 3 ? { kind: 'type3', bytes } : { kind: 'other', bytes };
}

/** State of the login of one socket. Requests are judged in order. */
export class ConnectionLogin {
  readonly #options: ScriptedUpstreamOptions;
  readonly #settings: AcceptorSettings;
  readonly #record: SocketRecord;
  readonly #tokens: string[];
  #acceptor: NtlmAcceptor | undefined;
  #user: string | undefined;
  #answers = 0;

  constructor(deps: {
    options: ScriptedUpstreamOptions;
    settings: AcceptorSettings;
    record: SocketRecord;
    tokens: string[];
  }) {
    this.#options = deps.options;
    this.#settings = deps.settings;
    this.#record = deps.record;
    this.#tokens = deps.tokens;
  }

  /** Judges one request by its message. */
  judge(message: LoginMessage, open: boolean): LoginVerdict {
    const scheme = this.#options.scheme ?? 'ntlm';
    if (message.kind === 'type1') this.#record.type1 += 1;
    if (message.kind === 'type1') this.#record.type1Bytes = message.bytes.length;
    if (message.kind === 'type3') this.#record.type3 += 1;
    if (message.kind === 'type3') this.#tokens.push(message.bytes.toString('base64'));
    if (scheme === 'none' || open) return { kind: 'serve', user: undefined };
    if (scheme === 'basic-only') return { kind: 'challenge', token: undefined };
    if (message.kind === 'type1') return this.#onType1(message.bytes);
    if (message.kind === 'type3') return this.#onType3(message.bytes);
    if (message.kind === 'basic' && this.#options.takesBasic === true) {
      return this.#onBasic(message.bytes.toString());
    }
    // A request without a token in the middle of a login gives the login up.
    this.#acceptor = undefined;
    if (message.kind === 'none' && this.#user !== undefined) return this.#asUser(this.#user);
    const first = this.#options.login?.first ?? 'challenge';
    if (first === 'challenge') return { kind: 'challenge', token: undefined };
    const close = first === 'challenge-fin' ? 'silent' : 'said';
    return { kind: 'challenge', token: undefined, close };
  }

  /** Counts an answer given as the user, and forgets the login when it is time. */
  answered(): void {
    if (this.#user === undefined) return;
    this.#answers += 1;
    const perRequest = (this.#options.binding ?? 'connection') === 'request';
    const limit = perRequest ? 1 : (this.#options.forgetAfter ?? Infinity);
    if (this.#answers >= limit) this.#user = undefined;
  }

  #asUser(user: string): LoginVerdict {
    return { kind: 'serve', user };
  }

  #onBasic(text: string): LoginVerdict {
    const colon = text.indexOf(':');
    const user = text.slice(0, colon);
    if (this.#settings.accounts[user] !== text.slice(colon + 1)) return { kind: 'refuse' };
    this.#record.logins.push(user);
    return { kind: 'serve', user };
  }

  #onType1(bytes: Buffer): LoginVerdict {
    this.#user = undefined;
    const wanted = this.#options.login?.type1 ?? 'challenge';
    switch (typeof wanted === 'function' ? wanted(this.#record.id) : wanted) {
      case 'ok':
        return { kind: 'serve', user: undefined };
      case 'fin':
        return { kind: 'cut', how: 'fin' };
      case 'reset':
        return { kind: 'cut', how: 'reset' };
      case 'bare':
        return { kind: 'refuse' };
      case 'challenge-close':
        return { kind: 'challenge', token: this.#type2(bytes), close: 'said' };
      default:
        return { kind: 'challenge', token: this.#type2(bytes) };
    }
  }

  #type2(type1: Buffer): string {
    this.#acceptor = new NtlmAcceptor(this.#settings, type1);
    const changed = this.#options.login?.mutateType2?.(this.#acceptor.sent);
    if (typeof changed === 'string') return changed;
    if (changed !== undefined) this.#acceptor.sent = changed;
    return this.#acceptor.sent.toString('base64');
  }

  #onType3(bytes: Buffer): LoginVerdict {
    const acceptor = this.#acceptor;
    this.#acceptor = undefined;
    if (acceptor === undefined) {
      this.#record.strayType3 += 1;
      this.#user = undefined;
      return { kind: 'refuse' };
    }
    const verdict = acceptor.verify(bytes);
    if (verdict.claim !== undefined) this.#record.claims.push(verdict.claim);
    const wanted = this.#options.login?.type3 ?? 'verify';
    const how = typeof wanted === 'function' ? wanted(verdict.claim, this.#record.id) : wanted;
    if (how === 'fin' || how === 'reset') return { kind: 'cut', how };
    if (how === 'ok') return { kind: 'serve', user: undefined };
    if (how === 'challenge') return { kind: 'challenge', token: this.#type2(bytes) };
    if (how === 'bare' || !verdict.ok) return { kind: 'refuse' };
    this.#user = claimedUser(verdict.claim);
    this.#answers = 0;
    this.#record.logins.push(this.#user);
    return { kind: 'serve', user: this.#user, ...(how === 'close' ? { close: 'said' } : {}) };
  }
}

/** Field lines of a challenge in the given style; `token` follows the NTLM scheme name. */
export function challengeFields(
  style: ChallengeText,
  token: string | undefined,
  role: Role = 'origin',
): (readonly [string, string])[] {
  const field = role === 'proxy' ? 'Proxy-Authenticate' : 'WWW-Authenticate';
  const withToken = (name: string): string => (token === undefined ? name : `${name} ${token}`);
  const line = (value: string): readonly [string, string] => [field, value];
  const basic = 'Basic realm="a, b=c \\" NTLM", charset="UTF-8"';
  switch (style) {
    case 'NTLM':
      return [line(withToken('NTLM'))];
    case 'ntlm':
      return [[field.toLowerCase(), withToken('ntlm')]];
    case 'negotiate-lines':
      return [line('Negotiate'), line(withToken('NTLM'))];
    case 'basic-first-lines':
      return [line(basic), line('Negotiate'), line(withToken('NTLM'))];
    case 'comma-list':
      return [line(`Negotiate, ${withToken('NTLM')}, ${basic}`)];
    case 'basic-first-comma-list':
      return [line(`${basic} , ,${withToken('NTLM')},Negotiate`)];
    case 'basic-only':
      return [line('Basic realm="test"')];
    default:
      return style satisfies never;
  }
}
