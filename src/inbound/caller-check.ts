/**
 * Who is the caller of a request: the kinds of credentials that a listener takes, tried in order; the
 * first that finds its kind decides (config.md, Clients).
 *
 * 1. The entry that finds credentials of its kind. 2. The memo of the connection: the same entry, the
 * same bytes, and an answer that still holds. 3. The entry itself; where it has to ask somebody, the
 * request waits and is checked once more.
 *
 * Memos belong to one check and thereby to one generation of the configuration.
 */
import { ProxyError } from '../errors.ts';
import type { ClientCertificate } from '../identity/client-certificate.ts';
import type { OwnChallenge } from '../http/own-challenge.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { isAcceptableName } from './caller-name.ts';
import { type Caller, NO_CALLER, subjectOf } from './caller.ts';
import type { CallerConnection, ClientEntry, ConnectionEntry, Identified } from './client-entry.ts';
import { confirmationFault } from './jwt/confirmation.ts';

/** Somebody is asked who calls; the same head is to be checked again once `settled`, which never rejects. */
export interface PendingCaller {
  readonly kind: 'undecided';
  readonly settled: Promise<void>;
}

/** Counts of one listener; told once for every request. */
export interface CallerMeters {
  /** `refused`: no credentials, or wrong ones. `failed`: nobody could say whether they are right. */
  judged(client: Caller['kind'], result: 'ok' | 'refused' | 'failed'): void;
}

export interface CallerCheckSettings {
  /** In order; of each kind of credentials. */
  readonly entries: readonly (ClientEntry | ConnectionEntry)[];
  /** Callers without credentials are let in. */
  readonly takesNone: boolean;
  /** How refused callers are asked; undefined: nothing that a caller may send himself would help. */
  readonly challenge: OwnChallenge | undefined;
  readonly meters: CallerMeters;
}

/** What a connection brought, and who that is. */
interface Memo {
  entry: ClientEntry;
  /** Has room for `length` bytes or more. */
  bytes: Buffer;
  length: number;
  found: Identified | ProxyError;
}

export class CallerCheck {
  readonly challenge: OwnChallenge | undefined;
  readonly #entries: readonly (ClientEntry | ConnectionEntry)[];
  readonly #takesNone: boolean;
  readonly #meters: CallerMeters;
  readonly #memos = new WeakMap<CallerConnection, Memo>();
  /** Callers whose name was looked at. */
  readonly #acceptable = new WeakSet<Caller>();
  /** Answers for requests that waited, each to be taken once. */
  readonly #answers = new WeakMap<CallerConnection, Memo>();

  constructor(settings: CallerCheckSettings) {
    this.challenge = settings.challenge;
    this.#entries = settings.entries;
    this.#takesNone = settings.takesNone;
    this.#meters = settings.meters;
  }

  /**
   * The caller, or why he is refused. The parser has refused two fields of credentials, and two of a name
   * that names callers. `connection`
   * stands for the caller's connection and keeps the memo alive.
   */
  check(
    head: RequestHead,
    buffer: Buffer,
    connection: CallerConnection,
  ): Caller | ProxyError | PendingCaller {
    for (const entry of this.#entries) {
      if (entry.kind === 'mtls') {
        const owner = entry.identify(connection);
        if (owner !== undefined) return this.#ofCertificate(owner);
        continue;
      }
      const index = entry.find(head, buffer, connection);
      if (index < 0) continue;
      const at = index * KNOWN_STRIDE;
      const start = head.known[at + 3] ?? 0;
      const end = head.known[at + 4] ?? 0;
      const memo = this.#memos.get(connection);
      if (memo !== undefined && isOf(memo, entry, buffer, start, end) && holds(memo)) {
        return this.#judge(entry, memo.found);
      }
      return this.#identify({ entry, buffer, start, end, connection });
    }
    return this.#ofConnection(head, connection) ?? this.#withoutCredentials();
  }

