/**
 * What SHA-crypt and Apache's apr1 have in common: the rounds that make a check slow, and the letters
 * that a checksum is written in. Where they differ is in `sha-crypt.ts` and `apr1.ts`.
 */
import { hash } from 'node:crypto';

export type RoundHash = 'sha256' | 'sha512' | 'md5';

export interface Rounds {
  readonly algorithm: RoundHash;
  readonly count: number;
  /** What stands for password and salt in every round. */
  readonly password: Uint8Array;
  readonly salt: Uint8Array;
  /** The digest that the first round starts from. */
  readonly start: Buffer;
}

/** The digest of bytes, whole. */
export const digestOf = (algorithm: RoundHash, ...parts: readonly Uint8Array[]): Buffer =>
  hash(algorithm, Buffer.concat(parts), 'buffer');

/** `bytes` again and again, cut at `length`. */
export const repeatTo = (bytes: Uint8Array, length: number): Buffer => Buffer.alloc(length, bytes);

/**
 * Round i hashes password or digest, the salt unless 3 divides i, the password unless 7 does, and
 * the one of password and digest that did not come first; odd rounds begin with the password.
 */
export function runRounds({ algorithm, count, password, salt, start }: Rounds): Buffer {
  const layouts = layoutsOf(password, salt, start.length);
  let digest = start;
  for (let i = 0; i < count; i += 1) {
    const key = (i & 1) | (i % 3 === 0 ? 0 : 2) | (i % 7 === 0 ? 0 : 4);
    const layout = layouts[key];
    // Every key below 8 has a layout.
    if (layout === undefined) break;
    layout.bytes.set(digest, layout.at);
    digest = hash(algorithm, layout.bytes, 'buffer');
  }
  return digest;
}

interface Layout {
  readonly bytes: Buffer;
  /** Where the digest stands. */
  readonly at: number;
}

/** There are only eight different rounds, and in each nothing changes but the digest. */
function layoutsOf(password: Uint8Array, salt: Uint8Array, digestLength: number): Layout[] {
  const hole = Buffer.alloc(digestLength);
  return Array.from({ length: 8 }, (_, key) => {
    const isOdd = (key & 1) !== 0;
    const middle = [...((key & 2) === 0 ? [] : [salt]), ...((key & 4) === 0 ? [] : [password])];
    const parts = isOdd ? [password, ...middle, hole] : [hole, ...middle, password];
    const bytes = Buffer.concat(parts);
    return { bytes, at: isOdd ? bytes.length - digestLength : 0 };
  });
}

const LETTERS = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The bytes of `digest` in this order, three to four letters, lowest six bits first. */
export function writeChecksum(digest: Uint8Array, order: readonly (readonly number[])[]): string {
  let text = '';
  for (const group of order) {
    let bits = group.reduce((value, index) => (value << 8) | (digest[index] ?? 0), 0);
    for (let letters = group.length + 1; letters > 0; letters -= 1) {
      text += LETTERS.charAt(bits & 0x3f);
      bits >>= 6;
    }
  }
  return text;
}
