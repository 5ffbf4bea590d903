/** The auth scheme at the start of a credentials field (RFC 9110 11.4), without a string. */

const SP = 0x20;

/** Whether the credentials in `buffer[start, end)` are of `scheme`, which is lower case; well-formed or not. */
export function hasScheme(buffer: Buffer, start: number, end: number, scheme: Buffer): boolean {
  const { length } = scheme;
  if (end - start < length) return false;
  for (let i = 0; i < length; i += 1) {
    if (((buffer[start + i] ?? 0) | 0x20) !== scheme[i]) return false;
  }
  return end - start === length || buffer[start + length] === SP;
}

/** Offset of what follows the scheme and the spaces behind it. */
export function afterScheme(buffer: Buffer, start: number, end: number, scheme: Buffer): number {
  let at = start + scheme.length;
  while (at < end && buffer[at] === SP) at += 1;
  return at;
}
