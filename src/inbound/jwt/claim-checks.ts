/**
 * What a token must claim to be accepted (RFC 7519 4.1, RFC 8725 3.8 and 3.9): the issuer, the audience,
 * and times that are compared without tolerance. Every refusal is a static end of the sentence "the
 * caller's token ...".
 */
import type { JsonValue } from '../../identity/strict-json.ts';
import type { Claims } from '../caller.ts';

/** In UTF-16 units. RFC 7519 has no limit, OpenID Connect 255 bytes. */
const MAX_SUBJECT = 1024;

/** Whom a token must be from, and whom it must be for. */
export interface ExpectedClaims {
  readonly issuer: string;
  /** One of them suffices. */
  readonly audience: readonly string[];
}

/** What acceptance needs of the claims. */
export interface AcceptedClaims {
  readonly subject: string | undefined;
  /** ms since 1970; -Infinity without `nbf`. */
  readonly notBeforeMs: number;
  /** ms since 1970. */
  readonly expiresMs: number;
}

/** The facts of claims that are as expected, whatever the time is; or why they are refused. */
export function judgeClaims(claims: Claims, expected: ExpectedClaims): AcceptedClaims | string {
  const { iss, aud, exp, nbf, iat, sub } = claims;
  if (iss !== expected.issuer) return 'is from another issuer';
  if (!isFor(aud, expected.audience)) return 'is for another audience';
  if (exp === undefined) return 'has no time of expiry';
  if (!isNumber(exp)) return 'has an exp that is no number';
  if (nbf !== undefined && !isNumber(nbf)) return 'has an nbf that is no number';
  if (iat !== undefined && !isNumber(iat)) return 'has an iat that is no number';
  if (sub !== undefined && !isName(sub)) return 'has a sub that is no name';
  return {
    subject: sub,
    notBeforeMs: nbf === undefined ? -Infinity : nbf * 1000,
    expiresMs: exp * 1000,
  };
}

/** Why claims of these times are refused at `wallMs`; undefined where they are not. */
export function judgeTime(
  { notBeforeMs, expiresMs }: AcceptedClaims,
  wallMs: number,
): string | undefined {
  if (wallMs >= expiresMs) return 'has expired';
  if (wallMs < notBeforeMs) return 'is not valid yet';
  return undefined;
}

/** RFC 7519 4.1.3: one text, or a list of texts. */
function isFor(aud: JsonValue | undefined, audience: readonly string[]): boolean {
  if (typeof aud === 'string') return audience.includes(aud);
  if (!Array.isArray(aud)) return false;
  const named: readonly JsonValue[] = aud;
  return (
    named.every((name) => typeof name === 'string') && named.some((name) => audience.includes(name))
  );
}

const isNumber = (value: JsonValue): value is number =>
  typeof value === 'number' && Number.isFinite(value);

const isName = (value: JsonValue): value is string =>
  typeof value === 'string' && value !== '' && value.length <= MAX_SUBJECT;
