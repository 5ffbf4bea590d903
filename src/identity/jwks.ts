/**
 * Reads a JWK Set (RFC 7517) into the public keys that may verify signatures. Keys of other uses are
 * passed over, as the RFC asks (5), and so are keys too weak to trust; a set of which none remains is a fault.
 */
import { createPublicKey, hash } from 'node:crypto';
import { type JsonObject, type JsonValue, parseJsonObject } from './strict-json.ts';

/** What can be allowed to sign tokens: asymmetric algorithms only, whose keys may be public. */
export const JWT_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

export type JwtAlgorithm = (typeof JWT_ALGORITHMS)[number];

/** The key itself, in the members that JWK has for it; nothing private. */
export type KeyMembers =
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string }
  | {
      readonly kty: 'EC';
      readonly crv: 'P-256' | 'P-384' | 'P-521';
      readonly x: string;
      readonly y: string;
    }
  | { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string };

/** A key that can verify signatures. Frozen. */
export interface PublicJwk {
  readonly kid: string | undefined;
  /** The one algorithm it is for; undefined: every one of its kind. */
  readonly alg: JwtAlgorithm | undefined;
  readonly kty: KeyMembers['kty'];
  readonly members: KeyMembers;
  /** SHA-256 of every member that the JWK had, `kid` and unknown ones included, in full width (R9, R48). */
  readonly fingerprint: string;
}

/** Bytes of a key set, as text in UTF-8. */
export const MAX_JWKS_BYTES = 512 * 1024;
const MAX_KEYS = 200;

const MIN_RSA_BITS = 2048;
/** OpenSSL verifies with none that is longer. */
const MAX_RSA_BITS = 16_384;
/** Bytes of a public exponent; real ones have three. */
const MAX_EXPONENT = 8;

/** Bytes of a coordinate. */
const CURVES = { 'P-256': 32, 'P-384': 48, 'P-521': 66 } as const;
const ED25519_BYTES = 32;

const RSA_ALGORITHMS = new Set<JwtAlgorithm>([
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
]);
const CURVE_ALGORITHM = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
  Ed25519: 'EdDSA',
} as const;

/** The keys of the set that can verify; or why there are none, as a sentence that quotes nothing of it. */
export function parseJwks(
  text: string,
): { readonly keys: readonly PublicJwk[] } | { readonly fault: string } {
  if (text.length > MAX_JWKS_BYTES || Buffer.byteLength(text) > MAX_JWKS_BYTES) {
    return { fault: 'the key set is larger than 512 KiB' };
  }
  const parsed = parseJsonObject(text);
  if ('fault' in parsed) return { fault: `the key set ${parsed.fault}` };
  const list = parsed.object['keys'];
  if (!isList(list)) return { fault: 'the key set has no list `keys`' };
  if (list.length > MAX_KEYS) return { fault: `the key set has more than ${MAX_KEYS} keys` };
  const keys = list.map(readKey).filter((key) => key !== undefined);
  if (keys.length > 0) return { keys: Object.freeze(keys) };
  if (list.length === 0) return { fault: 'the key set is empty' };
  return { fault: 'the key set has no key that can verify signatures' };
}

/** Whether signatures of `algorithm` may be verified with the key. */
export function suits({ alg, members }: PublicJwk, algorithm: JwtAlgorithm): boolean {
  return (alg === undefined || alg === algorithm) && isOfKind(members, algorithm);
}

function isOfKind(members: KeyMembers, algorithm: JwtAlgorithm): boolean {
  if (members.kty === 'RSA') return RSA_ALGORITHMS.has(algorithm);
  return CURVE_ALGORITHM[members.crv] === algorithm;
}

