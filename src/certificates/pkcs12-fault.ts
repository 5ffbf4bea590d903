/** Why a PKCS#12 store cannot be used: a closed list, with words for whoever made the store. */

export const PKCS12_REASONS = [
  /** Not a PKCS#12 store, or not a whole one. */
  'damaged',
  /** Or changed since it was made: its MAC does not tell the two apart. */
  'wrong-passphrase',
  'no-key',
  'several-keys',
  'no-certificate-for-key',
  /** An algorithm or form that is not read; the message names it. */
  'unsupported',
  /** More iterations, or more time, than an opening may take. */
  'too-costly',
  /** The thread died or could not start, or the process is ending: the store may be good. */
  'not-opened',
] as const;

export type Pkcs12Reason = (typeof PKCS12_REASONS)[number];

/** A store that was not opened. The message is a sentence without its subject and holds no secret. */
export interface Pkcs12Fault {
  readonly kind: 'fault';
  readonly reason: Pkcs12Reason;
  readonly message: string;
}

export const pkcs12Fault = (reason: Pkcs12Reason, message: string): Pkcs12Fault => ({
  kind: 'fault',
  reason,
  message,
});

/** How code that reads a store gives up; it does not leave `openPkcs12`. */
export class Unusable extends Error {
  override readonly name = 'Unusable';
  readonly fault: Pkcs12Fault;

  constructor(reason: Pkcs12Reason, message: string) {
    super(message);
    this.fault = pkcs12Fault(reason, message);
  }
}
