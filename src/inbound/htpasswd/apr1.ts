/**
 * Apache's apr1: the MD5-crypt of FreeBSD under another magic word, so that neither takes the hashes
 * of the other (apr_md5.c of APR-util).
 */
import { digestOf, repeatTo, runRounds, writeChecksum } from './crypt-rounds.ts';

const MAGIC = Buffer.from('$apr1$');
const NUL = Buffer.alloc(1);
const ROUNDS = 1000;
const ORDER = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5], [11]];

/** The checksum, 22 letters. `salt` has at most 8 bytes. */
export function apr1(password: Buffer, salt: Buffer): string {
  const between = digestOf('md5', password, salt, password);
  const parts: Uint8Array[] = [password, MAGIC, salt, repeatTo(between, password.length)];
  // The NUL is what the first implementation left in a buffer; it has been the format ever since.
  for (let bits = password.length; bits > 0; bits >>= 1) {
    parts.push((bits & 1) === 0 ? password.subarray(0, 1) : NUL);
  }
  const start = digestOf('md5', ...parts);
  const digest = runRounds({ algorithm: 'md5', count: ROUNDS, password, salt, start });
  return writeChecksum(digest, ORDER);
}
