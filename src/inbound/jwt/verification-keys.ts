/**
 * Which key verifies a token, and whether its signature is good. The one importer of `jose`, which is
 * loaded with the first key set: a configuration without JWT clients never pays for it.
 *
 * A key is chosen by the token's `kid` and algorithm among the configured keys, and only if the choice is
 * beyond doubt: of two keys that fit, none is used.
 */
import type * as jose from 'jose';
import { type JwtAlgorithm, type PublicJwk, suits } from '../../identity/jwks.ts';

type Jose = typeof jose;
type ImportedKey = Awaited<ReturnType<Jose['importJWK']>>;

/**
 * A key as chosen for one `kid` and one algorithm. What was verified with it holds as long as `live` is
 * true: that is, as long as the same choice would be made again, of a JWK with the very same content (R48).
 */
export class VerificationKey {
  readonly fingerprint: string;
  readonly jwk: PublicJwk;
  readonly algorithm: JwtAlgorithm;
  /** Written by the key set alone. */
  live = true;
  /** Written by the key set alone, at the first verification. */
  imported: Promise<ImportedKey | undefined> | undefined;

  constructor(jwk: PublicJwk, algorithm: JwtAlgorithm) {
    this.fingerprint = jwk.fingerprint;
    this.jwk = jwk;
    this.algorithm = algorithm;
  }
}

/** Why no key was chosen, as the end of a sentence about the token. */
export const KEY_MISSES = {
  'algorithm-refused': 'is signed with an algorithm that is not allowed',
  'kid-unknown': 'names a key that its issuer does not have',
  'none-suits': 'is signed with an algorithm that the key is not for',
  'several-suit': 'does not say which key verifies it',
} as const;

export type KeyMiss = keyof typeof KEY_MISSES;

/** The keys of one issuer. */
export class KeySet {
  /** Every choice that was made, for each algorithm that is allowed. */
  readonly #chosen: ReadonlyMap<string, Map<string | undefined, VerificationKey>>;
  #keys: readonly PublicJwk[] | undefined;
  #jose: Promise<Jose> | undefined;

  constructor(algorithms: readonly JwtAlgorithm[]) {
    this.#chosen = new Map(algorithms.map((algorithm) => [algorithm, new Map()]));
  }

  /** Whether there are keys at all. */
  get loaded(): boolean {
    return this.#keys !== undefined;
  }

  /** From now on these are the keys. Choices that would not be made again die before this returns. */
  replace(keys: readonly PublicJwk[]): void {
    this.#keys = withoutRepetitions(keys);
    for (const choices of this.#chosen.values()) {
      for (const [kid, key] of choices) {
        const again = this.#choose(kid, key.algorithm);
        if (typeof again !== 'string' && again.fingerprint === key.fingerprint) continue;
        key.live = false;
        choices.delete(kid);
      }
    }
    this.#jose ??= loadJose();
  }

  /**
   * The one key for a token of this `kid` and algorithm; without a kid, the one that suits the algorithm.
   * The same object for as long as it is live.
   */
  find(kid: string | undefined, alg: string): VerificationKey | KeyMiss {
    const choices = this.#chosen.get(alg);
    if (choices === undefined) return 'algorithm-refused';
    const known = choices.get(kid);
    if (known !== undefined) return known;
    // Names of the map are algorithms.
    const algorithm = alg as JwtAlgorithm;
    const jwk = this.#choose(kid, algorithm);
    if (typeof jwk === 'string') return jwk;
    const key = new VerificationKey(jwk, algorithm);
    choices.set(kid, key);
    return key;
  }

  /** Whether the signature of `token`, a compact JWS of the key's algorithm, is good. */
  async verifies(key: VerificationKey, token: string): Promise<boolean> {
    const jose = await (this.#jose ??= loadJose());
    key.imported ??= importKey(jose, key);
    const imported = await key.imported;
    if (imported === undefined) return false;
    try {
      await jose.compactVerify(token, imported, { algorithms: [key.algorithm] });
      return true;
    } catch (error) {
      if (error instanceof jose.errors.JOSEError) return false;
      throw error;
    }
  }

  #choose(kid: string | undefined, algorithm: JwtAlgorithm): PublicJwk | KeyMiss {
    const keys = this.#keys ?? [];
    const named = kid === undefined ? keys : keys.filter((key) => key.kid === kid);
    if (named.length === 0) return 'kid-unknown';
    const suitable = named.filter((key) => suits(key, algorithm));
    if (suitable.length > 1) return 'several-suit';
    return suitable[0] ?? 'none-suits';
  }
}

/** A key that is listed twice is one key. */
function withoutRepetitions(keys: readonly PublicJwk[]): readonly PublicJwk[] {
  return [...new Map(keys.map((key) => [key.fingerprint, key])).values()];
}

function loadJose(): Promise<Jose> {
  const jose = import('jose');
  // Who verifies awaits it too and is told; until then nobody may.
  jose.catch(() => undefined);
  return jose;
}

/** Undefined where WebCrypto wants none of a key that OpenSSL takes: then nothing is verified with it. */
function importKey(
  jose: Jose,
  { jwk, algorithm }: VerificationKey,
): Promise<ImportedKey | undefined> {
  return jose.importJWK({ ...jwk.members, alg: algorithm }, algorithm).catch(() => undefined);
}
