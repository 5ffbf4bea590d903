/**
 * The passphrase's part in a PKCS#12 store: the MAC and the decryption, all with `node:crypto`. Keys
 * are derived by RFC 7292 appendix B for the MAC and the old schemes, by PBKDF2 for PBES2 (RFC 8018).
 */
import { createDecipheriv, createHmac, pbkdf2Sync, timingSafeEqual } from 'node:crypto';
import { deriveKey, type Digest, type IterationBudget, SHA1, SHA512 } from './pkcs12-derivation.ts';
import { Unusable } from './pkcs12-fault.ts';
import type { Sealed, StoreEncryption, StoreMac } from './pkcs12-structure.ts';

/** A passphrase in the two forms that stores use. */
export interface PassphraseForms {
  /** UTF-16, big endian, with two zero bytes behind (RFC 7292 B.1). */
  readonly wide: Buffer;
  /** UTF-8, for PBES2. */
  readonly utf8: Buffer;
}

/**
 * The forms to try, in order. No passphrase and an empty one are the same to people but not to
 * stores: one program writes no bytes at all and the next the two zero bytes alone. As with
 * OpenSSL, either opens both.
 */
export function passphraseForms(passphrase: string | undefined): PassphraseForms[] {
  const wide = Buffer.from(`${passphrase ?? ''}\0`, 'utf16le').swap16();
  const utf8 = Buffer.from(passphrase ?? '', 'utf8');
  const given = { wide, utf8 };
  return utf8.length === 0 ? [{ wide: Buffer.alloc(0), utf8 }, given] : [given];
}

/** SHA-1 is broken for signatures, not for this. */
const MAC_DIGESTS: ReadonlyMap<string, Digest> = new Map([
  ['1.3.14.3.2.26', SHA1],
  ['2.16.840.1.101.3.4.2.4', { name: 'sha224', size: 28, block: 64 }],
  ['2.16.840.1.101.3.4.2.1', { name: 'sha256', size: 32, block: 64 }],
  ['2.16.840.1.101.3.4.2.2', { name: 'sha384', size: 48, block: 128 }],
  ['2.16.840.1.101.3.4.2.3', SHA512],
]);

const PRFS: ReadonlyMap<string, Digest> = new Map([
  ['1.2.840.113549.2.7', SHA1],
  ['1.2.840.113549.2.8', { name: 'sha224', size: 28, block: 64 }],
  ['1.2.840.113549.2.9', { name: 'sha256', size: 32, block: 64 }],
  ['1.2.840.113549.2.10', { name: 'sha384', size: 48, block: 128 }],
  ['1.2.840.113549.2.11', SHA512],
]);

const CIPHERS: ReadonlyMap<string, { readonly name: string; readonly keySize: number }> = new Map([
  ['2.16.840.1.101.3.4.1.2', { name: 'aes-128-cbc', keySize: 16 }],
  ['2.16.840.1.101.3.4.1.22', { name: 'aes-192-cbc', keySize: 24 }],
  ['2.16.840.1.101.3.4.1.42', { name: 'aes-256-cbc', keySize: 32 }],
  ['1.2.840.113549.3.7', { name: 'des-ede3-cbc', keySize: 24 }],
]);

/** Bytes. A shorter key could be guessed without the passphrase (RFC 9579 section 9). */
const MIN_MAC_KEY = 20;
/** As with OpenSSL; no hash here has a longer output. */
const MAX_MAC_KEY = 64;

const TRIPLE_DES = '1.2.840.113549.1.12.1.3';
/** The old schemes that OpenSSL keeps among its legacy algorithms, which Node has not. */
const LEGACY: ReadonlyMap<string, string> = new Map([
  ['1.2.840.113549.1.12.1.1', 'RC4-128'],
  ['1.2.840.113549.1.12.1.2', 'RC4-40'],
  ['1.2.840.113549.1.12.1.4', '3DES with two keys'],
  ['1.2.840.113549.1.12.1.5', 'RC2-128'],
  ['1.2.840.113549.1.12.1.6', 'RC2-40'],
]);

const CONVERSION =
  'openssl pkcs12 -legacy -in OLD.p12 -nodes | openssl pkcs12 -export -out NEW.p12';

