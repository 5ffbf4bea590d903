/**
 * NTLM message signatures with extended session security (MS-NLMP 3.4.4.2), as far as SPNEGO needs
 * them: one message per direction, sequence number 0. Nothing is sealed.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

import { FLAG, hasFlag } from './fields.ts';
import { hmacMd5 } from './ntlmv2.ts';
import { rc4 } from './rc4.ts';

export type Direction = 'client-to-server' | 'server-to-client';

const SEQUENCE = Buffer.alloc(4);
const VERSION_1 = Buffer.from('01000000', 'hex');

/** Signs and verifies with the session of one completed login. */
export class NtlmSigner {
  readonly #sessionKey: Uint8Array;
  readonly #flags: number;

  /** `sessionKey`: the exported one, 16 bytes. `flags`: as negotiated, with EXTENDED_SESSIONSECURITY. */
  constructor(sessionKey: Uint8Array, flags: number) {
    this.#sessionKey = sessionKey;
    this.#flags = flags;
  }

  /** The signature of the first message that goes this way: 16 bytes. */
  sign(direction: Direction, message: Uint8Array): Buffer {
    const key = signKey(this.#sessionKey, direction);
    const checksum = hmacMd5(key, SEQUENCE, message).subarray(0, 8);
    const exchanged = hasFlag(this.#flags, FLAG.KEY_EXCH);
    const sealed = exchanged
      ? rc4(sealKey(this.#sessionKey, this.#flags, direction), checksum)
      : checksum;
    return Buffer.concat([VERSION_1, sealed, SEQUENCE]);
  }

  /** Constant time; false for any other length too. */
  verify(direction: Direction, message: Uint8Array, signature: Uint8Array): boolean {
    const expected = this.sign(direction, message);
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  }
}

/** SIGNKEY of MS-NLMP 3.4.5.2. */
export function signKey(sessionKey: Uint8Array, direction: Direction): Buffer {
  return md5(sessionKey, magic(direction, 'signing'));
}

/** SEALKEY of MS-NLMP 3.4.5.3: as much of the session key as the flags allow. */
export function sealKey(sessionKey: Uint8Array, flags: number, direction: Direction): Buffer {
  const bytes = hasFlag(flags, FLAG.KEY_128) ? 16 : hasFlag(flags, FLAG.KEY_56) ? 7 : 5;
  return md5(sessionKey.subarray(0, bytes), magic(direction, 'sealing'));
}

function magic(direction: Direction, use: 'signing' | 'sealing'): Buffer {
  return Buffer.from(`session key to ${direction} ${use} key magic constant\0`, 'latin1');
}

function md5(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('md5');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
