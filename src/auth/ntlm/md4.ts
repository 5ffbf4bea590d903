/**
 * MD4 (RFC 1320), which OpenSSL 3 no longer offers by default and the NT hash is defined by.
 *
 * Broken as a hash since long ago: nothing but `ntowfv1` uses it.
 */

const BLOCK_BYTES = 64;
const LENGTH_BYTES = 8;

/** Order of the message words in rounds 1 to 3 (RFC 1320 3.4). */
const WORDS = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
  [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
] as const;

/** Rotations, in fours, of rounds 1 to 3. */
const ROTATIONS = [
  [3, 7, 11, 19],
  [3, 5, 9, 13],
  [3, 9, 11, 15],
] as const;

/** Square roots of 2 and 3: the additive constants of rounds 2 and 3. */
const CONSTANTS = [0, 0x5a827999, 0x6ed9eba1] as const;

/** The 16-byte digest of `message`. */
export function md4(message: Uint8Array): Buffer {
  const padded = pad(message);
  const state: State = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  for (let at = 0; at < padded.length; at += BLOCK_BYTES) compress(state, padded, at);
  const digest = Buffer.alloc(16);
  state.forEach((word, index) => digest.writeUInt32LE(word >>> 0, index * 4));
  return digest;
}

type State = [number, number, number, number];

function pad(message: Uint8Array): Buffer {
  const blocks = Math.ceil((message.length + 1 + LENGTH_BYTES) / BLOCK_BYTES);
  const padded = Buffer.alloc(blocks * BLOCK_BYTES);
  padded.set(message);
  padded[message.length] = 0x80;
  padded.writeBigUInt64LE(BigInt(message.length) * 8n, padded.length - LENGTH_BYTES);
  return padded;
}

function compress(state: State, block: Buffer, at: number): void {
  let [a, b, c, d] = state;
  for (let step = 0; step < 48; step += 1) {
    const round = step >> 4;
    const word = block.readInt32LE(at + 4 * at3(WORDS, round, step & 15));
    const sum = (a + mix(round, b, c, d) + word + at1(CONSTANTS, round)) | 0;
    const rotation = at3(ROTATIONS, round, step & 3);
    [a, b, c, d] = [d, (sum << rotation) | (sum >>> (32 - rotation)), b, c];
  }
  state[0] = (state[0] + a) | 0;
  state[1] = (state[1] + b) | 0;
  state[2] = (state[2] + c) | 0;
  state[3] = (state[3] + d) | 0;
}

/** F, G and H of RFC 1320: choice, majority, parity. */
function mix(round: number, x: number, y: number, z: number): number {
  if (round === 0) return (x & y) | (~x & z);
  if (round === 1) return (x & y) | (x & z) | (y & z);
  return x ^ y ^ z;
}

function at1(table: readonly number[], index: number): number {
  return table[index] ?? 0;
}

function at3(table: readonly (readonly number[])[], row: number, index: number): number {
  return table[row]?.[index] ?? 0;
}
