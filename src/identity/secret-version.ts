/**
 * Versions of secrets. A version stands for a secret's content wherever identities are compared, and
 * says nothing of it (R46, R47). Only this file makes one, and always of the content it is for; what
 * an identity holds carries its version itself, so that the two cannot come apart (R4, R15).
 */
import { randomBytes } from 'node:crypto';
import { exactBytes, keyedDigest } from './process-key.ts';
import { Secret } from './secret.ts';

/** Equal exactly for equal contents: a number where books are kept, else a digest in full width (R9). */
export type SecretVersion = string & { readonly brand: 'SecretVersion' };

/** A secret that knows its version. Frozen. */
class VersionedSecret<T> extends Secret<T> {
  readonly version: SecretVersion;

  constructor(value: T, version: SecretVersion) {
    super(value);
    this.version = version;
    Object.freeze(this);
  }

  /** What follows from the content alone has the same version. */
  derive<U>(from: (value: T) => U): VersionedSecret<U> {
    return new VersionedSecret(from(this.reveal()), this.version);
  }
}

// The type without its constructor: others get one from the functions below.
export type { VersionedSecret };

/**
 * Numbers the secrets of the configuration: equal content has the same number, other content another
 * one, also between principals that share an account. Keeps keyed digests, never a secret.
 */
export class SecretVersions {
  /** Versions of two books are never equal, whatever their numbers are. */
  readonly #book = randomBytes(8).toString('hex');
  readonly #numbers = new Map<string, number>();

  /** Of a secret that the identity holds itself. */
  secret<T extends string | Uint8Array>(secret: Secret<T>): VersionedSecret<T> {
    const value: string | Uint8Array = secret.reveal();
    const isText = typeof value === 'string';
    const version = this.version(isText ? 'text' : 'bytes', isText ? exactBytes(value) : value);
    return new VersionedSecret(secret.reveal(), version);
  }

  /** Of a secret that lies elsewhere and is told by `content`; `kind` says what that is. */
  version(kind: string, content: Uint8Array): SecretVersion {
    const digest = keyedDigest('secret version', exactBytes(kind), content).toString('hex');
    const number = this.#numbers.get(digest) ?? this.#numbers.size + 1;
    this.#numbers.set(digest, number);
    return `${NUMBERED}${this.#book}.${number}` as SecretVersion;
  }
}

/**
 * The password of a caller, for one mechanism under one name. Callers may try what they like, so no
 * books are kept: the version is the keyed digest of all three.
 */
export function callerSecret(
  mechanism: 'ntlm' | 'kerberos',
  name: string,
  password: Secret<string>,
): VersionedSecret<string> {
  const value = password.reveal();
  const parts = [mechanism, name, value].map(exactBytes);
  const digest = keyedDigest('caller secret', ...parts).toString('hex');
  return new VersionedSecret(value, `${DIGESTED}${digest}` as SecretVersion);
}

/**
 * The number of a version, for the guard and for people. Of a digest it is the first 48 bits: two
 * versions may share it, so it never says that two secrets are equal (R9).
 */
export function generationOf(version: SecretVersion): number {
  return version.startsWith(NUMBERED)
    ? Number(version.slice(version.indexOf('.') + 1))
    : Number.parseInt(version.slice(DIGESTED.length, DIGESTED.length + HEX_DIGITS), 16);
}

const NUMBERED = 'n';
const DIGESTED = 'd';
const HEX_DIGITS = 12;
