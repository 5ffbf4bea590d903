/**
 * Codec of the SPNEGO tokens (RFC 4178 4.2, MS-SPNG 2.2.1): NegTokenInit with its GSS-API header, the
 * NegTokenInit2 of Windows with hints, and NegTokenResp.
 *
 * Only bytes: which token may come when, and what a checksum is worth, is decided by the contexts.
 */
import { ProxyError } from '../../errors.ts';
import {
  contextTag,
  decodeOid,
  encodeElement,
  encodeOid,
  readElement,
  readElements,
  readOnly,
  readOnlyTagged,
  TAG,
  type Element,
} from './der.ts';

/** Object identifiers in dotted form. */
export const OID = {
  SPNEGO: '1.3.6.1.5.5.2',
  KRB5: '1.2.840.113554.1.2.2',
  /** The same mechanism, as an overflow of 16 bits once made it. */
  MS_KRB5: '1.2.840.48018.1.2.2',
  NTLM: '1.3.6.1.4.1.311.2.2.10',
  NEGOEX: '1.3.6.1.4.1.311.2.2.30',
} as const;

/** More than any peer offers; bounds what a list of mechanisms costs. */
const MAX_MECHANISMS = 64;

const STATES = ['accept-completed', 'accept-incomplete', 'reject', 'request-mic'] as const;

export type NegState = (typeof STATES)[number];

/** The first token of a negotiation. */
export interface NegTokenInit {
  readonly kind: 'init';
  /** In order of preference; at least one. */
  readonly mechTypes: readonly string[];
  readonly mechToken: Uint8Array | undefined;
  readonly mechListMic: Uint8Array | undefined;
  /** Only a server sends it; holds no fact. */
  readonly hintName: string | undefined;
}

/** Every later token, of both sides. */
export interface NegTokenResp {
  readonly kind: 'resp';
  readonly state: NegState | undefined;
  readonly mech: string | undefined;
  readonly responseToken: Uint8Array | undefined;
  readonly mechListMic: Uint8Array | undefined;
}

export type NegToken = NegTokenInit | NegTokenResp;

/** The MechTypeList as it is sent and signed: a SEQUENCE, without the `[0]` around it. */
export function encodeMechTypes(mechTypes: readonly string[]): Buffer {
  return encodeElement(TAG.SEQUENCE, ...mechTypes.map(encodeOid));
}

/** A NegTokenInit behind its GSS-API header. reqFlags are never sent: they are not protected. */
export function encodeNegTokenInit(fields: {
  readonly mechTypes: readonly string[];
  readonly mechToken?: Uint8Array | undefined;
  readonly mechListMic?: Uint8Array | undefined;
}): Buffer {
  const body = encodeElement(
    TAG.SEQUENCE,
    encodeElement(contextTag(0), encodeMechTypes(fields.mechTypes)),
    octets(2, fields.mechToken),
    octets(3, fields.mechListMic),
  );
  return encodeElement(
    TAG.APPLICATION_0,
    encodeOid(OID.SPNEGO),
    encodeElement(contextTag(0), body),
  );
}

/** A NegTokenResp; it has no GSS-API header. */
export function encodeNegTokenResp(fields: {
  readonly state?: NegState | undefined;
  readonly mech?: string | undefined;
  readonly responseToken?: Uint8Array | undefined;
  readonly mechListMic?: Uint8Array | undefined;
}): Buffer {
  const { state, mech } = fields;
  const value = Buffer.from(state === undefined ? [] : [STATES.indexOf(state)]);
  const body = encodeElement(
    TAG.SEQUENCE,
    state === undefined ? NOTHING : encodeElement(contextTag(0), enumerated(value)),
    mech === undefined ? NOTHING : encodeElement(contextTag(1), encodeOid(mech)),
    octets(2, fields.responseToken),
    octets(3, fields.mechListMic),
  );
  return encodeElement(contextTag(1), body);
}

const NOTHING = Buffer.alloc(0);

const enumerated = (value: Uint8Array): Buffer => encodeElement(TAG.ENUMERATED, value);

function octets(number: number, value: Uint8Array | undefined): Buffer {
  if (value === undefined) return NOTHING;
  return encodeElement(contextTag(number), encodeElement(TAG.OCTET_STRING, value));
}

/**
 * Decodes a token of the peer. Elements beyond the known ones are skipped (both types are extensible),
 * but all must be in ascending order, once each. Throws `challenge-malformed` (hostile row A12).
 */
