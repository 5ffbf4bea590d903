/**
 * Who may come in with a user name and a password: the users of one file under one realm, and a memory
 * of the passwords that were found to be right.
 *
 * An object is one generation (R49). Its users and its realm are fixed when it is made, the memory is a
 * private part of it, and nothing is carried over: whoever is known here was checked against exactly
 * these users. A changed file is another object, whose memory is empty. The digests that callers are
 * known by cover user and password; users and realm are covered by being asked of this object.
 */
import { BoundedMap } from '../../bounded-map.ts';
import type { Clock } from '../../clock.ts';
import { ProxyError } from '../../errors.ts';
import { decoyOf, type PasswordHash } from '../../identity/hash-form.ts';
import { exactBytes, keyedDigest } from '../../identity/process-key.ts';
import type { BasicCaller } from '../caller.ts';
import type { PasswordChecks } from './password-checks.ts';

/** Counts of the memory: `cache="basic"`. */
export interface UserCacheMeters {
  request(): void;
  hit(): void;
  /** Several databases count into the same entries, so they are told as changes. */
  entered(): void;
  left(reason: 'full' | 'expired' | 'changed', count: number): void;
}

export interface UserDatabaseDeps {
  readonly clock: Clock;
  readonly checks: Pick<PasswordChecks, 'check'>;
  readonly meters: UserCacheMeters;
}

export interface UserDatabaseSettings {
  readonly users: ReadonlyMap<string, PasswordHash>;
  readonly realm: string;
}

/** `wrong` says nothing about whether there is such a user. */
export type PasswordVerdict = 'ok' | 'wrong' | ProxyError;

/** How long a password is known to be right without another check. */
const KNOWN_MS = 5 * 60_000;
const MAX_KNOWN = 10_000;

/** A pair of user and password that was right. Of wrong ones nothing is kept: anybody can bring them. */
interface Known {
  /** Clock ms. */
  readonly since: number;
}

export class UserDatabase {
  readonly #deps: UserDatabaseDeps;
  readonly #users: ReadonlyMap<string, PasswordHash>;
  readonly #decoys: readonly PasswordHash[];
  readonly #realm: string;
  readonly #content: string;
  readonly #known = new BoundedMap<Known>(MAX_KNOWN);
  #isRetired = false;

  constructor(deps: UserDatabaseDeps, settings: UserDatabaseSettings) {
    this.#deps = deps;
    // Copies: this object is one generation, whatever becomes of the map.
    this.#users = new Map(settings.users);
    this.#realm = settings.realm;
    this.#content = contentOf(settings);
    this.#decoys = decoysOf(this.#users);
  }

  /** True where users and realm are the same, so that a reload may keep this object and its memory. */
  sameAs(settings: UserDatabaseSettings): boolean {
    return this.#content === contentOf(settings);
  }

  /** Whether the caller with this digest was verified here less than five minutes ago. */
  isKnown(digest: string): boolean {
    const { meters } = this.#deps;
    meters.request();
    const isKnown = this.#isFresh(digest);
    if (isKnown) meters.hit();
    return isKnown;
  }

  /**
   * The check itself, one for all who bring the same user and password at the same time; it takes a
   * place of `remoteAddress`. Does not count as a look-up. Errors are `caller-check-busy` and
   * `shutting-down`; wrong is `wrong`.
   */
  async verify(caller: BasicCaller, remoteAddress: string): Promise<PasswordVerdict> {
    const { user, password, digest } = caller;
    // Another request of the caller may have ended since it was looked up.
    if (this.#isFresh(digest)) return 'ok';
    const hash = this.#users.get(user);
    const answer = await this.#deps.checks.check({
      key: `${this.#content} ${digest}`,
      turn: `${this.#realm}\n${user}`,
      remoteAddress,
      password,
      hash: hash ?? this.#decoyFor(user),
    });
    if (answer instanceof ProxyError) return answer;
    // A decoy is there for its cost; its answer lets nobody in.
    if (!answer || hash === undefined) return 'wrong';
    this.#keep(digest);
    return 'ok';
  }

  /** Another object takes over. Checks under way are answered; nobody is known here any more. */
  retire(): void {
    this.#isRetired = true;
    const { size } = this.#known;
    this.#known.clear();
    if (size > 0) this.#deps.meters.left('changed', size);
  }

  #isFresh(digest: string): boolean {
    const known = this.#known.find(digest);
    if (known === undefined) return false;
    // Written so that a clock that is no number makes nobody known.
    if (this.#deps.clock.now() - known.since < KNOWN_MS) return true;
    this.#known.forget(digest);
    this.#deps.meters.left('expired', 1);
    return false;
  }

  #keep(digest: string): void {
    // Of those who waited for one check, the first has told.
    if (this.#isRetired || this.#isFresh(digest)) return;
    const before = this.#known.size;
    this.#known.keep(digest, { since: this.#deps.clock.now() });
    this.#deps.meters.entered();
    if (this.#known.size === before) this.#deps.meters.left('full', 1);
  }

  /**
   * What a user who is not in the file is checked against. The decoys have the costs of the file in the
   * proportions of the file, and a name keeps its decoy: neither a quick answer nor a slow one tells
   * whether there is such a user, in files of mixed kinds too.
   */
  #decoyFor(user: string): PasswordHash {
    const place = keyedDigest('decoy', exactBytes(user)).readUInt32BE() % this.#decoys.length;
    const decoy = this.#decoys[place];
    if (decoy !== undefined) return decoy;
    const facts = { side: 'internal', stage: 'identify' } as const;
    throw new ProxyError('internal', 'a user database without users', facts);
  }
}

/** One for each user, so that a cost is met as often as in the file; equal costs share one. */
function decoysOf(users: ReadonlyMap<string, PasswordHash>): PasswordHash[] {
  const made = new Map<string, PasswordHash>();
  return [...users.values()].map((hash) => {
    const cost = `${hash.kind} ${hash.cost}`;
    const decoy = made.get(cost) ?? decoyOf(hash);
    made.set(cost, decoy);
    return decoy;
  });
}

/** Equal for equal users in the same order under the same realm, within this process (R47). */
function contentOf({ users, realm }: UserDatabaseSettings): string {
  const parts = [realm];
  for (const [user, hash] of users) parts.push(user, hash.fingerprint());
  return keyedDigest('user database', ...parts.map(exactBytes)).toString('hex');
}
