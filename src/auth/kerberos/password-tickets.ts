/**
 * Turns the passwords of principals into tickets: on first use, when a password changed, and again
 * before the tickets end. A password that the KDC refused is not tried again in the background: its
 * next try belongs to a request, where the guard counts it.
 */
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { ProxyError } from '../../errors.ts';
import type { KerberosIdentity } from '../../identity/identity.ts';
import type { Secret } from '../../identity/secret.ts';
import type { Log } from '../../log/log.ts';
import { kerberosError } from './native-errors.ts';
import { fetchTicket, type TicketFetchDeps } from './ticket-fetch.ts';

export interface PasswordTicketDeps extends TicketFetchDeps {
  /** The password in force, if it is this identity's. */
  readonly passwords: (identity: KerberosIdentity) => Secret<string> | undefined;
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  /** New tickets of a principal (`user@REALM`) are in the collection. */
  readonly renewed: (name: string) => void;
}

/** Renewed after this part of a ticket's life. */
const RENEW_PART = 0.6;
/** After a renewal that failed, and never more often than the first, ms. */
const RETRY_MS = 30_000;
const MIN_RENEW_MS = 1000;

interface Ticket {
  readonly file: string;
  identity: KerberosIdentity;
  /** Fingerprint of the password that the tickets were made with; '' before the first. */
  fingerprint: string;
  /** Until when the tickets are relied upon, wall clock, ms; 0 before the first. */
  usableUntil: number;
  /** Under way, with the password of this fingerprint. */
  running: { readonly fingerprint: string; readonly done: Promise<void> } | undefined;
  readonly renewal: Deadline;
}

export class PasswordTickets {
  readonly #deps: PasswordTicketDeps;
  readonly #tickets = new Map<string, Ticket>();
  readonly #closing = new AbortController();

  constructor(deps: PasswordTicketDeps) {
    this.#deps = deps;
  }

  /** Sees to it that `file` has tickets of the current password. Rejects with kinit's codes. */
  async ensure(identity: KerberosIdentity, file: string): Promise<void> {
    const ticket = this.#ticket(identity, file);
    const password = this.#password(identity);
    const fingerprint = password.fingerprint();
    const isFresh = this.#deps.clock.wall() < ticket.usableUntil;
    if (ticket.fingerprint === fingerprint && isFresh) return;
    await this.#fetch(ticket, password, fingerprint);
  }

  /**
   * Fetches tickets of principals whose password changed, in the background. Principals that are
   * not among `identities` any more are forgotten.
   */
  refresh(identities: readonly KerberosIdentity[]): void {
    const kept = new Set(identities.map(ticketKey));
    for (const [key, ticket] of this.#tickets) {
      if (kept.has(key)) continue;
      this.#tickets.delete(key);
      this.#deps.deadlines.disarm(ticket.renewal);
    }
    for (const identity of identities) {
      const ticket = this.#tickets.get(ticketKey(identity));
      if (ticket === undefined || ticket.fingerprint === '') continue;
      ticket.identity = identity;
      const password = this.#deps.passwords(identity);
      if (password === undefined || password.fingerprint() === ticket.fingerprint) continue;
      this.#inBackground(ticket);
    }
  }

  /** Ends every kinit and plans no renewal. */
  close(): void {
    this.#closing.abort();
    for (const { renewal } of this.#tickets.values()) this.#deps.deadlines.disarm(renewal);
  }

  #ticket(identity: KerberosIdentity, file: string): Ticket {
    const known = this.#tickets.get(ticketKey(identity));
    if (known !== undefined) {
      known.identity = identity;
      return known;
    }
    const ticket: Ticket = {
      file,
      identity,
      fingerprint: '',
      usableUntil: 0,
      running: undefined,
      renewal: new Deadline(() => this.#inBackground(ticket)),
    };
    this.#tickets.set(ticketKey(identity), ticket);
    return ticket;
  }

  #password(identity: KerberosIdentity): Secret<string> {
    const password = this.#deps.passwords(identity);
    if (password === undefined) throw kerberosError('credential-missing', 'there is no password');
    return password;
  }

  #inBackground(ticket: Ticket): void {
    const password = this.#deps.passwords(ticket.identity);
    if (password === undefined || this.#closing.signal.aborted) return;
    this.#fetch(ticket, password, password.fingerprint()).catch((error: unknown) => {
      const code = error instanceof ProxyError ? error.code : 'internal';
      const { principal } = ticket.identity;
      this.#deps.log.warn({ principal, code }, 'tickets of a principal could not be renewed');
      const isRefused = code === 'credential-rejected' || code === 'shutting-down';
      if (!isRefused) this.#deps.deadlines.arm(ticket.renewal, RETRY_MS);
    });
  }

  /** One kinit at a time for each password; whoever comes meanwhile shares it. */
  #fetch(ticket: Ticket, password: Secret<string>, fingerprint: string): Promise<void> {
    const { running } = ticket;
    if (running?.fingerprint === fingerprint) return running.done;
    const before = running?.done.catch(() => undefined) ?? Promise.resolve();
    const done = before
      .then(() => this.#kinit(ticket, password, fingerprint))
      .finally(() => {
        if (ticket.running?.done === done) ticket.running = undefined;
      });
    ticket.running = { fingerprint, done };
    return done;
  }

  async #kinit(ticket: Ticket, password: Secret<string>, fingerprint: string): Promise<void> {
    const name = ticket.identity.name ?? '';
    const { signal } = this.#closing;
    const fetched = await fetchTicket(this.#deps, { name, password, file: ticket.file, signal });
    ticket.fingerprint = fingerprint;
    ticket.usableUntil = fetched.usableUntil;
    // A principal that was taken away meanwhile is not renewed.
    if (this.#tickets.get(ticketKey(ticket.identity)) === ticket) {
      const renewMs = Math.max(MIN_RENEW_MS, fetched.lifeMs * RENEW_PART);
      this.#deps.deadlines.arm(ticket.renewal, renewMs);
    }
    this.#deps.renewed(name);
  }
}

// The same entry of the configuration with another name is somebody else.
const ticketKey = ({ principal, name }: KerberosIdentity): string =>
  JSON.stringify([principal, name]);
