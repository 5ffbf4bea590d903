/**
 * The parts that all three NTLM messages are made of (MS-NLMP 2.2): signature, type, negotiate
 * flags, Version, and payload fields (`length u16, maximum u16, offset u32`, little-endian).
 *
 * Only layout: which field is required, and what a bad one means, is decided in `messages.ts`.
 */

export const SIGNATURE = Buffer.from('NTLMSSP\0', 'latin1');

/** The flags of MS-NLMP 2.2.2.5 that this project reads or writes. */
export const FLAG = {
  UNICODE: 0x00000001,
  OEM: 0x00000002,
  REQUEST_TARGET: 0x00000004,
  SIGN: 0x00000010,
  NTLM: 0x00000200,
  ALWAYS_SIGN: 0x00008000,
  TARGET_TYPE_DOMAIN: 0x00010000,
  EXTENDED_SESSIONSECURITY: 0x00080000,
  TARGET_INFO: 0x00800000,
  VERSION: 0x02000000,
  KEY_128: 0x20000000,
  KEY_EXCH: 0x40000000,
  KEY_56: 0x80000000,
} as const;

/**
 * What the initiator offers under the scheme NTLM: no SIGN, SEAL or KEY_EXCH (nothing is ever signed
 * over HTTP, and without key exchange the MIC needs no RC4), no LM_KEY, no names before the challenge.
 */
export const OFFERED_FLAGS =
  (FLAG.UNICODE |
    FLAG.OEM |
    FLAG.REQUEST_TARGET |
    FLAG.NTLM |
    FLAG.ALWAYS_SIGN |
    FLAG.EXTENDED_SESSIONSECURITY |
    FLAG.VERSION |
    FLAG.KEY_128 |
    FLAG.KEY_56) >>>
  0;

/** What it offers inside SPNEGO, whose list of mechanisms is signed; Windows clients do the same. */
export const OFFERED_SIGNING_FLAGS = (OFFERED_FLAGS | FLAG.SIGN | FLAG.KEY_EXCH) >>> 0;

/** Windows 10.0 build 19041, NTLM revision 15: constant, so that it tells nothing about the host. */
export const VERSION = Buffer.from('0a00614a0000000f', 'hex');

/** True when every bit of `flag` is set in `flags`. */
export function hasFlag(flags: number, flag: number): boolean {
  return (flags & flag) >>> 0 === flag >>> 0;
}

/** True when `message` starts with the signature and the message type `type`. */
export function isMessage(message: Uint8Array, type: 1 | 2 | 3): boolean {
  const bytes = view(message);
  return (
    bytes.length >= 12 &&
    bytes.compare(SIGNATURE, 0, SIGNATURE.length, 0, SIGNATURE.length) === 0 &&
    bytes.readUInt32LE(8) === type
  );
}

/**
 * The bytes that the descriptor at `at` points to, without a copy; undefined when they do not lie
 * between `headerBytes` and the end. Offset and length are added as doubles: no 32-bit wrap. The
 * maximum length is ignored, as receivers must. An empty field may point anywhere.
 */
export function readField(message: Buffer, at: number, headerBytes: number): Buffer | undefined {
  const length = message.readUInt16LE(at);
  if (length === 0) return message.subarray(0, 0);
  const offset = message.readUInt32LE(at + 4);
  if (offset < headerBytes || offset + length > message.length) return undefined;
  return message.subarray(offset, offset + length);
}

/** A `Buffer` over the same memory. */
export function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * One message: `headerBytes` of header with signature, type and descriptors, then the payload in the
 * order of `fields`; empty ones point at its start. The caller fills the rest of the header. Lengths
 * must fit in 16 bits.
 */
export function layOut(
  type: 1 | 2 | 3,
  headerBytes: number,
  fields: readonly { readonly at: number; readonly value: Uint8Array }[],
): Buffer {
  const total = fields.reduce((sum, field) => sum + field.value.length, headerBytes);
  const message = Buffer.alloc(total);
  message.set(SIGNATURE);
  message.writeUInt32LE(type, 8);
  let offset = headerBytes;
  for (const { at, value } of fields) {
    message.writeUInt16LE(value.length, at);
    message.writeUInt16LE(value.length, at + 2);
    message.writeUInt32LE(value.length === 0 ? headerBytes : offset, at + 4);
    message.set(value, offset);
    offset += value.length;
  }
  return message;
}
