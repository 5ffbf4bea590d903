/**
 * Callers whom a trusted proxy in front of the listener names in a field. From any other address the
 * field means nothing, and it is never forwarded (config.md, Clients).
 */
import type { AddressList } from '../config/address-list.ts';
import { ProxyError } from '../errors.ts';
import { equalsIgnoringCase } from '../wire/bytes.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import type { RequestHead } from '../wire/request-head.ts';
import type { HeaderCaller } from './caller.ts';
import type { CallerConnection, ClientEntry, Identified } from './client-entry.ts';

/** A name of the wrong charset is nobody's: a guess would be somebody else's. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export interface HeaderIdentified extends Identified {
  readonly caller: HeaderCaller;
}

export interface HeaderSettings {
  readonly name: string;
  /** Id of the field, in all its spellings. */
  readonly field: number;
  /** Addresses of the proxies that are believed. */
  readonly from: AddressList;
}

export class HeaderEntry implements ClientEntry<HeaderIdentified> {
  readonly kind = 'header';
  readonly field: number;
  readonly #name: string;
  readonly #from: AddressList;
  /** Looked up once per connection, and not even that while requests come from one address. */
  readonly #believed = new WeakMap<CallerConnection, boolean>();
  #lastAddress = '';
  #lastBelieved = false;

  constructor({ name, field, from }: HeaderSettings) {
    this.field = field;
    this.#name = name.toLowerCase();
    this.#from = from;
  }

  find(head: RequestHead, buffer: Buffer, connection: CallerConnection): number {
    const index = head.first(this.field);
    if (index < 0 || !this.#isBelieved(connection)) return -1;
    const at = index * KNOWN_STRIDE;
    const isEmpty = head.known[at + 3] === head.known[at + 4];
    // A proxy that sets the field overwrites it in this spelling only; another came from its caller.
    const nameStart = head.known[at + 1] ?? 0;
    const nameEnd = nameStart + this.#name.length;
    const isOwn = equalsIgnoringCase(buffer, nameStart, nameEnd, this.#name);
    return isEmpty || !isOwn ? -1 : index;
  }

  identify(buffer: Buffer, start: number, end: number): HeaderIdentified | ProxyError {
    try {
      const user = UTF8.decode(buffer.subarray(start, end));
      return { caller: Object.freeze({ kind: 'header', user }) };
    } catch {
      // The decoder's only error.
      const facts = { side: 'downstream', stage: 'identify' } as const;
      return new ProxyError('caller-name-refused', 'the name is not in UTF-8', facts);
    }
  }

  holds(): boolean {
    return true;
  }

  #isBelieved(connection: CallerConnection): boolean {
    const { remoteAddress } = connection;
    if (remoteAddress === this.#lastAddress) return this.#lastBelieved;
    const believed = this.#believed.get(connection) ?? this.#from.includes(remoteAddress);
    this.#believed.set(connection, believed);
    this.#lastAddress = remoteAddress;
    this.#lastBelieved = believed;
    return believed;
  }
}