/** Whether the MAC proves the content under the passphrase. */
export function isMacRight(
  content: Uint8Array,
  mac: StoreMac,
  passphrase: PassphraseForms,
  budget: IterationBudget,
): boolean {
  const { name, key } = macKey(mac, passphrase, budget);
  const right = createHmac(name, key).update(content).digest();
  return right.length === mac.value.length && timingSafeEqual(right, mac.value);
}

function macKey(
  mac: StoreMac,
  passphrase: PassphraseForms,
  budget: IterationBudget,
): Pick<Keyed, 'name' | 'key'> {
  const { salt, iterations } = mac;
  if (mac.kind === 'pbmac1') {
    const hmac = PRFS.get(mac.hmac);
    if (hmac === undefined) throw unknownMac(mac.hmac);
    if (mac.keySize < MIN_MAC_KEY || mac.keySize > MAX_MAC_KEY) {
      throw new Unusable('unsupported', `has a MAC with a key of ${mac.keySize} bytes`);
    }
    const key = pbkdf2({ ...mac, size: mac.keySize, password: passphrase.utf8 }, budget);
    return { name: hmac.name, key };
  }
  const digest = MAC_DIGESTS.get(mac.digest);
  if (digest === undefined) throw unknownMac(mac.digest);
  const derivation = { digest, salt, iterations, password: passphrase.wide };
  return {
    name: digest.name,
    key: deriveKey({ ...derivation, use: 3, size: digest.size }, budget),
  };
}

const unknownMac = (algorithm: string): Unusable =>
  new Unusable('unsupported', `has a MAC with the algorithm ${algorithm}`);

/** The bytes in the clear. Throws where they were encrypted under another passphrase. */
export function unseal(
  { encryption, content }: Sealed,
  passphrase: PassphraseForms,
  budget: IterationBudget,
): Buffer {
  if (encryption === undefined) return content;
  const { name, key, iv } = cipherOf(encryption, passphrase, budget);
  const decipher = createDecipheriv(name, key, iv);
  return Buffer.concat([decipher.update(content), decipher.final()]);
}

interface Keyed {
  readonly name: string;
  readonly key: Buffer;
  readonly iv: Buffer;
}

function cipherOf(
  encryption: StoreEncryption,
  passphrase: PassphraseForms,
  budget: IterationBudget,
): Keyed {
  if (encryption.kind === 'pkcs12') return oldCipherOf(encryption, passphrase, budget);
  const cipher = CIPHERS.get(encryption.cipher);
  if (cipher === undefined) throw unknownCipher(encryption.cipher);
  const { keySize: size } = cipher;
  const key = pbkdf2({ ...encryption, size, password: passphrase.utf8 }, budget);
  return { name: cipher.name, key, iv: encryption.iv };
}

const unknownCipher = (algorithm: string): Unusable =>
  new Unusable('unsupported', `is encrypted with the algorithm ${algorithm}`);

interface Pbkdf2 {
  readonly prf: string;
  readonly salt: Buffer;
  readonly iterations: number;
  readonly size: number;
  readonly password: Buffer;
}

function pbkdf2(
  { prf, salt, iterations, size, password }: Pbkdf2,
  budget: IterationBudget,
): Buffer {
  const digest = PRFS.get(prf);
  if (digest === undefined) throw unknownCipher(prf);
  budget.spend(iterations, Math.ceil(size / digest.size));
  return pbkdf2Sync(password, salt, iterations, size, digest.name);
}

function oldCipherOf(
  { scheme, salt, iterations }: Extract<StoreEncryption, { kind: 'pkcs12' }>,
  passphrase: PassphraseForms,
  budget: IterationBudget,
): Keyed {
  if (scheme !== TRIPLE_DES) {
    throw new Unusable(
      'unsupported',
      `is encrypted with ${LEGACY.get(scheme) ?? scheme}, which is too weak; convert it: ${CONVERSION}`,
    );
  }
  const derivation = { digest: SHA1, password: passphrase.wide, salt, iterations };
  const key = deriveKey({ ...derivation, use: 1, size: 24 }, budget);
  const iv = deriveKey({ ...derivation, use: 2, size: 8 }, budget);
  return { name: 'des-ede3-cbc', key, iv };
}
