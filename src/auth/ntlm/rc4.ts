/**
 * RC4, which OpenSSL 3 no longer offers and NTLM's key exchange and signatures need (MS-NLMP 3.4).
 *
 * Nothing secret rests on it here: it wraps a random key and eight bytes of a MAC, once each.
 */

/** `data` under the key stream of `key` from its start; the same call decrypts. */
export function rc4(key: Uint8Array, data: Uint8Array): Buffer {
  const state = keySchedule(key);
  let i = 0;
  let j = 0;
  return Buffer.from(
    data.map((byte) => {
      i = (i + 1) & 0xff;
      const left = state[i] ?? 0;
      j = (j + left) & 0xff;
      const right = state[j] ?? 0;
      state[i] = right;
      state[j] = left;
      return byte ^ (state[(left + right) & 0xff] ?? 0);
    }),
  );
}

function keySchedule(key: Uint8Array): Uint8Array {
  const state = Uint8Array.from({ length: 256 }, (_, index) => index);
  let j = 0;
  for (let i = 0; i < 256; i += 1) {
    const own = state[i] ?? 0;
    j = (j + own + (key[i % key.length] ?? 0)) & 0xff;
    state[i] = state[j] ?? 0;
    state[j] = own;
  }
  return state;
}
