/**
 * One kinit: the realm's breaker is asked, tickets are made aside and put into place when they are
 * whole, and what the KDC said is told to the breaker.
 */
import { readFileSync } from 'node:fs';
import type { Clock } from '../../clock.ts';
import { ProxyError } from '../../errors.ts';
import { decodeCredentialCache } from '../../identity/credential-cache.ts';
import { realmOf } from '../../identity/principal-name.ts';
import type { Secret } from '../../identity/secret.ts';
import type { RealmBreakers } from './breaker.ts';
import type { Kinit } from './kinit.ts';
import type { PrivateFolder } from './private-folder.ts';

export interface TicketFetchDeps {
  readonly folder: PrivateFolder;
  readonly kinit: Kinit;
  readonly breakers: RealmBreakers;
  readonly clock: Clock;
  /** kinit found the KDC of a realm silent or away. */
  readonly realmFailed: (realm: string, error: ProxyError) => void;
}

export interface TicketOrder {
  /** `user@REALM`. */
  readonly name: string;
  readonly password: Secret<string>;
  /** Where the tickets go; untouched when there are none. */
  readonly file: string;
  /** Aborted when the daemon closes. */
  readonly signal: AbortSignal;
}

/** Tickets close to their end are not relied upon, ms; or this part of a short life. */
const MARGIN_MS = 5000;
const MARGIN_PART = 0.1;

export interface FetchedTicket {
  /** From now to its end, ms. */
  readonly lifeMs: number;
  /** Until when it is relied upon, wall clock, ms. */
  readonly usableUntil: number;
}

/** Rejects with kinit's codes, or with what opened the breaker. */
export async function fetchTicket(
  deps: TicketFetchDeps,
  { name, password, file, signal }: TicketOrder,
): Promise<FetchedTicket> {
  const { folder, kinit, breakers, clock } = deps;
  const realm = realmOf(name) ?? '';
  const admission = breakers.admit(realm);
  if (admission.kind === 'refused') throw admission.error;
  const scratch = folder.scratchFile();
  try {
    await kinit({ principal: name, password, file: scratch, signal });
  } catch (error) {
    folder.delete(scratch);
    learn(deps, realm, error);
    throw error;
  }
  breakers.answered(realm);
  const now = clock.wall();
  const endsAt = decodeCredentialCache(readFileSync(scratch))?.endsAt ?? now;
  folder.move(scratch, file);
  const lifeMs = endsAt - now;
  return { lifeMs, usableUntil: endsAt - Math.min(MARGIN_MS, lifeMs * MARGIN_PART) };
}

/** What a failed kinit says about the KDC. */
function learn({ breakers, realmFailed }: TicketFetchDeps, realm: string, error: unknown): void {
  const code = error instanceof ProxyError ? error.code : 'internal';
  if (error instanceof ProxyError && code.startsWith('kdc-')) realmFailed(realm, error);
  else if (code === 'credential-rejected' || code === 'credential-expired') {
    breakers.answered(realm);
  } else breakers.abandoned(realm);
}