/** Undefined where the key cannot verify. */
function readKey(value: JsonValue): PublicJwk | undefined {
  if (!isObject(value) || !mayVerify(value)) return undefined;
  const { kid, alg } = value;
  if (kid !== undefined && typeof kid !== 'string') return undefined;
  const members = readMembers(value);
  if (members === undefined || !isImportable(members)) return undefined;
  const algorithm = JWT_ALGORITHMS.find((known) => known === alg);
  // A key for one algorithm is for no other, also when that one is unknown here.
  if (alg !== undefined && (algorithm === undefined || !isOfKind(members, algorithm))) {
    return undefined;
  }
  const fingerprint = hash('sha256', canonical(value), 'hex');
  return Object.freeze({ kid, alg: algorithm, kty: members.kty, members, fingerprint });
}

/** RFC 7517 4.2 and 4.3: what the key says of its uses. */
function mayVerify({ use, key_ops: operations }: JsonObject): boolean {
  if (use !== undefined && use !== 'sig') return false;
  return operations === undefined || (isList(operations) && operations.includes('verify'));
}

function readMembers(jwk: JsonObject): KeyMembers | undefined {
  switch (jwk['kty']) {
    case 'RSA':
      return readRsa(jwk);
    case 'EC':
      return readEc(jwk);
    case 'OKP':
      return readOkp(jwk);
    // Of `oct` keys everybody who knows the set could sign.
    default:
      return undefined;
  }
}

function readRsa({ n, e }: JsonObject): KeyMembers | undefined {
  const modulus = readNumber(n);
  const exponent = readNumber(e);
  if (typeof n !== 'string' || typeof e !== 'string') return undefined;
  if (modulus === undefined || exponent === undefined) return undefined;
  const bits = modulus.length * 8 - Math.clz32(modulus[0] ?? 0) + 24;
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS || exponent.length > MAX_EXPONENT)
    return undefined;
  // With the exponent 1 every text is its own signature; even ones have no private key.
  if (isEven(modulus) || isEven(exponent) || exponent.equals(ONE)) return undefined;
  return Object.freeze({ kty: 'RSA', n, e });
}

function readEc({ crv, x, y }: JsonObject): KeyMembers | undefined {
  if (crv !== 'P-256' && crv !== 'P-384' && crv !== 'P-521') return undefined;
  if (typeof x !== 'string' || typeof y !== 'string') return undefined;
  const size = CURVES[crv];
  if (decode(x)?.length !== size || decode(y)?.length !== size) return undefined;
  return Object.freeze({ kty: 'EC', crv, x, y });
}

function readOkp({ crv, x }: JsonObject): KeyMembers | undefined {
  if (crv !== 'Ed25519' || typeof x !== 'string') return undefined;
  if (decode(x)?.length !== ED25519_BYTES) return undefined;
  return Object.freeze({ kty: 'OKP', crv, x });
}

/** Whether OpenSSL takes it: points may lie beside their curve. */
function isImportable(members: KeyMembers): boolean {
  try {
    createPublicKey({ key: { ...members }, format: 'jwk' });
    return true;
  } catch {
    // Which of the members it disliked does not matter: the key is passed over.
    return false;
  }
}

const ONE = Buffer.from([1]);

const isEven = (number: Buffer): boolean => ((number.at(-1) ?? 0) & 1) === 0;

/** A big-endian number above 0, without leading zero bytes. */
function readNumber(value: JsonValue | undefined): Buffer | undefined {
  const bytes = typeof value === 'string' ? decode(value) : undefined;
  const first = bytes?.findIndex((byte) => byte !== 0) ?? -1;
  return first < 0 ? undefined : bytes?.subarray(first);
}

/** Strict base64url (RFC 7515 2). */
function decode(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  // Node's decoder skips what it does not know; encoding again shows whether it did.
  return bytes.toString('base64url') === text ? bytes : undefined;
}

/** Equal for equal values only: JSON without white space, members in the order of their names. */
function canonical(value: JsonValue): string {
  if (isList(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${canonical(item)}`).join()}}`;
}

const isList = (value: JsonValue | undefined): value is readonly JsonValue[] =>
  Array.isArray(value);

const isObject = (value: JsonValue): value is JsonObject =>
  typeof value === 'object' && value !== null && !isList(value);
