/**
 * The rules of the guard over the records of an account: may a login begin, as what, or must it wait.
 * Pure; `guard.ts` has the picture and the reasons.
 */
import type { Credential, GuardAccount, Shut, Standing, Tally } from './guard-account.ts';

/** What is told to callers while the half-open probe runs. */
const PROBE_RETRY_MS = 1000;

/** Everything that is remembered about one (account, hop, generation). */
export interface Place {
  readonly account: string;
  readonly hop: string;
  /** Of the secret at hand, whatever `credential` stands for. */
  readonly generation: number;
  readonly records: GuardAccount;
  readonly tally: Tally;
  readonly credential: Credential;
  readonly standing: Standing;
  /** The account's secrets are the callers', who may differ. */
  readonly perAccount: boolean;
}

/** A login may run. */
export interface Started {
  readonly kind: 'go' | 'probe';
  readonly halfOpen: boolean;
}

/** Any answer. */
export type Decision =
  Started | { readonly kind: 'wait' } | { readonly kind: 'open'; readonly retryAfterMs: number };

/** What may happen at `now` (clock ms); begins nothing. */
export function decide(place: Place, rejections: number, now: number): Decision {
  const shuts = shutsOf(place.credential, place.standing);
  if (shuts.length === 0) return decideClosed(place, rejections);
  const waitMs = shutForMs(shuts, now);
  if (waitMs > 0) return { kind: 'open', retryAfterMs: waitMs };
  if (place.records.probe !== undefined) return { kind: 'open', retryAfterMs: PROBE_RETRY_MS };
  return { kind: 'probe', halfOpen: true };
}

function decideClosed(place: Place, rejections: number): Decision {
  const { records, tally, standing } = place;
  if (!standing.proven && standing.running > 0) return { kind: 'wait' };
  const { total } = records;
  const { unsettled } = standing;
  if (standing.proven && doubts(place) === 0)
    return { kind: rejections - unsettled > 1 ? 'go' : 'probe', halfOpen: false };
  const atRisk = Math.max(underWay(total), underWay(tally));
  const spent = Math.max(total.rejected + underWay(total), tally.rejected + underWay(tally));
  if (rejections - spent - unsettled > 1) return { kind: 'go', halfOpen: false };
  // The last attempt: alone, and a probe.
  return atRisk > 0 ? { kind: 'wait' } : { kind: 'probe', halfOpen: false };
}

/**
 * Rejections that speak against a login at `place`. What is proven is not doubted for the guesses of
 * others; among callers, not for any secret but its own.
 */
export function doubts({ records: { total }, tally, standing, perAccount }: Place): number {
  if (!standing.proven) return Math.max(total.rejected, tally.rejected);
  if (perAccount) return standing.rejected;
  return Math.max(total.rejected - total.guessed, tally.rejected - tally.guessed);
}

/** Logins that may yet be rejected: all of them once one was, else those on untried ground. */
function underWay(tally: Tally): number {
  return tally.rejected > 0 ? tally.running : tally.unproven;
}

/** What shuts a credential off on a hop: nothing, one, or both. */
export function shutsOf(credential: Credential, standing: Standing | undefined): Shut[] {
  return [credential.shut, standing?.shut].filter((shut) => shut !== undefined);
}

/** Milliseconds until all of `shuts` allow a probe; not positive when they do. */
export function shutForMs(shuts: readonly Shut[], now: number): number {
  return Math.max(...shuts.map((shut) => shut.probeAt)) - now;
}
