/**
 * Checks one password against one hash, synchronously and at the price that the hash asks: for the
 * worker thread, never for the event loop. The one importer of `bcryptjs`.
 */
import { timingSafeEqual } from 'node:crypto';
import { hashSync } from 'bcryptjs';
import type { PasswordHash } from '../../identity/hash-form.ts';
import { apr1 } from './apr1.ts';
import { shaCrypt } from './sha-crypt.ts';

/**
 * In UTF-8. crypt() of libxcrypt makes no hash of a longer one, and htpasswd takes 255. The costs of
 * SHA-crypt grow with the length, so without a bound one request could hold the thread for long.
 */
const MAX_PASSWORD_BYTES = 511;

/** `$2b$12$` and 22 letters of salt; 31 letters of checksum follow. */
const BCRYPT_SETTING = 29;

/**
 * Whether `hash` was made of this password. As everywhere, bcrypt looks at the first 72 bytes of
 * UTF-8 only. Takes as long for a wrong password as for the right one.
 */
export function isPasswordOf(password: string, hash: PasswordHash): boolean {
  const bytes = Buffer.from(password);
  if (bytes.length > MAX_PASSWORD_BYTES) return false;
  const text = hash.reveal();
  switch (hash.kind) {
    case 'bcrypt': {
      // Some programs leave bits in the salt that mean nothing; the checksum alone is compared.
      const made = hashSync(password, text.slice(0, BCRYPT_SETTING));
      return isEqual(made.slice(BCRYPT_SETTING), text.slice(BCRYPT_SETTING));
    }
    case 'sha256-crypt':
    case 'sha512-crypt': {
      const { salt, checksum } = partsOf(text);
      const algorithm = hash.kind === 'sha256-crypt' ? 'sha256' : 'sha512';
      return isEqual(shaCrypt({ algorithm, password: bytes, salt, rounds: hash.cost }), checksum);
    }
    case 'apr1': {
      const { salt, checksum } = partsOf(text);
      return isEqual(apr1(bytes, salt), checksum);
    }
    default:
      return hash.kind satisfies never;
  }
}

/** As `htpasswd -B` by default, which is quick for a person and slow for who tries a list. */
const NEW_COST = 10;

/** A new bcrypt hash of the password, of which the first 72 bytes count. */
export const hashPassword = (password: string): string => hashSync(password, NEW_COST);

/** Of `$kind$salt$checksum`, with or without rounds. */
function partsOf(text: string): { readonly salt: Buffer; readonly checksum: string } {
  const [salt = '', checksum = ''] = text.split('$').slice(-2);
  return { salt: Buffer.from(salt), checksum };
}

function isEqual(made: string, wanted: string): boolean {
  const a = Buffer.from(made);
  const b = Buffer.from(wanted);
  return a.length === b.length && timingSafeEqual(a, b);
}
