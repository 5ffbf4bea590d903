/**
 * The request fields that the head parser marks for the rest of the program, and which of them a
 * `Connection` field may name. A listener adds its own names, such as identity headers.
 */
import { NameTable } from './name-table.ts';
import type { NameEntry, Nomination } from './name-table.ts';

/** Ids of the known request fields. The names a listener adds get the ids after them. */
export const REQUEST_FIELD = {
  host: 0,
  contentLength: 1,
  transferEncoding: 2,
  connection: 3,
  keepAlive: 4,
  proxyConnection: 5,
  te: 6,
  trailer: 7,
  upgrade: 8,
  http2Settings: 9,
  expect: 10,
  authorization: 11,
  proxyAuthorization: 12,
  origin: 13,
  secFetchSite: 14,
  secFetchMode: 15,
  secFetchDest: 16,
  via: 17,
  forwarded: 18,
  xForwardedFor: 19,
  xForwardedHost: 20,
  xForwardedProto: 21,
  /** Any other `X-Forwarded-*`, and those above or X-Real-IP written with `_` or `.`. */
  xForwardedOther: 22,
  xRealIp: 23,
  accept: 24,
  /** A line that a Connection field names, and that is not removed anyway. */
  nominated: 25,
  maxForwards: 26,
  sidekerbAdmin: 27,
} as const;

const FIRST_CUSTOM_ID = 28;

/**
 * `refused`: the field decides framing, routing or who is asking, so a request that asks to have it
 * removed is an attack (RFC 9110 7.6.1 lets no sender name a field meant for all recipients).
 */
const FIELDS: readonly (readonly [name: string, id: number, nomination: Nomination])[] = [
  ['host', REQUEST_FIELD.host, 'refused'],
  ['content-length', REQUEST_FIELD.contentLength, 'refused'],
  ['transfer-encoding', REQUEST_FIELD.transferEncoding, 'refused'],
  ['connection', REQUEST_FIELD.connection, 'always-removed'],
  ['keep-alive', REQUEST_FIELD.keepAlive, 'always-removed'],
  ['proxy-connection', REQUEST_FIELD.proxyConnection, 'always-removed'],
  ['te', REQUEST_FIELD.te, 'always-removed'],
  ['trailer', REQUEST_FIELD.trailer, 'always-removed'],
  ['upgrade', REQUEST_FIELD.upgrade, 'always-removed'],
  ['http2-settings', REQUEST_FIELD.http2Settings, 'always-removed'],
  ['expect', REQUEST_FIELD.expect, 'refused'],
  ['authorization', REQUEST_FIELD.authorization, 'refused'],
  ['proxy-authorization', REQUEST_FIELD.proxyAuthorization, 'always-removed'],
  ['origin', REQUEST_FIELD.origin, 'refused'],
  ['sec-fetch-site', REQUEST_FIELD.secFetchSite, 'refused'],
  ['sec-fetch-mode', REQUEST_FIELD.secFetchMode, 'refused'],
  ['sec-fetch-dest', REQUEST_FIELD.secFetchDest, 'refused'],
  ['via', REQUEST_FIELD.via, 'removed'],
  ['forwarded', REQUEST_FIELD.forwarded, 'removed'],
  ['x-forwarded-for', REQUEST_FIELD.xForwardedFor, 'removed'],
  ['x-forwarded-host', REQUEST_FIELD.xForwardedHost, 'removed'],
  ['x-forwarded-proto', REQUEST_FIELD.xForwardedProto, 'removed'],
  ['x-real-ip', REQUEST_FIELD.xRealIp, 'removed'],
  ['accept', REQUEST_FIELD.accept, 'removed'],
  ['max-forwards', REQUEST_FIELD.maxForwards, 'removed'],
  ['x-sidekerb-admin', REQUEST_FIELD.sidekerbAdmin, 'refused'],
];

/** Names whose other spellings a CGI-like server behind us would take for the real ones. */
const SPOOFED_BY_SPELLING = /^x-(?:forwarded-|real-ip$)/;

/**
 * The fields known on one listener. `custom` names are matched in any case and with `-`, `_` and `.`
 * taken as equal; a Connection field must not name them. A custom name that is known already keeps
 * its id. Of a name in `single` a request may have one line, in whatever spelling. Build one per listener
 * and share it.
 */
export class RequestFields {
  /** Number of ids: all ids are below it. */
  readonly size: number;
  readonly table: NameTable;
  /** By id: 1 = two lines of it are a fault. */
  readonly single: Uint8Array;
  readonly #ids = new Map<string, number>();

  /** Names of `single` are among `custom`. */
  constructor(custom: readonly string[], single: readonly string[] = []) {
    let nextId = FIRST_CUSTOM_ID;
    for (const name of custom) {
      const folded = fold(name);
      if (this.#ids.has(folded)) continue;
      const known = FIELDS.find(([field]) => field === folded);
      this.#ids.set(folded, known?.[1] ?? nextId);
      if (known === undefined) nextId += 1;
    }
    this.size = nextId;
    this.single = new Uint8Array(nextId);
    for (const name of single) this.single[this.idOf(name)] = 1;
    this.table = new NameTable(this.#entries(), {
      name: 'x-forwarded-',
      id: REQUEST_FIELD.xForwardedOther,
    });
  }

  /** Ids of the names given to the constructor. */
  get customIds(): Iterable<number> {
    return this.#ids.values();
  }

  /** The id of a name given to the constructor, in any spelling; -1 for other names. */
  idOf(customName: string): number {
    return this.#ids.get(fold(customName)) ?? -1;
  }

  #entries(): NameEntry[] {
    const entries: NameEntry[] = [];
    for (const [name, id, nomination] of FIELDS) {
      if (this.#ids.has(name)) continue;
      const variantId = SPOOFED_BY_SPELLING.test(name) ? REQUEST_FIELD.xForwardedOther : -1;
      entries.push({ name, id, nomination, variantId });
    }
    for (const [name, id] of this.#ids) {
      entries.push({ name, id, nomination: 'refused', variantId: id });
    }
    return entries;
  }
}

function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[_.]/g, '-');
}
