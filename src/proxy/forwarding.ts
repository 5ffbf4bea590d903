/**
 * Forwarding fields: who called, by which name and scheme (X-Forwarded-*, RFC 7239 Forwarded).
 *
 * From a caller who is not trusted, his own fields are dropped and ours are set; from a trusted one
 * ours are appended (config.md, Trust). One writer per caller's connection, so that the fixed part
 * is bytes already.
 */
import { isIPv6 } from 'node:net';
import { copyAll, copyBytes, CRLF, latin1 } from '../relay/bytes.ts';
import type { ForwardedParts, ForwardingWriter } from '../relay/plan.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { fieldValues } from '../wire/field-values.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';

export type ForwardedStyle = 'x-forwarded' | 'forwarded' | 'both' | 'none';

export interface CallerFacts {
  /** IP address, or undefined on a unix socket. */
  readonly address: string | undefined;
  readonly scheme: 'http' | 'https';
  readonly trusted: boolean;
}

/** Constant texts that `write` adds, together. */
const FIXED = 160;
const HOST_LINE = latin1('X-Forwarded-Host: ');
const QUOTED_END = latin1('"\r\n');

export function createForwardingWriter(
  style: ForwardedStyle,
  caller: CallerFacts,
): ForwardingWriter {
  if (style === 'none') return new NoForwarding(caller.trusted);
  if (!caller.trusted) return new OwnForwarding(style, caller);
  return new AppendedForwarding(style, caller);
}

class NoForwarding implements ForwardingWriter {
  readonly trusted: boolean;

  constructor(trusted: boolean) {
    this.trusted = trusted;
  }

  bound(): number {
    return 0;
  }

  write(_parts: ForwardedParts, _out: Buffer, at: number): number {
    return at;
  }
}

const forwardedFor = (address: string | undefined): string => {
  if (address === undefined) return 'unknown';
  return isIPv6(address) ? `"[${address}]"` : address;
};

/** Nothing of the caller's own fields stays. */
class OwnForwarding implements ForwardingWriter {
  readonly trusted = false;
  readonly #x: Buffer | undefined;
  readonly #forwarded: Buffer | undefined;

  constructor(style: ForwardedStyle, { address, scheme }: CallerFacts) {
    const x = `X-Forwarded-For: ${address ?? 'unknown'}\r\nX-Forwarded-Proto: ${scheme}\r\nX-Forwarded-Host: `;
    this.#x = style === 'forwarded' ? undefined : latin1(x);
    const forwarded = `Forwarded: for=${forwardedFor(address)};proto=${scheme};host="`;
    this.#forwarded = style === 'x-forwarded' ? undefined : latin1(forwarded);
  }

  bound(parts: ForwardedParts): number {
    const texts = (this.#x?.length ?? 0) + (this.#forwarded?.length ?? 0);
    return texts + 2 * hostLength(parts) + FIXED;
  }

  write(parts: ForwardedParts, out: Buffer, start: number): number {
    let at = start;
    if (this.#x !== undefined) {
      at = copyHost(parts, out, copyAll(this.#x, out, at));
      at = copyAll(CRLF, out, at);
    }
    if (this.#forwarded === undefined) return at;
    at = copyHost(parts, out, copyAll(this.#forwarded, out, at));
    return copyAll(QUOTED_END, out, at);
  }
}

/** The caller is a proxy whose word counts: his fields stay, ours go behind. */
class AppendedForwarding implements ForwardingWriter {
  readonly trusted = true;
  readonly #style: ForwardedStyle;
  readonly #address: string;
  readonly #scheme: string;
  readonly #for: string;

  constructor(style: ForwardedStyle, { address, scheme }: CallerFacts) {
    this.#style = style;
    this.#address = address ?? 'unknown';
    this.#scheme = scheme;
    this.#for = forwardedFor(address);
  }

  bound(parts: ForwardedParts): number {
    const { head } = parts;
    const before = head.headEnd - head.headStart;
    return before + this.#address.length * 2 + hostLength(parts) * 2 + FIXED;
  }

  write(parts: ForwardedParts, out: Buffer, start: number): number {
    let at = start;
    if (this.#style !== 'forwarded') at = this.#writeX(parts, out, at);
    if (this.#style === 'x-forwarded') return at;
    const { head, buffer } = parts;
    const before = fieldValues(head, buffer, REQUEST_FIELD.forwarded);
    const host = hostText(parts);
    const own = `for=${this.#for};proto=${this.#scheme};host="${host}"`;
    return at + out.write(`Forwarded: ${[...before, own].join(', ')}\r\n`, at, 'latin1');
  }

  #writeX(parts: ForwardedParts, out: Buffer, start: number): number {
    const { head, buffer } = parts;
    const before = fieldValues(head, buffer, REQUEST_FIELD.xForwardedFor);
    const line = `X-Forwarded-For: ${[...before, this.#address].join(', ')}\r\n`;
    let at = start + out.write(line, start, 'latin1');
    // These two name the first request of the chain, which the trusted proxy knows and we do not.
    if (head.first(REQUEST_FIELD.xForwardedProto) < 0) {
      at += out.write(`X-Forwarded-Proto: ${this.#scheme}\r\n`, at, 'latin1');
    }
    if (head.first(REQUEST_FIELD.xForwardedHost) < 0) {
      at = copyHost(parts, out, copyAll(HOST_LINE, out, at));
      at = copyAll(CRLF, out, at);
    }
    return at;
  }
}

function hostLength({ head, plan }: ForwardedParts): number {
  if (plan.forwardedHost !== undefined) return plan.forwardedHost.length;
  const entry = head.first(REQUEST_FIELD.host) * KNOWN_STRIDE;
  return entry < 0 ? 0 : (head.known[entry + 4] ?? 0) - (head.known[entry + 3] ?? 0);
}

const hostText = ({ head, buffer, plan }: ForwardedParts): string =>
  plan.forwardedHost?.toString('latin1') ?? head.valueText(buffer, REQUEST_FIELD.host) ?? '';

function copyHost({ head, buffer, plan }: ForwardedParts, out: Buffer, at: number): number {
  if (plan.forwardedHost !== undefined) return copyAll(plan.forwardedHost, out, at);
  const entry = head.first(REQUEST_FIELD.host) * KNOWN_STRIDE;
  if (entry < 0) return at;
  return copyBytes(buffer, head.known[entry + 3] ?? 0, head.known[entry + 4] ?? 0, out, at);
}
