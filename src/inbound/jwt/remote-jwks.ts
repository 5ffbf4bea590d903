/**
 * Keeps the key set of a URL fresh, in the background: a population of remembered tokens would never ask
 * for it (caches.md, 6.4). A refresh that fails leaves the keys as they are and is tried again soon.
 */
import type { RequestOptions } from 'node:http';
import type { Clock } from '../../clock.ts';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import { parseJwks, type PublicJwk } from '../../identity/jwks.ts';
import type { Log } from '../../log/log.ts';
import { JwksFetch, jwksPlace } from './jwks-fetch.ts';
import type { KeySource } from './jwt-verifier.ts';

export interface RemoteJwksSettings {
  /** http or https. */
  readonly url: URL;
  /** Milliseconds from a success to the next refresh. */
  readonly refreshMs: number;
  /** PEM texts, trusted besides Node's and the system's. */
  readonly extraCa: readonly string[];
}

/** Counts of one key set. */
export interface JwksMeters {
  refreshed(result: 'ok' | 'failed'): void;
}

export interface RemoteJwksDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWheel;
  readonly log: Log;
  readonly meters: JwksMeters;
}

/** Is told of every key set that was loaded, also of one without a change. */
export type KeyReceiver = (keys: readonly PublicJwk[]) => void;

/** After failures: 1, 2, 4 s and so on, up to this. */
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 30_000;
/** From one fetch that an unknown key caused to the next. */
const COOL_DOWN_MS = 30_000;

export class RemoteJwks implements KeySource {
  readonly #refreshMs: number;
  readonly #deps: RemoteJwksDeps;
  readonly #place: RequestOptions;
  /** For logs: without user information and query. */
  readonly #shownUrl: string;
  readonly #receivers = new Set<KeyReceiver>();
  readonly #next = new Deadline(() => void this.#refresh());
  #running = false;
  #fetch: JwksFetch | undefined;
  #refreshing: Promise<void> | undefined;
  #coolUntil = -Infinity;
  #failures = 0;
  #keys: readonly PublicJwk[] | undefined;
  #lastSuccessAt: number | undefined;
  #failing: string | undefined;

  /** Throws what OpenSSL says of an unusable certificate in `extraCa`. */
  constructor({ url, refreshMs, extraCa }: RemoteJwksSettings, deps: RemoteJwksDeps) {
    this.#refreshMs = refreshMs;
    this.#deps = deps;
    this.#place = jwksPlace(url, extraCa);
    this.#shownUrl = `${url.origin}${url.pathname}`;
  }

  /** Whether there were keys at any time; they stay. */
  get loaded(): boolean {
    return this.#keys !== undefined;
  }

  /** As last loaded. */
  get keys(): readonly PublicJwk[] | undefined {
    return this.#keys;
  }

  /** Wall clock in ms. */
  get lastSuccessAt(): number | undefined {
    return this.#lastSuccessAt;
  }

  /** Why the last refresh failed; undefined when it did not. */
  get failing(): string | undefined {
    return this.#failing;
  }

  /** Tells `receiver` of the keys, at once if there are any. The answer ends that. */
  subscribe(receiver: KeyReceiver): () => void {
    this.#receivers.add(receiver);
    if (this.#keys !== undefined) receiver(this.#keys);
    return () => void this.#receivers.delete(receiver);
  }

  /** Takes `keys`, which another one loaded from the same URL, until the first fetch says otherwise. */
  begin(keys: readonly PublicJwk[]): void {
    this.#keys = keys;
    for (const receive of this.#receivers) receive(keys);
  }

  /** Fetches now, and again and again until `stop`. */
  start(): void {
    this.#running = true;
    void this.#refresh();
  }

  /** Ends everything, a fetch in flight included. The keys stay. */
  stop(): void {
    this.#running = false;
    this.#deps.deadlines.disarm(this.#next);
    this.#fetch?.abort();
  }

  /**
   * Joins the fetch in flight, or causes one unless such a fetch began within the last 30 s: tokens with
   * made-up key ids drive no more than that. Never rejects.
   */
  async refreshForUnknownKid(): Promise<void> {
    const now = this.#deps.clock.now();
    if (this.#refreshing === undefined) {
      if (!this.#running || now < this.#coolUntil) return;
      this.#coolUntil = now + COOL_DOWN_MS;
    }
    await this.#refresh();
  }

  #refresh(): Promise<void> {
    this.#refreshing ??= this.#fetchOnce();
    return this.#refreshing;
  }

  async #fetchOnce(): Promise<void> {
    const { deadlines } = this.#deps;
    deadlines.disarm(this.#next);
    this.#fetch = new JwksFetch(this.#place, deadlines);
    const answer = await this.#fetch.answer;
    this.#fetch = undefined;
    this.#refreshing = undefined;
    if (!this.#running) return;
    const parsed = 'fault' in answer ? answer : parseJwks(answer.text);
    if ('fault' in parsed) this.#failed(parsed.fault);
    else this.#succeeded(parsed.keys);
    deadlines.arm(this.#next, this.#pause());
  }

  #pause(): number {
    if (this.#failures === 0) return this.#refreshMs;
    return Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), LAST_RETRY_MS, this.#refreshMs);
  }

  #failed(reason: string): void {
    const { log, meters } = this.#deps;
    this.#failures += 1;
    this.#failing = reason;
    meters.refreshed('failed');
    if (this.#failures > 1) return;
    const message = this.loaded
      ? 'the token keys could not be refreshed: the old ones stay in use'
      : 'the token keys could not be loaded';
    log.warn({ url: this.#shownUrl, reason }, message);
  }

  #succeeded(keys: readonly PublicJwk[]): void {
    const { clock, log, meters } = this.#deps;
    const fields = { url: this.#shownUrl };
    if (this.#failures > 0) log.info(fields, 'the token keys can be refreshed again');
    this.#failures = 0;
    this.#failing = undefined;
    this.#lastSuccessAt = clock.wall();
    const change = compare(this.#keys ?? [], keys);
    if (change.added + change.removed > 0)
      log.info({ ...fields, ...change }, 'the token keys changed');
    this.#keys = keys;
    for (const receive of this.#receivers) receive(keys);
    meters.refreshed('ok');
  }
}

/** How many keys came, went and stayed. One with other content under its old name came and went. */
function compare(
  before: readonly PublicJwk[],
  after: readonly PublicJwk[],
): { added: number; removed: number; kept: number } {
  const old = new Set(before.map(({ fingerprint }) => fingerprint));
  const fresh = new Set(after.map(({ fingerprint }) => fingerprint));
  const kept = fresh.intersection(old).size;
  return { added: fresh.size - kept, removed: old.size - kept, kept };
}
