/**
 * Digests under a key that is drawn at random when the process starts and never leaves this file
 * (R47): equal inputs can be recognised inside one process, and nothing can be guessed from outside.
 */
import { createHmac, randomBytes } from 'node:crypto';

const processKey = randomBytes(32);

/**
 * HMAC-SHA256 of `parts` under the process's key, 32 bytes. `purpose` keeps the digests of different
 * uses apart; each part is written with its length, so that no two lists of parts collide (R6).
 */
export function keyedDigest(purpose: string, ...parts: readonly Uint8Array[]): Buffer {
  const hmac = createHmac('sha256', processKey);
  for (const part of [exactBytes(purpose), ...parts]) {
    const length = Buffer.allocUnsafe(4);
    length.writeUInt32BE(part.length);
    hmac.update(length).update(part);
  }
  return hmac.digest();
}

/**
 * The bytes of `text` without loss. UTF-8 would turn every unpaired surrogate into U+FFFD, and two
 * different names would become one.
 */
export function exactBytes(text: string): Buffer {
  return Buffer.from(text, 'utf16le');
}
