/**
 * Hashes of passwords as user files write them: which kinds are accepted, what is well-formed, and
 * what one check costs. Nothing is computed here.
 *
 * A kind is accepted if guessing from a stolen file is slow, or, for apr1, because most files have it.
 */
import { Secret } from './secret.ts';

export type HashKind = 'bcrypt' | 'sha256-crypt' | 'sha512-crypt' | 'apr1';

/** A check of cost 15 takes bcryptjs 2 s or more, and each step above doubles that. */
const MAX_BCRYPT_COST = 15;
const MIN_BCRYPT_COST = 4;
/** SHA-crypt's own bounds are 1000 and 999,999,999; a million take 1 to 2 s. */
const MIN_ROUNDS = 1000;
const MAX_ROUNDS = 1_000_000;
/** Where a hash does not name its rounds (SHA-crypt), and where it never does (apr1). */
const DEFAULT_ROUNDS = 5000;
const APR1_ROUNDS = 1000;

const TOO_SLOW = 'would hold up all others for many seconds or for minutes';
const ACCEPTED = 'bcrypt ($2a$, $2b$, $2y$), SHA-crypt ($5$, $6$) and apr1 ($apr1$)';

// The last letter of a checksum has fewer bits than others; what uses more of them was damaged.
const BCRYPT = /^\$2[aby]\$\d\d\$[./0-9A-Za-z]{52}[.CGKOSWaeimquy26]$/;
// Salts as crypt(5) has them, in printable ASCII. Programs read `rounds=` differently when it is odd.
const SHA256 =
  /^\$5\$(?:rounds=([1-9]\d*)\$)?(?!rounds=)[!-#%-9;-~]{1,16}\$[./0-9A-Za-z]{42}[./0-9A-D]$/;
const SHA512 =
  /^\$6\$(?:rounds=([1-9]\d*)\$)?(?!rounds=)[!-#%-9;-~]{1,16}\$[./0-9A-Za-z]{85}[./01]$/;
const APR1 = /^\$apr1\$[!-#%-9;-~]{1,8}\$[./0-9A-Za-z]{21}[./01]$/;

/** One well-formed hash. Prints as `[secret]`, as every secret does; its cost is none. */
export class PasswordHash extends Secret<string> {
  readonly kind: HashKind;
  /** bcrypt: binary logarithm of the rounds; else the rounds. */
  readonly cost: number;

  /** Of a text that was found to be well-formed: `parsePasswordHash` is what others call. */
  constructor(text: string, kind: HashKind, cost: number) {
    super(text);
    this.kind = kind;
    this.cost = cost;
  }
}

/** The hash, or what is wrong with it; that text holds nothing of the hash. */
export function parsePasswordHash(text: string): PasswordHash | string {
  if (/^\$2[aby]\$/.test(text)) return parseBcrypt(text);
  if (text.startsWith('$5$')) return parseShaCrypt(text, 'sha256-crypt', SHA256);
  if (text.startsWith('$6$')) return parseShaCrypt(text, 'sha512-crypt', SHA512);
  if (text.startsWith('$apr1$')) {
    return APR1.test(text) ? new PasswordHash(text, 'apr1', APR1_ROUNDS) : malformed('apr1');
  }
  return `the hash is of a kind that is not accepted; accepted are ${ACCEPTED}`;
}

/**
 * A hash that costs the same check as `hash` and stands for nobody: to find a password with this
 * checksum of zeros is to break the function.
 */
export function decoyOf({ kind, cost }: PasswordHash): PasswordHash {
  switch (kind) {
    case 'bcrypt':
      return new PasswordHash(`$2b$${String(cost).padStart(2, '0')}$${zeros(53)}`, kind, cost);
    case 'sha256-crypt':
      return new PasswordHash(`$5$rounds=${cost}$${zeros(16)}$${zeros(43)}`, kind, cost);
    case 'sha512-crypt':
      return new PasswordHash(`$6$rounds=${cost}$${zeros(16)}$${zeros(86)}`, kind, cost);
    case 'apr1':
      return new PasswordHash(`$apr1$${zeros(8)}$${zeros(22)}`, kind, cost);
    default:
      return kind satisfies never;
  }
}

function parseBcrypt(text: string): PasswordHash | string {
  const cost = Number(/^\$2.\$(\d\d)\$/.exec(text)?.[1]);
  if (cost > MAX_BCRYPT_COST) {
    return `the bcrypt cost is above ${MAX_BCRYPT_COST}: one check ${TOO_SLOW}`;
  }
  if (cost < MIN_BCRYPT_COST) return `the bcrypt cost is below ${MIN_BCRYPT_COST}`;
  return BCRYPT.test(text) ? new PasswordHash(text, 'bcrypt', cost) : malformed('bcrypt');
}

function parseShaCrypt(text: string, kind: HashKind, form: RegExp): PasswordHash | string {
  const found = form.exec(text);
  if (found === null) return malformed('SHA-crypt');
  const rounds = found[1] === undefined ? DEFAULT_ROUNDS : Number(found[1]);
  if (rounds > MAX_ROUNDS) {
    return `the SHA-crypt rounds are above ${MAX_ROUNDS}: one check ${TOO_SLOW}`;
  }
  if (rounds < MIN_ROUNDS) return `the SHA-crypt rounds are below ${MIN_ROUNDS}`;
  return new PasswordHash(text, kind, rounds);
}

const malformed = (kind: string): string => `the ${kind} hash is malformed`;

/** The letter for zero in the alphabets of all kinds. */
const zeros = (count: number): string => '.'.repeat(count);
