/**
 * One verifier of tokens with time in the hands of a test. `ask` does what a listener does with the bytes
 * of a request: digest, cache, and only then the token.
 */
import { ProxyError } from '../../src/errors.ts';
import { JWT_ALGORITHMS, type JwtAlgorithm, parseJwks } from '../../src/identity/jwks.ts';
import { parseCompactToken } from '../../src/inbound/jwt/compact-token.ts';
import {
  JwtVerifier,
  type JwtVerifierSettings,
  type KeySource,
  tokenDigest,
} from '../../src/inbound/jwt/jwt-verifier.ts';
import type { EvictionReason, TokenCacheMeters } from '../../src/inbound/jwt/token-cache.ts';
import type { VerifiedToken } from '../../src/inbound/jwt/verified-token.ts';
import type { Log, LogFields } from '../../src/log/log.ts';
import { FakeClock } from './fake-clock.ts';
import {
  AUDIENCE,
  goodClaims,
  ISSUER,
  jwks,
  type SigningKey,
  signToken,
  type TestJwk,
} from './tokens.ts';

/** Counts of a cache, as numbers. */
export class CountedCache implements TokenCacheMeters {
  requests = 0;
  hits = 0;
  size = 0;
  readonly evictions: Record<EvictionReason, number> = { full: 0, expired: 0, changed: 0 };

  requested(): void {
    this.requests += 1;
  }

  hit(): void {
    this.hits += 1;
  }

  evicted(reason: EvictionReason): void {
    this.evictions[reason] += 1;
  }

  entries(change: number): void {
    this.size += change;
  }
}

/** A log that keeps its lines: level, message and fields. */
export class KeptLog implements Log {
  readonly lines: { level: string; message: string; fields: LogFields }[] = [];
  readonly trace = this.#level('trace');
  readonly debug = this.#level('debug');
  readonly info = this.#level('info');
  readonly warn = this.#level('warn');
  readonly error = this.#level('error');

  /** Every line as `level: message`. */
  get messages(): string[] {
    return this.lines.map(({ level, message }) => `${level}: ${message}`);
  }

  #level(level: string) {
    return (fields: LogFields, message: string): void => {
      this.lines.push({ level, message, fields });
    };
  }
}

export interface JwtWorldWish {
  readonly cache?: JwtVerifierSettings['cache'];
  readonly algorithms?: readonly JwtAlgorithm[];
  readonly audience?: readonly string[];
  readonly source?: KeySource;
  /** Keys that are there from the start. */
  readonly keys?: readonly (SigningKey | TestJwk)[];
  /** Shared with another world. */
  readonly clock?: FakeClock;
}

export class JwtWorld {
  readonly clock: FakeClock;
  readonly cache = new CountedCache();
  readonly log = new KeptLog();
  readonly verifier: JwtVerifier;
  /** ms by which the wall clock was set forward, or back where it is negative. */
  wallShift = 0;

  constructor(wish: JwtWorldWish = {}) {
    const clock = wish.clock ?? new FakeClock();
    this.clock = clock;
    const settings = {
      issuer: ISSUER,
      audience: wish.audience ?? [AUDIENCE],
      algorithms: wish.algorithms ?? JWT_ALGORITHMS,
      cache: wish.cache ?? ({ mode: 'lru', max: 1000 } as const),
    };
    this.verifier = new JwtVerifier(settings, {
      clock: { now: () => clock.now(), wall: () => this.now() },
      deadlines: clock.deadlines,
      log: this.log,
      meters: this.cache,
      source: wish.source,
    });
    if (wish.keys !== undefined) this.serve(...wish.keys);
  }

  /** The wall clock. */
  now(): number {
    return this.clock.wall() + this.wallShift;
  }

  /** These are the issuer's keys from now on. */
  serve(...keys: readonly (SigningKey | TestJwk)[]): void {
    const parsed = parseJwks(jwks(...keys));
    if ('fault' in parsed) throw new Error(parsed.fault);
    this.verifier.replaceKeys(parsed.keys);
  }

  /** A token that is good now; `claims` and `header` are laid over. */
  token(
    key: SigningKey,
    claims: Record<string, unknown> = {},
    header: Record<string, unknown> = {},
  ): string {
    return signToken(key, goodClaims(this.now(), claims), header);
  }

  /** What a request with this token in it gets. */
  ask(token: string): Promise<VerifiedToken | ProxyError> {
    // Bytes before and after, as in a request head.
    const bytes = Buffer.from(`Bearer ${token}\r\n`, 'latin1');
    const [start, end] = [7, bytes.length - 2];
    const digest = tokenDigest(bytes, start, end);
    const known = this.verifier.cached(digest);
    if (known !== undefined) return Promise.resolve(known);
    const parsed = parseCompactToken(bytes, start, end);
    if (parsed instanceof ProxyError) return Promise.resolve(parsed);
    return this.verifier.verify(parsed, digest);
  }

  /** `ok`, or what the error says. */
  async outcome(token: string): Promise<string> {
    const answer = await this.ask(token);
    if (!(answer instanceof ProxyError)) return 'ok';
    const own = answer.code === 'caller-token-refused';
    return own ? answer.message.replace("the caller's token ", '') : answer.code;
  }

  /** The verified token; throws where it is refused. */
  async accepted(token: string): Promise<VerifiedToken> {
    const answer = await this.ask(token);
    if (answer instanceof ProxyError) throw answer;
    return answer;
  }
}
