/**
 * Keytabs and credential caches as MIT Kerberos 1.20 writes them, byte by byte: independent of the
 * readers and writers under test.
 */

/** Big-endian fields; a string or a buffer is written as it is. */
type Field = readonly [bits: 8 | 16 | 32, value: number] | string | Buffer;

export function join(...fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.map((field) => {
      if (typeof field === 'string') return Buffer.from(field);
      if (Buffer.isBuffer(field)) return field;
      const bytes = Buffer.alloc(field[0] / 8);
      bytes.writeUIntBE(field[1], 0, bytes.length);
      return bytes;
    }),
  );
}

const counted16 = (text: string): Buffer => join([16, Buffer.byteLength(text)], text);
const counted32 = (text: string): Buffer => join([32, Buffer.byteLength(text)], text);

export interface KeytabKey {
  /** `name@REALM` or `service/host@REALM`. */
  readonly principal: string;
  readonly version?: number;
  readonly key?: string;
  /** Written behind the key, as newer writers do. */
  readonly longVersion?: number;
}

/** An entry without its length. */
export function keytabEntry({
  principal,
  version = 1,
  key = 'k'.repeat(32),
  longVersion,
}: KeytabKey): Buffer {
  const [name = '', realm = ''] = principal.split('@');
  const components = name.split('/');
  return join(
    [16, components.length],
    counted16(realm),
    ...components.map(counted16),
    [32, 1],
    [32, 1_700_000_000],
    [8, version & 0xff],
    [16, 18],
    counted16(key),
    ...(longVersion === undefined ? [] : [join([32, longVersion])]),
  );
}

/** A keytab of format 0x502. */
export function testKeytab(...keys: readonly KeytabKey[]): Buffer {
  const entries = keys.map((key) => keytabEntry(key));
  return join([16, 0x0502], ...entries.flatMap((entry) => [join([32, entry.length]), entry]));
}

function cacheName(principal: string): Buffer {
  const [name = '', realm = ''] = principal.split('@');
  const components = name.split('/');
  return join([32, 1], [32, components.length], counted32(realm), ...components.map(counted32));
}

export interface CacheTicket {
  readonly server: string;
  /** Seconds since 1970. */
  readonly end: number;
}

/** A credential cache of version 4 with the offset header that clients write. */
export function testCache(principal: string, ...tickets: readonly CacheTicket[]): Buffer {
  return join(
    [16, 0x0504],
    [16, 12],
    [16, 1],
    [16, 8],
    [32, 0xffffffff],
    [32, 0],
    cacheName(principal),
    ...tickets.map(({ server, end }) =>
      join(
        cacheName(principal),
        cacheName(server),
        [16, 18],
        counted32('s'.repeat(32)),
        [32, end - 3600],
        [32, end - 3600],
        [32, end],
        [32, 0],
        [8, 0],
        [32, 0x40e10000],
        // One address and one piece of authorization data.
        [32, 1],
        [16, 2],
        counted32('\x7f\0\0\x01'),
        [32, 1],
        [16, 1],
        counted32('data'),
        counted32('ticket'),
        [32, 0],
      ),
    ),
  );
}