  #ofConnection(head: RequestHead, connection: CallerConnection): Caller | ProxyError | undefined {
    for (const entry of this.#entries) {
      if (entry.kind === 'mtls') continue;
      const found = entry.ofConnection?.(head, connection);
      if (found !== undefined) return this.#admit(entry, found);
    }
    return undefined;
  }

  #identify(asked: Asked): Caller | ProxyError | PendingCaller {
    const { entry, buffer, start, end, connection } = asked;
    const answer = this.#answers.get(connection);
    if (answer !== undefined) {
      this.#answers.delete(connection);
      if (isOf(answer, entry, buffer, start, end)) return this.#take(asked, answer.found);
    }
    const found = entry.identify(buffer, start, end, connection);
    if (!(found instanceof Promise)) return this.#take(asked, found);
    if (entry.isOnce === true) return { kind: 'undecided', settled: ended(found) };
    const bytes = Buffer.from(buffer.subarray(start, end));
    const keep = (known: Identified | ProxyError): void => {
      this.#answers.set(connection, { entry, bytes, length: bytes.length, found: known });
    };
    const settled = found.then(keep, () => keep(broken()));
    return { kind: 'undecided', settled };
  }

  /** What was found is this request's; who is let in is remembered for those that follow. */
  #take(asked: Asked, found: Identified | ProxyError): Caller | ProxyError {
    if (found instanceof ProxyError) return this.#judge(asked.entry, found);
    const { entry, connection } = asked;
    const { answerLines, caller: brought } = found;
    if (brought.kind === 'jwt') {
      const fault = confirmationFault(brought.claims, this.#shown(connection));
      if (fault !== undefined) return this.#judge(entry, refusal('caller-token-refused', fault));
    }
    if (answerLines !== undefined) connection.answerLines = answerLines;
    const caller = this.#admit(entry, found);
    if (!(caller instanceof ProxyError) && entry.isOnce !== true) this.#remember(asked, found);
    return caller;
  }

  /** The certificate of a connection, where it counts for the listener as it is now. */
  #shown({ certificate }: CallerConnection): ClientCertificate | undefined {
    const judge = this.#entries.find((entry) => entry.kind === 'mtls');
    if (certificate === undefined || judge?.kind !== 'mtls') return undefined;
    return judge.faultOf(certificate) === undefined ? certificate : undefined;
  }

  #admit(entry: ClientEntry, found: Identified): Caller | ProxyError {
    return this.#judge(entry, this.#isAcceptable(found.caller) ? found : NAME_REFUSED());
  }

  /** Callers whose token is remembered are the same objects again. */
  #isAcceptable(caller: Caller): boolean {
    if (this.#acceptable.has(caller)) return true;
    const name = subjectOf(caller);
    if (name !== undefined && !isAcceptableName(name)) return false;
    this.#acceptable.add(caller);
    return true;
  }

  /** A caller who changes often between tokens of about one length costs no buffer each time. */
  #remember({ entry, buffer, start, end, connection }: Asked, found: Identified): void {
    const length = end - start;
    const memo = this.#memos.get(connection);
    if (memo === undefined || memo.bytes.length < length) {
      const bytes = Buffer.allocUnsafeSlow(length + SLACK);
      buffer.copy(bytes, 0, start, end);
      this.#memos.set(connection, { entry, bytes, length, found });
      return;
    }
    buffer.copy(memo.bytes, 0, start, end);
    memo.entry = entry;
    memo.length = length;
    memo.found = found;
  }

  #ofCertificate(owner: Caller | ProxyError): Caller | ProxyError {
    const isRefused = owner instanceof ProxyError;
    const isNamed = isRefused || this.#isAcceptable(owner);
    this.#meters.judged('mtls', isRefused || !isNamed ? 'refused' : 'ok');
    return isNamed ? owner : NAME_REFUSED();
  }

  #judge({ kind }: ClientEntry, found: Identified | ProxyError): Caller | ProxyError {
    if (!(found instanceof ProxyError)) {
      this.#meters.judged(kind, 'ok');
      return found.caller;
    }
    this.#meters.judged(kind, FAILURES.has(found.code) ? 'failed' : 'refused');
    return found;
  }

  #withoutCredentials(): Caller | ProxyError {
    if (this.#takesNone) {
      this.#meters.judged('none', 'ok');
      return NO_CALLER;
    }
    this.#meters.judged(this.#entries[0]?.kind ?? 'none', 'refused');
    return refusal(
      'client-auth-required',
      'the caller sent no credentials of a kind that the listener takes',
    );
  }
}

interface Asked {
  readonly entry: ClientEntry;
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  readonly connection: CallerConnection;
}

/** Bytes by which the next credentials may be longer. */
const SLACK = 32;

/** Nobody could say; the credentials may be right. */
const FAILURES: ReadonlySet<string> = new Set([
  'caller-check-busy',
  'jwks-unavailable',
  'acceptor-unavailable',
  'internal',
]);

function isOf(
  { entry, bytes, length }: Memo,
  asked: ClientEntry,
  buffer: Buffer,
  start: number,
  end: number,
): boolean {
  if (entry !== asked || length !== end - start) return false;
  return buffer.compare(bytes, 0, length, start, end) === 0;
}

/** Settles with a promise that an entry keeps the answer of. */
async function ended(found: Promise<unknown>): Promise<void> {
  try {
    await found;
  } catch {
    // The entry broke its promise; what it says when it is asked again counts.
  }
}

/** An entry broke its promise: nobody is let in by that. */
const broken = (): ProxyError =>
  new ProxyError('internal', 'the check of a caller failed', {
    side: 'internal',
    stage: 'identify',
  });

const holds = ({ entry, found }: Memo): boolean =>
  !(found instanceof ProxyError) && entry.holds(found);

const NAME_REFUSED = (): ProxyError =>
  refusal('caller-name-refused', 'the name has characters that are refused');

const refusal = (
  code: 'client-auth-required' | 'caller-name-refused' | 'caller-token-refused',
  message: string,
): ProxyError => new ProxyError(code, message, { side: 'downstream', stage: 'identify' });
