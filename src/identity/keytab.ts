/**
 * Reads and writes keytab files, format 0x502 of MIT Kerberos (all integers big-endian). The keys
 * inside are passed on unseen; whether they are the right ones is for the KDC to say.
 */
import { formatPrincipalName } from './principal-name.ts';

/** One key of one principal. */
export interface KeytabEntry {
  /** `name@REALM`. */
  readonly principal: string;
  /** Version of the key (KVNO). */
  readonly version: number;
  /** The entry as it lies in the file, without its length. Holds the key. */
  readonly bytes: Buffer;
}

const FORMAT = 0x0502;

/** The entries of a keytab in the order of the file; undefined when it is malformed. */
export function decodeKeytab(file: Uint8Array): KeytabEntry[] | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  if (bytes.length < 2 || bytes.readUInt16BE(0) !== FORMAT) return undefined;
  const entries: KeytabEntry[] = [];
  let at = 2;
  while (at < bytes.length) {
    if (bytes.length - at < 4) return undefined;
    const size = bytes.readInt32BE(at);
    at += 4;
    // A length of 0 ends the file, a negative one is the hole that a removed entry left.
    if (size === 0) break;
    const length = Math.abs(size);
    if (length > bytes.length - at) return undefined;
    if (size > 0) {
      const entry = decodeEntry(bytes.subarray(at, at + length));
      if (entry === undefined) return undefined;
      entries.push(entry);
    }
    at += length;
  }
  return entries;
}

/** A keytab of these entries; `decodeKeytab` gives them back. */
export function encodeKeytab(entries: readonly KeytabEntry[]): Buffer {
  const parts: Buffer[] = [Buffer.from([FORMAT >> 8, FORMAT & 0xff])];
  for (const { bytes } of entries) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    parts.push(length, bytes);
  }
  return Buffer.concat(parts);
}

function decodeEntry(bytes: Buffer): KeytabEntry | undefined {
  try {
    return readEntry(bytes);
  } catch (error) {
    // Buffer's own answer to a length that points past the end.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function readEntry(bytes: Buffer): KeytabEntry | undefined {
  let at = 2;
  const counted = (): Buffer => {
    const length = bytes.readUInt16BE(at);
    const end = at + 2 + length;
    if (end > bytes.length) throw new RangeError('past the end');
    const part = bytes.subarray(at + 2, end);
    at = end;
    return part;
  };
  const count = bytes.readUInt16BE(0);
  const realm = counted().toString('utf8');
  const components: string[] = [];
  for (let i = 0; i < count; i += 1) components.push(counted().toString('utf8'));
  // Name type and time of writing.
  at += 8;
  const shortVersion = bytes.readUInt8(at);
  at += 3;
  const key = counted();
  if (components.length === 0 || key.length === 0) return undefined;
  // Newer writers repeat the version in 32 bits behind the key; 0 there means "as above".
  const longVersion = bytes.length - at >= 4 ? bytes.readUInt32BE(at) : 0;
  return {
    principal: formatPrincipalName(components, realm),
    version: longVersion === 0 ? shortVersion : longVersion,
    bytes,
  };
}
