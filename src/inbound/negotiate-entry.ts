/**
 * Callers with a Kerberos ticket in the scheme Negotiate (RFC 4559): for each request, or, where the
 * listener says so, for the connection. The acceptor's last token goes back with the answer.
 *
 * The token is decoded strictly here, before any library sees it (hostile row A11); what is in it is the
 * acceptor's business.
 */
import { createHash } from 'node:crypto';
import { ProxyError } from '../errors.ts';
import { decodeToken68 } from '../http/challenge.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { RequestHead } from '../wire/request-head.ts';
import { afterScheme, hasScheme } from './auth-scheme.ts';
import type { NegotiateCaller } from './caller.ts';
import type { CallerConnection, ClientEntry, Identified } from './client-entry.ts';
import type { Ticket, TicketAcceptor, TicketCallers } from './ticket-callers.ts';

const SCHEME = Buffer.from('negotiate');
/** Windows names a user's groups in his ticket: 48 KiB and less. A head is 64 KiB by default. */
const MAX_TOKEN = 64 * 1024;
const COMMA = 0x2c;

export interface NegotiateIdentified extends Identified {
  readonly caller: NegotiateCaller;
}

export interface NegotiateSettings {
  /** Id of the field with the credentials. */
  readonly field: number;
  /** Name of the field for the acceptor's token. */
  readonly answerField: 'WWW-Authenticate' | 'Proxy-Authenticate';
  readonly persist: 'request' | 'connection';
  readonly acceptor: TicketAcceptor;
  readonly callers: TicketCallers;
}

export class NegotiateEntry implements ClientEntry<NegotiateIdentified> {
  readonly kind = 'negotiate';
  readonly isOnce = true;
  readonly #settings: NegotiateSettings;

  constructor(settings: NegotiateSettings) {
    this.#settings = settings;
  }

  find(head: RequestHead, buffer: Buffer): number {
    const index = head.first(this.#settings.field);
    if (index < 0) return -1;
    const at = index * KNOWN_STRIDE;
    return hasScheme(buffer, head.known[at + 3] ?? 0, head.known[at + 4] ?? 0, SCHEME) ? index : -1;
  }

  identify(
    buffer: Buffer,
    start: number,
    end: number,
    connection: CallerConnection,
  ): NegotiateIdentified | ProxyError | Promise<NegotiateIdentified | ProxyError> {
    const { acceptor, callers } = this.#settings;
    // Whatever becomes of it, the connection is not whose it was.
    callers.unbind(connection);
    const digest = createHash('sha256').update(buffer.subarray(start, end)).digest('hex');
    const answer = callers.take(connection, { acceptor, digest });
    if (answer !== undefined) return this.#judge(connection, answer);
    const at = afterScheme(buffer, start, end, SCHEME);
    if (buffer.subarray(at, end).includes(COMMA)) {
      return refusal('request-malformed', 'several credentials in one field');
    }
    const token = decodeToken68(buffer.toString('latin1', at, end), MAX_TOKEN);
    if (token === undefined) return refusal('caller-ticket-refused', 'the ticket is not accepted');
    const asked = callers.ask(connection, { acceptor, digest, token });
    // Bound to the connection once the request that waits is dispatched again.
    return asked.then((ticket) =>
      ticket instanceof ProxyError ? ticket : { caller: callers.callerOf(ticket.name) },
    );
  }

  /** A token is worth one request. */
  holds(): boolean {
    return false;
  }

  ofConnection(head: RequestHead, connection: CallerConnection): NegotiateIdentified | undefined {
    const { persist, field, acceptor, callers } = this.#settings;
    // Somebody with other credentials than these is somebody else, or nobody.
    if (persist === 'request' || head.first(field) >= 0) return undefined;
    const caller = callers.ownerOf(connection, acceptor);
    return caller === undefined ? undefined : { caller };
  }

  #judge(
    connection: CallerConnection,
    ticket: Ticket | ProxyError,
  ): NegotiateIdentified | ProxyError {
    if (ticket instanceof ProxyError) return ticket;
    // The library escapes what would read as another name: nobody's rules are written for that.
    if (ticket.name.includes('\\')) {
      return refusal('caller-name-refused', 'the name has escaped characters');
    }
    const { callers, acceptor, persist } = this.#settings;
    const caller = callers.callerOf(ticket.name);
    if (persist === 'connection') callers.bind(connection, acceptor, caller);
    return { caller, answerLines: this.#answerLines(ticket.token) };
  }

  #answerLines(token: Uint8Array): string {
    const { answerField, persist } = this.#settings;
    const proof =
      token.length === 0
        ? ''
        : `${answerField}: Negotiate ${Buffer.from(token).toString('base64')}\r\n`;
    // MS-N2HT 2.2: whether further requests of the connection need a token; for origins only.
    if (answerField === 'Proxy-Authenticate') return proof;
    return `${proof}Persistent-Auth: ${persist === 'connection'}\r\n`;
  }
}

const refusal = (
  code: 'caller-ticket-refused' | 'caller-name-refused' | 'request-malformed',
  message: string,
): ProxyError => new ProxyError(code, message, { side: 'downstream', stage: 'identify' });