export function decodeNegToken(bytes: Uint8Array): NegToken {
  const outer = readOnly(bytes);
  if (outer?.tag === contextTag(1)) return decodeResp(fieldsOf(outer.value));
  if (outer?.tag !== TAG.APPLICATION_0) throw malformed('not a SPNEGO token');
  const header = readElement(outer.value, 0);
  if (header?.element.tag !== TAG.OID || decodeOid(header.element.value) !== OID.SPNEGO) {
    throw malformed('a token of another mechanism');
  }
  const body = readOnlyTagged(outer.value.subarray(header.next), contextTag(0));
  if (body === undefined) throw malformed('no NegTokenInit behind the header');
  return decodeInit(fieldsOf(body));
}

/** The elements of the SEQUENCE in `choice` by context number. */
function fieldsOf(choice: Uint8Array): ReadonlyMap<number, Uint8Array> {
  const sequence = readOnlyTagged(choice, TAG.SEQUENCE);
  const elements = sequence && readElements(sequence);
  if (elements === undefined) throw malformed('not a sequence of elements');
  const fields = new Map<number, Uint8Array>();
  let last = -1;
  for (const { tag, value } of elements) {
    const number = tag - contextTag(0);
    if (number <= last || number > 30) throw malformed('elements out of order');
    fields.set(number, value);
    last = number;
  }
  return fields;
}

type Fields = ReadonlyMap<number, Uint8Array>;

function decodeInit(fields: Fields): NegTokenInit {
  const list = readOnlyTagged(fields.get(0) ?? NOTHING, TAG.SEQUENCE);
  const elements = list && readElements(list);
  if (elements === undefined || elements.length === 0) throw malformed('no list of mechanisms');
  if (elements.length > MAX_MECHANISMS) throw malformed('too many mechanisms');
  const flags = fields.get(1);
  if (flags !== undefined && readOnlyTagged(flags, TAG.BIT_STRING) === undefined) {
    throw malformed('reqFlags are no bit string');
  }
  // [3] is the checksum in RFC 4178 and the hints in MS-SPNG, where the checksum is [4].
  const third = fields.get(3);
  const hints = third && readOnlyTagged(third, TAG.SEQUENCE);
  return {
    kind: 'init',
    mechTypes: elements.map(oidOf),
    mechToken: octetsOf(fields, 2),
    mechListMic: octetsOf(fields, hints === undefined ? 3 : 4),
    hintName: hints && hintNameOf(hints),
  };
}

function hintNameOf(hints: Uint8Array): string | undefined {
  const elements = readElements(hints);
  if (elements === undefined) throw malformed('hints are not a sequence');
  const name = elements.find((element) => element.tag === contextTag(0));
  const text = name && readOnlyTagged(name.value, TAG.GENERAL_STRING);
  return text && Buffer.from(text).toString('latin1');
}

function decodeResp(fields: Fields): NegTokenResp {
  const mech = fields.get(1);
  const element = mech && readOnly(mech);
  if (mech !== undefined && element === undefined) throw malformed('supportedMech');
  return {
    kind: 'resp',
    state: stateOf(fields.get(0)),
    mech: element && oidOf(element),
    responseToken: octetsOf(fields, 2),
    mechListMic: octetsOf(fields, 3),
  };
}

function stateOf(field: Uint8Array | undefined): NegState | undefined {
  if (field === undefined) return undefined;
  const value = readOnlyTagged(field, TAG.ENUMERATED);
  const state = value?.length === 1 ? STATES[value[0] ?? STATES.length] : undefined;
  if (state === undefined) throw malformed('unknown negState');
  return state;
}

function octetsOf(fields: Fields, number: number): Uint8Array | undefined {
  const field = fields.get(number);
  if (field === undefined) return undefined;
  const value = readOnlyTagged(field, TAG.OCTET_STRING);
  if (value === undefined) throw malformed(`element ${number} is no octet string`);
  return value;
}

function oidOf(element: Element): string {
  const oid = element.tag === TAG.OID ? decodeOid(element.value) : undefined;
  if (oid === undefined) throw malformed('a mechanism that is no object identifier');
  return oid;
}

function malformed(reason: string): ProxyError {
  return new ProxyError('challenge-malformed', `SPNEGO: ${reason}`, {
    side: 'upstream',
    stage: 'handshake',
  });
}
