/**
 * Reads credential cache files (FILE, versions 3 and 4 of MIT Kerberos, big-endian) as far as the
 * daemon must know them: whose tickets they are and when they end. Keys and tickets are skipped.
 */
import { formatPrincipalName } from './principal-name.ts';

/** What lies in a cache, without anything secret. */
export interface CacheContents {
  /** `name@REALM`, whose cache it is. */
  readonly principal: string;
  /** End of the newest ticket-granting ticket of the own realm, ms since 1970. */
  readonly endsAt: number | undefined;
  /** Tickets of any kind; 0 where the cache was only set up. */
  readonly tickets: number;
}

/** The contents of a cache file; undefined when it is empty, cut off or of another format. */
export function decodeCredentialCache(file: Uint8Array): CacheContents | undefined {
  const reader = new Reader(Buffer.from(file.buffer, file.byteOffset, file.byteLength));
  try {
    return readCache(reader);
  } catch (error) {
    // The reader's answer to a length that points past the end.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function readCache(reader: Reader): CacheContents | undefined {
  const version = reader.u16();
  if (version !== 0x0504 && version !== 0x0503) return undefined;
  if (version === 0x0504) reader.skip(reader.u16());
  const owner = readName(reader);
  const principal = formatPrincipalName(owner.components, owner.realm);
  const grantor = formatPrincipalName(['krbtgt', owner.realm], owner.realm);
  let endsAt: number | undefined;
  let tickets = 0;
  while (!reader.isAtEnd) {
    readName(reader);
    const server = readName(reader);
    const end = readTicket(reader, version);
    // Settings of the library are kept as tickets of a realm that cannot exist.
    if (server.realm === 'X-CACHECONF:') continue;
    tickets += 1;
    // A renewed ticket is appended: the last one counts.
    if (formatPrincipalName(server.components, server.realm) === grantor) endsAt = end * 1000;
  }
  return { principal, endsAt, tickets };
}

function readName(reader: Reader): { realm: string; components: string[] } {
  // Type of the name.
  reader.skip(4);
  const count = reader.u32();
  const realm = reader.text();
  const components: string[] = [];
  for (let i = 0; i < count; i += 1) components.push(reader.text());
  return { realm, components };
}

/** The end of a ticket, seconds since 1970; leaves the reader behind the ticket. */
function readTicket(reader: Reader, version: number): number {
  // Version 3 writes the type of the key twice.
  reader.skip(version === 0x0503 ? 4 : 2);
  reader.skip(reader.u32());
  reader.skip(8);
  const end = reader.u32();
  // End of renewals, "is a session key" and flags.
  reader.skip(4 + 1 + 4);
  // Addresses, then authorization data: a type and a value each.
  for (let list = 0; list < 2; list += 1) {
    for (let left = reader.u32(); left > 0; left -= 1) {
      reader.skip(2);
      reader.skip(reader.u32());
    }
  }
  // The ticket, and the second one of user-to-user logins.
  reader.skip(reader.u32());
  reader.skip(reader.u32());
  return end;
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  u16(): number {
    const value = this.#bytes.readUInt16BE(this.#at);
    this.#at += 2;
    return value;
  }

  u32(): number {
    const value = this.#bytes.readUInt32BE(this.#at);
    this.#at += 4;
    return value;
  }

  text(): string {
    const start = this.#at + 4;
    this.skip(this.u32());
    return this.#bytes.toString('utf8', start, this.#at);
  }

  skip(count: number): void {
    if (count > this.#bytes.length - this.#at) throw new RangeError('past the end');
    this.#at += count;
  }
}
