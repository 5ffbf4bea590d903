/**
 * SHA-crypt, after "Unix crypt using SHA-256 and SHA-512" by Ulrich Drepper, version 0.6. The numbers
 * in comments are the steps of that text.
 */
import { digestOf, repeatTo, runRounds, writeChecksum } from './crypt-rounds.ts';

export interface ShaCryptInput {
  readonly algorithm: 'sha256' | 'sha512';
  readonly password: Buffer;
  /** At most 16 bytes. */
  readonly salt: Buffer;
  readonly rounds: number;
}

/** Step 22: in each group the three rows move on by one and change places. */
const SHA256_ORDER = [...groups(10, [0, 10, 20], ([a, b, c]) => [c + 1, a + 1, b + 1]), [31, 30]];
const SHA512_ORDER = [...groups(21, [0, 21, 42], ([a, b, c]) => [b + 1, c + 1, a + 1]), [63]];

/** The checksum: 43 letters with SHA-256, 86 with SHA-512. */
export function shaCrypt({ algorithm, password, salt, rounds }: ShaCryptInput): string {
  const { length } = password;
  // 4 to 8.
  const between = digestOf(algorithm, password, salt, password);
  // 1 to 3, and 9 to 12: a digest for each bit of the length that is set, else the password.
  const parts = [password, salt, repeatTo(between, length)];
  for (let bits = length; bits > 0; bits >>= 1) parts.push((bits & 1) === 0 ? password : between);
  const start = digestOf(algorithm, ...parts);
  // 13 to 16, and 17 to 20.
  const ofPassword = digestOf(algorithm, repeatTo(password, length * length));
  const ofSalt = digestOf(algorithm, repeatTo(salt, salt.length * (16 + (start[0] ?? 0))));
  // 21.
  const digest = runRounds({
    algorithm,
    count: rounds,
    password: repeatTo(ofPassword, length),
    salt: repeatTo(ofSalt, salt.length),
    start,
  });
  return writeChecksum(digest, algorithm === 'sha256' ? SHA256_ORDER : SHA512_ORDER);
}

type Group = readonly [number, number, number];

function groups(count: number, first: Group, next: (group: Group) => Group): (readonly number[])[] {
  const all = [first];
  for (let last = first; all.length < count; all.push(last)) last = next(last);
  return all;
}
