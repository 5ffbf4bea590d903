/**
 * Reads a compact JWS (RFC 7515 7.1) strictly, and believes nothing of it: whether the signature is the
 * issuer's is found out later. What the header says of keys is refused (RFC 8725 3.10): keys come from
 * the configuration alone, and nothing is ever fetched because a token asks for it.
 */
import { isUtf8 } from 'node:buffer';
import { ProxyError } from '../../errors.ts';
import { type JsonObject, parseJsonObject } from '../../identity/strict-json.ts';
import type { Claims } from '../caller.ts';

/** Bytes of a whole token, counted before anything is decoded. */
export const MAX_TOKEN_BYTES = 16 * 1024;

/** A token whose form is sound. Nothing in it is verified. */
export interface CompactToken {
  /** The whole token. */
  readonly text: string;
  /** As the header names it; maybe `none`, maybe unknown. */
  readonly alg: string;
  readonly kid: string | undefined;
  /** `iss` where it is text: which of several verifiers to ask. */
  readonly issuer: string | undefined;
  /** Deeply frozen. */
  readonly claims: Claims;
}

/**
 * Parameters that are refused wherever they stand: critical extensions, of which none is known here
 * (RFC 7515 4.1.11), unencoded payloads (RFC 7797), and keys that a token brings or points at. `x5c`,
 * `x5t` and `x5t#S256` are ignored: they are statements about a key, and no key is chosen by them.
 */
const REFUSED = ['crit', 'b64', 'jku', 'jwk', 'x5u'] as const;

/** RFC 8725 3.11 and RFC 9068 2.1: other types are tokens for something else, as ID or logout tokens. */
const TYPES = new Set(['jwt', 'at+jwt']);
const MEDIA_TYPE_PREFIX = /^application\//i;

/** The token in `buffer[start, end)`, or `caller-token-refused`. */
export function parseCompactToken(
  buffer: Buffer,
  start: number,
  end: number,
): CompactToken | ProxyError {
  if (end - start > MAX_TOKEN_BYTES) return tokenRefused('is larger than 16 KiB');
  const text = buffer.toString('latin1', start, end);
  const parts = text.split('.');
  const [first = '', second = '', third = ''] = parts;
  const [header, payload, signature] = [decodePart(first), decodePart(second), decodePart(third)];
  if (parts.length !== 3 || header === undefined || payload === undefined) return malformed();
  if (signature === undefined) return malformed();
  const head = parsePart(header);
  if ('fault' in head) return tokenRefused(`has a header that ${head.fault}`);
  const kind = readHeader(head.object);
  if (kind instanceof ProxyError) return kind;
  const body = parsePart(payload);
  if ('fault' in body) return tokenRefused(`has a payload that ${body.fault}`);
  const claims = body.object;
  const issuer = typeof claims['iss'] === 'string' ? claims['iss'] : undefined;
  return Object.freeze({ text, ...kind, issuer, claims });
}

/** Why the token of a caller is refused; `why` ends the sentence and holds nothing of the token. */
export function tokenRefused(why: string): ProxyError {
  const facts = { side: 'downstream', stage: 'identify' } as const;
  return new ProxyError('caller-token-refused', `the caller's token ${why}`, facts);
}

const malformed = (): ProxyError =>
  tokenRefused('is not three parts of base64url, as a signed JWT is');

/** Strict base64url (RFC 7515 2): no padding, no white space, no stray bits, not empty. */
function decodePart(part: string): Buffer | undefined {
  if (part === '') return undefined;
  const bytes = Buffer.from(part, 'base64url');
  // Node's decoder skips what it does not know; encoding again shows whether it did.
  return bytes.toString('base64url') === part ? bytes : undefined;
}

function parsePart(bytes: Buffer): ReturnType<typeof parseJsonObject> {
  if (!isUtf8(bytes)) return { fault: 'is not UTF-8' };
  return parseJsonObject(bytes.toString('utf8'));
}

function readHeader(header: JsonObject): { alg: string; kid: string | undefined } | ProxyError {
  for (const name of REFUSED) {
    if (name in header) return tokenRefused(`has the header parameter ${name}`);
  }
  const { alg, kid, typ } = header;
  if (typeof alg !== 'string') return tokenRefused('names no algorithm');
  if (kid !== undefined && typeof kid !== 'string')
    return tokenRefused('has a kid that is no text');
  if (typ !== undefined && !isTokenType(typ))
    return tokenRefused('is not of the type JWT or at+jwt');
  return { alg, kid };
}

function isTokenType(typ: JsonObject[string]): boolean {
  return typeof typ === 'string' && TYPES.has(typ.replace(MEDIA_TYPE_PREFIX, '').toLowerCase());
}
