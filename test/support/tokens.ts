/**
 * Issuers of tests: keys of every algorithm, and tokens signed with them by node:crypto, so that what
 * verifies them is not what made them. Everything may be bent: headers, claims, the raw text of both.
 */
import {
  constants,
  createHmac,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from 'node:crypto';
import type { JwtAlgorithm } from '../../src/identity/jwks.ts';

/** The issuer and the audience that tokens are for unless a test says otherwise. */
export const ISSUER = 'https://idp.example/';
export const AUDIENCE = 'api';

/** A JWK, public part only, with the members a test wants in it. */
export type TestJwk = Record<string, unknown>;

export interface SigningKey {
  readonly algorithm: JwtAlgorithm;
  readonly kid: string | undefined;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
  /** With `kid`, if there is one, `use` and `alg`. */
  readonly jwk: TestJwk;
}

export interface SigningKeyWish {
  readonly algorithm?: JwtAlgorithm;
  /** null: a key without one. Default: `k1`. */
  readonly kid?: string | null;
  /** Which of several keys of the same kind. */
  readonly nth?: number;
}

const CURVES = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' } as const;

type Pair = ReturnType<typeof generate>;
const pairs = new Map<string, Pair>();

/** A key as wished. Equal wishes give the same key material within the process. */
export function signingKey(wish: SigningKeyWish = {}): SigningKey {
  const { algorithm = 'ES256', kid = 'k1', nth = 0 } = wish;
  const kind = /^[RP]S/.test(algorithm) ? 'RSA' : algorithm;
  const { publicKey, privateKey } = pairs.getOrInsertComputed(`${kind} ${nth}`, () =>
    generate(algorithm),
  );
  const named = kid === null ? {} : { kid };
  const jwk = { ...named, use: 'sig', alg: algorithm, ...publicKey.export({ format: 'jwk' }) };
  return { algorithm, kid: kid ?? undefined, publicKey, privateKey, jwk };
}

function generate(algorithm: JwtAlgorithm): { publicKey: KeyObject; privateKey: KeyObject } {
  if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
  if (algorithm === 'ES256' || algorithm === 'ES384' || algorithm === 'ES512') {
    return generateKeyPairSync('ec', { namedCurve: CURVES[algorithm] });
  }
  return generateKeyPairSync('rsa', { modulusLength: 2048 });
}

/** The text of a key set. */
export function jwks(...keys: readonly (SigningKey | TestJwk)[]): string {
  return JSON.stringify({ keys: keys.map((key) => ('privateKey' in key ? key.jwk : key)) });
}

/** Claims that every check likes, an hour long from `wallMs`. `undefined` takes a claim away. */
export function goodClaims(wallMs: number, more: Record<string, unknown> = {}): object {
  const now = Math.floor(wallMs / 1000);
  return { iss: ISSUER, aud: AUDIENCE, sub: 'alice', iat: now, exp: now + 3600, ...more };
}

/** A token with these claims. `header` is laid over `alg`, `kid` and `typ`; `undefined` takes away. */
export function signToken(
  key: SigningKey,
  claims: object,
  header: Record<string, unknown> = {},
): string {
  const whole = { alg: key.algorithm, kid: key.kid, typ: 'JWT', ...header };
  return signParts(key, JSON.stringify(whole), JSON.stringify(claims));
}

/** A token of any header and payload, well-formed or not, with a good signature. */
export function signParts(
  key: SigningKey,
  header: string | Uint8Array,
  payload: string | Uint8Array,
): string {
  const input = `${encodePart(header)}.${encodePart(payload)}`;
  return `${input}.${signature(key, input).toString('base64url')}`;
}

/** A token signed as HS256 with any secret. */
export function macToken(secret: string | Uint8Array, claims: object, kid?: string): string {
  const header = encodePart(JSON.stringify({ alg: 'HS256', kid, typ: 'JWT' }));
  const input = `${header}.${encodePart(JSON.stringify(claims))}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}

/** base64url of UTF-8 text or of bytes. */
export const encodePart = (part: string | Uint8Array): string =>
  Buffer.from(part as string).toString('base64url');

function signature({ algorithm, privateKey }: SigningKey, input: string): Buffer {
  const data = Buffer.from(input);
  if (algorithm === 'EdDSA') return signBytes(null, data, privateKey);
  const bits = Number(algorithm.slice(2));
  const options = algorithm.startsWith('PS')
    ? { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: bits / 8 }
    : ({ dsaEncoding: 'ieee-p1363' } as const);
  return signBytes(`sha${bits}`, data, { key: privateKey, ...options });
}
