/** Inputs of the decoders' properties. */
import * as fc from 'fast-check';

/** One of `seeds` with bytes changed, added at its end, or cut off. */
export const damaged = (seeds: readonly Uint8Array[]): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(
      fc.constantFrom(...seeds),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }),
      fc.nat(),
      fc.uint8Array({ maxLength: 8 }),
    )
    .map(([seed, changes, cut, more]) => {
      const bytes = Buffer.concat([seed, more]);
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
      return cut % 3 === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
    });
