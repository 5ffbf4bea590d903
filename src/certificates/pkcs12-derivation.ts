/**
 * Keys from passphrases by RFC 7292 appendix B, and the count of what a store may ask for. Made of
 * the hashes of `node:crypto`: 600,000 iterations take 0.4 s, and in plain code several times that.
 */
import { hash } from 'node:crypto';
import { Unusable } from './pkcs12-fault.ts';

/** In all of one store. The MAC takes about 0.7 µs for each, PBKDF2 a sixth of that. */
const MAX_ITERATIONS = 10_000_000;

/** A hash by its name in `node:crypto`; sizes in bytes. */
export interface Digest {
  readonly name: string;
  readonly size: number;
  readonly block: number;
}

export const SHA1: Digest = { name: 'sha1', size: 20, block: 64 };
export const SHA512: Digest = { name: 'sha512', size: 64, block: 128 };

/** What a key is derived from, and how. */
export interface Derivation {
  readonly digest: Digest;
  /** RFC 7292 B.3: 1 for a key, 2 for an initial vector, 3 for a MAC. */
  readonly use: 1 | 2 | 3;
  readonly size: number;
  /** UTF-16, big endian, with its two zero bytes; or nothing at all. */
  readonly password: Buffer;
  readonly salt: Buffer;
  readonly iterations: number;
}

/** Counts the iterations of one store and gives up before there are too many. */
export class IterationBudget {
  #left = MAX_ITERATIONS;

  /** Throws `too-costly`, or `damaged` for a count that is none. */
  spend(iterations: number, rounds: number): void {
    if (iterations < 1) {
      throw new Unusable('damaged', 'has a count of iterations that is none');
    }
    this.#left -= iterations * rounds;
    if (this.#left < 0) {
      throw new Unusable(
        'too-costly',
        `asks for more than ${MAX_ITERATIONS} iterations in all; export it with fewer (-iter)`,
      );
    }
  }
}

/** As RFC 7292 B.2 says; the letters are the RFC's. Throws where the budget does. */
export function deriveKey(derivation: Derivation, budget: IterationBudget): Buffer {
  const { digest, use, size, password, salt, iterations } = derivation;
  const blocks = Math.ceil(size / digest.size);
  budget.spend(iterations, blocks);
  const D = Buffer.alloc(digest.block, use);
  const I = Buffer.concat([repeated(salt, digest.block), repeated(password, digest.block)]);
  const made: Buffer[] = [];
  for (let block = 0; block < blocks; block += 1) {
    let A = hash(digest.name, Buffer.concat([D, I]), 'buffer');
    for (let done = 1; done < iterations; done += 1) A = hash(digest.name, A, 'buffer');
    made.push(A);
    addToEach(I, repeated(A, digest.block).subarray(0, digest.block));
  }
  return Buffer.concat(made).subarray(0, size);
}

/** Copies of `bytes` until a whole number of blocks is full; nothing stays nothing. */
function repeated(bytes: Buffer, block: number): Buffer {
  const size = Math.ceil(bytes.length / block) * block;
  return size === 0 ? Buffer.alloc(0) : Buffer.alloc(size, bytes);
}

/** Adds B + 1 to each block of I, as numbers of that many bytes (step 6C). */
function addToEach(I: Buffer, B: Buffer): void {
  for (let start = 0; start < I.length; start += B.length) {
    let carry = 1;
    for (let at = B.length - 1; at >= 0; at -= 1) {
      const sum = (I[start + at] ?? 0) + (B[at] ?? 0) + carry;
      I[start + at] = sum & 0xff;
      carry = sum >> 8;
    }
  }
}
