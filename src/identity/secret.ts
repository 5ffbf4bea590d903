/**
 * A value that is safe to carry about: whatever prints, serialises or inspects it sees `[secret]`
 * (I5, R46). Who may look inside is listed in the architecture test.
 */
import { inspect } from 'node:util';

import { exactBytes, keyedDigest } from './process-key.ts';

const MASK = '[secret]';

/** Holds a secret; only `reveal` gives it out. */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself. Callers keep it no longer than one computation. */
  reveal(): T {
    return this.#value;
  }

  /**
   * A name for the content, equal for equal contents within this process and meaningless outside
   * it (R47): hexadecimal HMAC-SHA256 under the process's key.
   */
  fingerprint(this: Secret<string> | Secret<Uint8Array>): string {
    const value: string | Uint8Array = this.#value;
    const bytes = typeof value === 'string' ? exactBytes(value) : value;
    return keyedDigest('secret', bytes).toString('hex');
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
