/**
 * What the guard remembers of one account: counts, and per content of its credential where it
 * succeeded and where it is shut off. Plain records; the rules over them are in `guard.ts`.
 */

/** Contents of one account's credential that are remembered; the longest unused one makes room. */
const GENERATIONS_KEPT = 64;

/**
 * Stands for all secrets of an account of callers that nobody has accepted yet: whoever guesses does so
 * with a new one each time. No content of a credential has this number.
 */
export const NEWCOMERS = -1;

/** Longer request targets are not remembered as something to probe. */
const TARGET_MAX_LENGTH = 4096;

/** Attempts, of the account as a whole or of the account on one hop. */
export interface Tally {
  /** Rejections since the last success. */
  rejected: number;
  /** Those of them that were of newcomers: whoever guesses says nothing about accepted secrets. */
  guessed: number;
  /** Logins under way. */
  running: number;
  /** Those of them whose generation had not succeeded on its hop when they began. */
  unproven: number;
}

/** Shut off until `probeAt` (clock ms); then one probe at a time may end it. */
export interface Shut {
  probeAt: number;
}

/** One content of the credential on one hop. */
export interface Standing {
  proven: boolean;
  /** Rejections since its last success here. */
  rejected: number;
  running: number;
  /** Last tokens since the latest verdict that got none, however they were sent. */
  unsettled: number;
  /** Those of them that were sent where the ground was not firm any more. */
  unsettledLegs: number;
  /** Half-open probes since the latest verdict that got none. */
  unsettledProbes: number;
  /** Request target of the latest success. */
  target: string | undefined;
  shut: Shut | undefined;
}

/** One content of the credential. */
export interface Credential {
  readonly hops: Map<string, Standing>;
  /** For all hops. */
  shut: Shut | undefined;
}

/** The records of one account. */
export class GuardAccount {
  readonly total: Tally = newTally();
  /** The half-open probe under way; at most one. */
  probe: object | undefined;
  /** Clock ms of the latest rejected newcomer. */
  guessedAt = Number.NEGATIVE_INFINITY;
  readonly #hops = new Map<string, Tally>();
  readonly #credentials = new Map<number, Credential>();
  #newcomers = newCredential();

  /** Nothing of it would be missed: no login runs, none was rejected, nothing is shut. */
  get isBlank(): boolean {
    const { running, rejected } = this.total;
    if (running > 0 || rejected > 0 || this.#newcomers.shut !== undefined) return false;
    return [...this.#newcomers.hops.values()].every(
      ({ shut, unsettled }) => shut === undefined && unsettled === 0,
    );
  }

  /** Whether a secret of this generation was accepted, on any hop. */
  isAccepted(generation: number): boolean {
    const hops = this.#credentials.get(generation)?.hops.values() ?? [];
    return [...hops].some(({ proven }) => proven);
  }

  /** Counts on one hop, over all generations. */
  hop(name: string): Tally {
    return getOrMake(this.#hops, name, newTally);
  }

  /** The record of a generation, which becomes the latest used. */
  credential(generation: number): Credential {
    if (generation === NEWCOMERS) return this.#newcomers;
    const credential = this.#credentials.get(generation) ?? newCredential();
    this.#credentials.delete(generation);
    this.#credentials.set(generation, credential);
    if (this.#credentials.size > GENERATIONS_KEPT) {
      const [oldest] = this.#credentials.keys();
      if (oldest !== undefined) this.#credentials.delete(oldest);
    }
    return credential;
  }

  /** Of the generation, or of the latest used one. Makes no record. */
  find(generation: number | undefined): Credential | undefined {
    if (generation !== undefined) return this.#credentials.get(generation);
    return [...this.#credentials.values()].at(-1);
  }

  /** Forgets rejections, successes and what is shut. Logins under way stay counted. */
  reset(): void {
    for (const tally of [this.total, ...this.#hops.values()]) forgive(tally);
    this.#credentials.clear();
    this.#newcomers = newCredential();
  }
}

/** The record of a credential on a hop. */
export function standingOn(credential: Credential, hop: string): Standing {
  return getOrMake(credential.hops, hop, () => ({
    proven: false,
    rejected: 0,
    running: 0,
    unsettled: 0,
    unsettledLegs: 0,
    unsettledProbes: 0,
    target: undefined,
    shut: undefined,
  }));
}

/** A verdict came: what got none before is over. Answers how many last tokens that were. */
export function settle(standing: Standing): number {
  const { unsettled } = standing;
  standing.unsettled = 0;
  standing.unsettledLegs = 0;
  standing.unsettledProbes = 0;
  return unsettled;
}

/** A success: what was rejected before does not count any more, or guesses alone do. */
export function forgive(tally: Tally, keepsGuesses = false): void {
  if (!keepsGuesses) tally.guessed = 0;
  tally.rejected = tally.guessed;
}

/** Remembers the target of a success, unless it is too long to keep. */
export function rememberTarget(standing: Standing, target: string): void {
  if (target.length <= TARGET_MAX_LENGTH) standing.target = target;
}

function newCredential(): Credential {
  return { hops: new Map(), shut: undefined };
}

function newTally(): Tally {
  return { rejected: 0, guessed: 0, running: 0, unproven: 0 };
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
