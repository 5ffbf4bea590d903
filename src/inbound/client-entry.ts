/**
 * What the check of a listener asks of each kind of credentials: whether a request has any, who brings
 * them, and whether an answer given before still holds.
 */
import type { ProxyError } from '../errors.ts';
import type { ClientCertificate } from '../identity/client-certificate.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { Caller } from './caller.ts';

/** Stands for a caller's connection, as long as that lives. */
export interface CallerConnection {
  /** IP address; `unix` for a unix socket. */
  readonly remoteAddress: string;
  /** What his TLS connection brought; undefined: no certificate. */
  readonly certificate?: ClientCertificate | undefined;
  /** Whole lines for the head of the answer to the present request; undefined: none. */
  answerLines?: string | undefined;
}

/** Who brings certain bytes. Entries add what they need to say how long that holds. */
export interface Identified {
  readonly caller: Caller;
  /** What the caller is to be told with the answer to this request, as whole lines. */
  readonly answerLines?: string | undefined;
}

/** One kind of credentials that a listener takes. */
export interface ClientEntry<I extends Identified = Identified> {
  readonly kind: 'basic' | 'jwt' | 'negotiate' | 'header';
  /**
   * Credentials of this kind are worth one request: no answer is remembered for equal bytes. While a
   * request waits, the entry keeps the answer by itself, and gives it when it is asked again.
   */
  readonly isOnce?: true;
  /** Index among the known lines of the one with credentials of this kind; -1: the request has none. */
  find(head: RequestHead, buffer: Buffer, connection: CallerConnection): number;
  /**
   * Who brings `buffer[start, end)`, the value of that line. A promise where somebody has to be asked; it
   * never rejects, settles within a deadline, and keeps nothing of `buffer`. `connection` says on whose
   * account somebody is asked, not who calls.
   */
  identify(
    buffer: Buffer,
    start: number,
    end: number,
    connection: CallerConnection,
  ): I | ProxyError | Promise<I | ProxyError>;
  /** Whether an answer of this entry still holds for the same bytes. */
  holds(identified: I): boolean;
  /** Who the connection is by what it brought before, for a request that no entry finds credentials in. */
  ofConnection?(head: RequestHead, connection: CallerConnection): I | undefined;
}

/** Credentials that a connection itself has, and no field of a request. */
export interface ConnectionEntry {
  readonly kind: 'mtls';
  /** Who the connection belongs to now, why he is refused; undefined: it has no such credentials. */
  identify(connection: CallerConnection): Caller | ProxyError | undefined;
  /** Why a certificate counts for nothing now; undefined: it counts. */
  faultOf(certificate: ClientCertificate): string | undefined;
}
