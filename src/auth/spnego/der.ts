/**
 * The part of DER (X.690) that SPNEGO is written in: single-byte tags and definite lengths.
 *
 * Written lengths are minimal. Read lengths may be longer than they need be, as some peers write them,
 * but take at most four bytes and never run past the end. Nothing here recurses: how deep a message is
 * read is what its codec asks for. Every reader is linear, and answers undefined when malformed.
 */

export const TAG = {
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OID: 0x06,
  ENUMERATED: 0x0a,
  GENERAL_STRING: 0x1b,
  SEQUENCE: 0x30,
  /** The GSS-API header of RFC 2743 3.1. */
  APPLICATION_0: 0x60,
} as const;

const CONTEXT_0 = 0xa0;
const MAX_LENGTH_BYTES = 4;

/** The tag of the constructed context-specific element `[number]`. */
export const contextTag = (number: number): number => CONTEXT_0 + number;

/** One element; `value` shares the memory it was read from. */
export interface Element {
  readonly tag: number;
  readonly value: Uint8Array;
}

/** The element at `at`, and where the next one starts. */
export function readElement(
  bytes: Uint8Array,
  at: number,
): { readonly element: Element; readonly next: number } | undefined {
  const tag = bytes[at];
  const length = readLength(bytes, at + 1);
  // Tag numbers above 30 take more bytes; SPNEGO has none.
  if (tag === undefined || (tag & 0x1f) === 0x1f || length === undefined) return undefined;
  const next = length.next + length.value;
  if (next > bytes.length) return undefined;
  return { element: { tag, value: bytes.subarray(length.next, next) }, next };
}

/** Exactly one element, with nothing behind it. */
export function readOnly(bytes: Uint8Array): Element | undefined {
  const read = readElement(bytes, 0);
  return read?.next === bytes.length ? read.element : undefined;
}

/** The content of exactly one element with this tag. */
export function readOnlyTagged(bytes: Uint8Array, tag: number): Uint8Array | undefined {
  const element = readOnly(bytes);
  return element?.tag === tag ? element.value : undefined;
}

/** All elements of a constructed value; not what is inside them. */
export function readElements(value: Uint8Array): Element[] | undefined {
  const elements: Element[] = [];
  let at = 0;
  while (at < value.length) {
    const read = readElement(value, at);
    if (read === undefined) return undefined;
    elements.push(read.element);
    at = read.next;
  }
  return elements;
}

function readLength(
  bytes: Uint8Array,
  at: number,
): { readonly value: number; readonly next: number } | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 0x80) return { value: first, next: at + 1 };
  const count = first - 0x80;
  // 0x80 alone is the indefinite form.
  if (count === 0 || count > MAX_LENGTH_BYTES) return undefined;
  let value = 0;
  for (let index = 1; index <= count; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) return undefined;
    // No bit operators: they would wrap at 32 bits.
    value = value * 256 + byte;
  }
  return { value, next: at + 1 + count };
}

/** An element; its content is the parts in order. */
export function encodeElement(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(length)]), ...parts]);
}

function lengthBytes(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 + bytes.length, ...bytes];
}

/**
 * The content of an OBJECT IDENTIFIER in dotted form. Undefined when empty, cut off, padded, or with an
 * arc above 2^53.
 */
export function decodeOid(content: Uint8Array): string | undefined {
  const arcs: number[] = [];
  let arc = 0;
  let inside = false;
  for (const byte of content) {
    if (!inside && byte === 0x80) return undefined;
    arc = arc * 128 + (byte & 0x7f);
    if (!Number.isSafeInteger(arc)) return undefined;
    inside = byte >= 0x80;
    if (inside) continue;
    arcs.push(arc);
    arc = 0;
  }
  const [first, ...rest] = arcs;
  if (first === undefined || inside) return undefined;
  const root = Math.min(2, Math.floor(first / 40));
  return [root, first - root * 40, ...rest].join('.');
}

/** An OBJECT IDENTIFIER element from dotted form. */
export function encodeOid(dotted: string): Buffer {
  const [root = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return encodeElement(
    TAG.OID,
    Buffer.from([root * 40 + second, ...rest].flatMap((arc) => arcBytes(arc))),
  );
}

function arcBytes(arc: number): number[] {
  const bytes = [arc % 128];
  for (let rest = Math.floor(arc / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(0x80 + (rest % 128));
  }
  return bytes;
}
