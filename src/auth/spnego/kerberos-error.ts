/**
 * What an acceptor says of a Kerberos token that it refuses: the error code of the KRB-ERROR message
 * (RFC 4120 5.9.1) that RFC 4121 4.1 lets it answer with, bare or inside SPNEGO. It is not protected: good
 * for a person who looks for a cause, and for no decision.
 */
import { contextTag, decodeOid, readElement, readElements, readOnlyTagged, TAG } from './der.ts';
import { decodeNegToken, OID } from './tokens.ts';

/** Codes of RFC 4120 7.5.9 that an acceptor gives. */
export const KERBEROS_ERROR = {
  WRONG_KEY: 31,
  TICKET_EXPIRED: 32,
  TICKET_NOT_YET_VALID: 33,
  NOT_FOR_US: 35,
  SKEW: 37,
  MODIFIED: 41,
  KEY_VERSION: 44,
  NO_KEY: 45,
} as const;

const APPLICATION_30 = 0x7e;
const INTEGER = 0x02;
const ERROR_CODE = 6;

/** undefined where the token is anything else. */
export function kerberosErrorIn(token: Uint8Array): number | undefined {
  const inner = responseIn(token);
  const message = inner && (messageIn(inner) ?? inner);
  const error = message && readOnlyTagged(message, APPLICATION_30);
  const fields = error && readOnlyTagged(error, TAG.SEQUENCE);
  const elements = fields && readElements(fields);
  const code = elements?.find(({ tag }) => tag === contextTag(ERROR_CODE));
  const value = code && readOnlyTagged(code.value, INTEGER);
  // Every code of an acceptor has one byte.
  return value?.length === 1 ? value[0] : undefined;
}

function responseIn(token: Uint8Array): Uint8Array | undefined {
  if (token[0] !== contextTag(1)) return token;
  try {
    const reply = decodeNegToken(token);
    return reply.kind === 'resp' ? reply.responseToken : undefined;
  } catch {
    return undefined;
  }
}

/** Behind the header of GSS-API (RFC 2743 3.1) and the two bytes that say KRB_ERROR (RFC 4121 4.1). */
function messageIn(token: Uint8Array): Uint8Array | undefined {
  const body = readOnlyTagged(token, TAG.APPLICATION_0);
  const mechanism = body && readElement(body, 0);
  if (body === undefined || mechanism?.element.tag !== TAG.OID) return undefined;
  if (decodeOid(mechanism.element.value) !== OID.KRB5) return undefined;
  const { next } = mechanism;
  return body[next] === 3 && body[next + 1] === 0 ? body.subarray(next + 2) : undefined;
}
