/**
 * What is kept of callers who bring Kerberos tickets, beyond one configuration: answers for requests
 * that wait, connections that are somebody's, and the callers themselves, one object each.
 *
 * A token is worth one request and may be shown to an acceptor once. So an answer is kept with the
 * connection until its request takes it, whichever configuration is in force by then; with another
 * acceptor in force it is worth nothing, and the token is not shown to that one.
 */
import { BoundedMap } from '../bounded-map.ts';
import type { Clock } from '../clock.ts';
import { ProxyError } from '../errors.ts';
import type { NegotiateCaller } from './caller.ts';
import type { CallerConnection } from './client-entry.ts';

/** Who knows tickets: `auth/kerberos/acceptor.ts`. */
export interface TicketAcceptor {
  /** Who brings the token, and the token for him; never rejects, and is never shown a token twice. */
  accept(token: Uint8Array): Promise<Ticket | ProxyError>;
}

export interface Ticket {
  readonly name: string;
  readonly token: Uint8Array;
}

/**
 * How long a connection is somebody's. The end of his ticket is not known here, nor whether he is locked
 * out meanwhile: so he has to bring a new one from time to time.
 */
const CONNECTION_MS = 10 * 60_000;
/** Callers who change nothing for each other when they leave: they are made again. */
const MAX_CALLERS = 10_000;

interface Pending {
  readonly acceptor: TicketAcceptor;
  readonly digest: string;
  answer: Ticket | ProxyError | undefined;
}

interface Owner {
  readonly acceptor: TicketAcceptor;
  readonly caller: NegotiateCaller;
  /** Clock ms. */
  readonly until: number;
}

export class TicketCallers {
  readonly #clock: Clock;
  readonly #pending = new WeakMap<CallerConnection, Pending>();
  readonly #owners = new WeakMap<CallerConnection, Owner>();
  readonly #callers = new BoundedMap<NegotiateCaller>(MAX_CALLERS);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Asks `acceptor`; the answer waits for `take`. */
  ask(connection: CallerConnection, asked: Asked): Promise<Ticket | ProxyError> {
    const { acceptor, digest, token } = asked;
    const pending: Pending = { acceptor, digest, answer: undefined };
    this.#pending.set(connection, pending);
    const keep = (answer: Ticket | ProxyError): Ticket | ProxyError => {
      pending.answer = answer;
      return answer;
    };
    return acceptor.accept(token).then(keep, () => keep(broken()));
  }

  /** The answer about a token of this digest, once; undefined: nobody was asked about it. */
  take(
    connection: CallerConnection,
    { acceptor, digest }: Omit<Asked, 'token'>,
  ): Ticket | ProxyError | undefined {
    const pending = this.#pending.get(connection);
    this.#pending.delete(connection);
    if (pending?.answer === undefined || pending.digest !== digest) return undefined;
    return pending.acceptor === acceptor ? pending.answer : outdated();
  }

  /** The same object for the same name. */
  callerOf(name: string): NegotiateCaller {
    const known = this.#callers.find(name);
    if (known !== undefined) return known;
    const made: NegotiateCaller = Object.freeze({ kind: 'negotiate', subject: name });
    this.#callers.keep(name, made);
    return made;
  }

  /** The connection is this caller's until it brings something else, or for ten minutes. */
  bind(connection: CallerConnection, acceptor: TicketAcceptor, caller: NegotiateCaller): void {
    const until = this.#clock.now() + CONNECTION_MS;
    this.#owners.set(connection, { acceptor, caller, until });
  }

  unbind(connection: CallerConnection): void {
    this.#owners.delete(connection);
  }

  /** Whose the connection is by a ticket that `acceptor` took. */
  ownerOf(connection: CallerConnection, acceptor: TicketAcceptor): NegotiateCaller | undefined {
    const owner = this.#owners.get(connection);
    if (owner === undefined) return undefined;
    if (owner.acceptor === acceptor && this.#clock.now() < owner.until) return owner.caller;
    this.#owners.delete(connection);
    return undefined;
  }
}

export interface Asked {
  readonly acceptor: TicketAcceptor;
  /** Of the token in full. */
  readonly digest: string;
  readonly token: Uint8Array;
}

const outdated = (): ProxyError =>
  new ProxyError(
    'caller-ticket-refused',
    'the acceptor of the ticket is out of the configuration',
    {
      side: 'downstream',
      stage: 'identify',
    },
  );

const broken = (): ProxyError =>
  new ProxyError('internal', 'the check of a ticket failed', {
    side: 'internal',
    stage: 'identify',
  });
