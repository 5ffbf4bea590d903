/**
 * Names of callers as the rest of the world may see them: which are refused as a whole, and how one is
 * written into a field of a request (hostile row B1).
 */

/** A distinguished name, or the longest that a SPIFFE id may reasonably be. In UTF-16 units. */
const MAX_NAME = 1024;

/**
 * What ends a line, a list member or a quoted text somewhere, what is not seen, what turns the direction
 * of reading, and halves of characters.
 */
const REFUSED = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}",]/u;

/**
 * Whether a name can be told to anybody. One that cannot is never stripped to one that can: that would be
 * somebody else's.
 */
export function isAcceptableName(name: string): boolean {
  return name !== '' && name.length <= MAX_NAME && !REFUSED.test(name);
}

/**
 * An acceptable name as the value of a field: printable ASCII as it is, everything else, `%`, and spaces
 * at the ends percent-encoded in UTF-8 (RFC 3986 2.1). Different names have different values.
 */
export function nameFieldValue(name: string): string {
  return name.replaceAll(/^ +| +$|[^ -~]+|%/gu, (part) =>
    Array.from(
      Buffer.from(part, 'utf8'),
      (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    ).join(''),
  );
}
