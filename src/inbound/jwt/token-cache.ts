/**
 * Remembers tokens that passed every check (caches.md, 6.4), under the SHA-256 of all three parts (R48).
 * Whether a token still holds is looked at again on each hit; sweeps are about memory only.
 *
 * Modes: `lru` drops the token used longest ago, `fifo` the one admitted longest ago, without a write on
 * a hit; `fixed` drops none for another, so that a flood of tokens that are used once pushes nothing out.
 */
import { BoundedMap } from '../../bounded-map.ts';
import type { Clock } from '../../clock.ts';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import type { Log } from '../../log/log.ts';
import { isCurrent, type VerifiedToken } from './verified-token.ts';

export type CacheMode = 'lru' | 'fifo' | 'fixed';

/** `full`: for another; `expired`: its time was over; `changed`: its key is not the issuer's any more. */
export type EvictionReason = 'full' | 'expired' | 'changed';

/** Counts of one issuer's cache. */
export interface TokenCacheMeters {
  requested(): void;
  hit(): void;
  evicted(reason: EvictionReason): void;
  /** How many entries there are more than before; negative: fewer. */
  entries(change: number): void;
}

export interface TokenCacheSettings {
  readonly mode: CacheMode;
  /** Entries. */
  readonly max: number;
}

export interface TokenCacheDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  readonly meters: TokenCacheMeters;
}

/** A token with less time left is not worth an entry. */
const MIN_LIFE_MS = 5_000;
const SWEEP_EVERY_MS = 60_000;
const SWEEP_BATCH = 1_000;

interface Entry {
  readonly digest: string;
  readonly token: VerifiedToken;
}

export class TokenCache {
  readonly #mode: CacheMode;
  readonly #max: number;
  readonly #deps: TokenCacheDeps;
  /** In the order of admission. */
  readonly #entries = new Map<string, Entry>();
  /** The same entries in the order of use; in mode `lru` only. */
  readonly #recency: BoundedMap<Entry> | undefined;
  readonly #sweep: Deadline;
  /** Where the running sweep stands. A map's iterator stays good while entries come and go. */
  #position: Iterator<Entry> | undefined;
  #saidFull = false;
  #closed = false;

  constructor({ mode, max }: TokenCacheSettings, deps: TokenCacheDeps) {
    this.#mode = mode;
    this.#max = max;
    this.#deps = deps;
    this.#recency = mode === 'lru' ? new BoundedMap(max, (entry) => this.#left(entry)) : undefined;
    this.#sweep = new Deadline(() => this.#sweepOn());
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The token of this digest, if it would be accepted now. */
  find(digest: string): VerifiedToken | undefined {
    const { clock, meters } = this.#deps;
    meters.requested();
    const entry =
      this.#recency === undefined ? this.#entries.get(digest) : this.#recency.find(digest);
    if (entry === undefined) return undefined;
    const { token } = entry;
    const now = clock.wall();
    if (isCurrent(token, now)) {
      meters.hit();
      return token;
    }
    this.#dropIfOver(entry, now);
    return undefined;
  }

  /**
   * Remembers a token that passed every check; not one that would be refused by now, that has less than
   * five seconds left, or that a full cache of mode `fixed` has no room for.
   */
  admit(digest: string, token: VerifiedToken): void {
    const now = this.#deps.clock.wall();
    if (this.#closed || !isCurrent(token, now) || token.expiresMs - now < MIN_LIFE_MS) return;
    const known = this.#entries.get(digest);
    if (known !== undefined) {
      if (known.token.key.live) return;
      this.#drop(known, 'changed');
    }
    if (this.#entries.size >= this.#max && !this.#makeRoom()) return;
    const entry = { digest, token };
    this.#entries.set(digest, entry);
    this.#recency?.keep(digest, entry);
    this.#deps.meters.entries(1);
    if (!this.#sweep.armed) this.#deps.deadlines.arm(this.#sweep, SWEEP_EVERY_MS);
  }

  /** Starts a sweep now instead of at its time: the keys were replaced, and their entries are dead weight. */
  sweepSoon(): void {
    this.#position = undefined;
    if (this.#entries.size > 0) this.#deps.deadlines.arm(this.#sweep, 0);
  }

  /** Forgets everything and admits nothing any more. */
  close(): void {
    this.#closed = true;
    this.#deps.deadlines.disarm(this.#sweep);
    this.#position = undefined;
    this.#deps.meters.entries(-this.#entries.size);
    this.#entries.clear();
    this.#recency?.clear();
  }

  /** Whether another entry may come. */
  #makeRoom(): boolean {
    // The map of mode `lru` makes room itself.
    if (this.#mode === 'lru') return true;
    if (this.#mode === 'fixed') {
      this.#warnOfFilling();
      return false;
    }
    const oldest = this.#entries.values().next();
    if (oldest.done !== true) this.#drop(oldest.value, 'full');
    return true;
  }

  #warnOfFilling(): void {
    if (this.#saidFull) return;
    this.#saidFull = true;
    const message = 'the token cache is full: more tokens are verified on each request';
    this.#deps.log.warn({ entries: this.#max }, message);
  }

  #sweepOn(): void {
    const now = this.#deps.clock.wall();
    const before = this.#entries.size;
    this.#position ??= this.#entries.values();
    for (let i = 0; i < SWEEP_BATCH; i += 1) {
      const next = this.#position.next();
      if (next.done === true) {
        this.#position = undefined;
        break;
      }
      this.#dropIfOver(next.value, now);
    }
    if (this.#entries.size < before) this.#saidFull = false;
    if (this.#entries.size === 0) this.#position = undefined;
    else this.#deps.deadlines.arm(this.#sweep, this.#position ? 0 : SWEEP_EVERY_MS);
  }

  /** What is not valid yet, because the wall clock was set back, may stay. */
  #dropIfOver(entry: Entry, wallMs: number): void {
    if (!entry.token.key.live) this.#drop(entry, 'changed');
    else if (wallMs >= entry.token.expiresMs) this.#drop(entry, 'expired');
  }

  #drop(entry: Entry, reason: EvictionReason): void {
    if (!this.#entries.delete(entry.digest)) return;
    this.#deps.meters.evicted(reason);
    this.#deps.meters.entries(-1);
    this.#recency?.forget(entry.digest);
  }

  /** An entry has left the map of mode `lru`: for another one, unless it was dropped before. */
  #left(entry: Entry): void {
    if (!this.#entries.delete(entry.digest)) return;
    this.#deps.meters.evicted('full');
    this.#deps.meters.entries(-1);
  }
}
