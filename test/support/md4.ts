/**
 * MD4 (RFC 1320), written for the test kit alone: OpenSSL 3 has it only in its legacy provider, and
 * the judge must not share a line with what it judges.
 */

const ROUNDS = [
  { order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], shifts: [3, 7, 11, 19], add: 0 },
  {
    order: [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
    shifts: [3, 5, 9, 13],
    add: 0x5a827999,
  },
  {
    order: [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
    shifts: [3, 9, 11, 15],
    add: 0x6ed9eba1,
  },
] as const;

/** The MD4 digest of `message`, 16 bytes. */
export function md4(message: Uint8Array): Buffer {
  const tail = (message.length + 9) % 64;
  const padded = Buffer.alloc(message.length + 9 + (tail === 0 ? 0 : 64 - tail));
  padded.set(message);
  padded[message.length] = 0x80;
  padded.writeBigUInt64LE(BigInt(message.length) * 8n, padded.length - 8);
  let state: [number, number, number, number] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  for (let at = 0; at < padded.length; at += 64) {
    state = compress(state, padded.subarray(at, at + 64));
  }
  const digest = Buffer.alloc(16);
  state.forEach((word, index) => digest.writeUInt32LE(word, index * 4));
  return digest;
}

function compress(
  state: [number, number, number, number],
  block: Buffer,
): [number, number, number, number] {
  let [a, b, c, d] = state;
  ROUNDS.forEach((round, number) => {
    round.order.forEach((word, step) => {
      const sum = (a + mix(number, b, c, d) + block.readUInt32LE(word * 4) + round.add) >>> 0;
      const shift = round.shifts[step % 4] ?? 0;
      const turned = ((sum << shift) | (sum >>> (32 - shift))) >>> 0;
      [a, b, c, d] = [d, turned, b, c];
    });
  });
  return [(state[0] + a) >>> 0, (state[1] + b) >>> 0, (state[2] + c) >>> 0, (state[3] + d) >>> 0];
}

function mix(round: number, x: number, y: number, z: number): number {
  if (round === 0) return ((x & y) | (~x & z)) >>> 0;
  if (round === 1) return ((x & y) | (x & z) | (y & z)) >>> 0;
  return (x ^ y ^ z) >>> 0;
}
