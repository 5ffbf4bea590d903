/**
 * Looks into a caller's token before any library sees it: only the first token of Kerberos V5 may be
 * accepted, in SPNEGO (RFC 4178) or bare (RFC 4121 4.1). A library takes whatever mechanism the machine
 * has, NTLM among them (hostile rows A12, A16, A18, A19).
 */
import { decodeOid, readElement, readOnly, readOnlyTagged, TAG } from '../spnego/der.ts';
import { decodeNegToken, OID } from '../spnego/tokens.ts';

/** Windows names the mechanism by both. */
const KERBEROS: ReadonlySet<string> = new Set([OID.KRB5, OID.MS_KRB5]);

/** What stands before an AP-REQ (RFC 4121 4.1), and its own tag (RFC 4120 5.5.1). */
const TOKEN_ID = Buffer.from([0x01, 0x00]);
const APPLICATION_14 = 0x6e;

/** Why an acceptor is not to see `token`; undefined: it is a first token of Kerberos. For logs. */
export function foreignToken(token: Uint8Array): string | undefined {
  const mechanism = mechanismOf(token);
  if (mechanism === undefined) return 'the token has no GSS-API header';
  if (KERBEROS.has(mechanism)) return foreignRequest(token);
  if (mechanism !== OID.SPNEGO) return 'the token is of another mechanism than Kerberos';
  let offer;
  try {
    offer = decodeNegToken(token);
  } catch {
    // The decoder's only error; what is wrong with the bytes of a stranger helps nobody.
    return 'the token is malformed SPNEGO';
  }
  if (offer.kind !== 'init') return 'the token is no first one';
  // The token inside is for the first mechanism; any other would take a second leg.
  if (!KERBEROS.has(offer.mechTypes[0] ?? '')) return 'the caller prefers another mechanism';
  if (offer.mechToken === undefined) return 'the caller offers Kerberos without a token of it';
  return foreignRequest(offer.mechToken);
}

/** The object identifier in a GSS-API header (RFC 2743 3.1). */
function mechanismOf(token: Uint8Array): string | undefined {
  const body = readOnlyTagged(token, TAG.APPLICATION_0);
  const mechanism = body && readElement(body, 0);
  return mechanism?.element.tag === TAG.OID ? decodeOid(mechanism.element.value) : undefined;
}

function foreignRequest(token: Uint8Array): string | undefined {
  const body = readOnlyTagged(token, TAG.APPLICATION_0);
  const mechanism = body && readElement(body, 0);
  if (body === undefined || mechanism === undefined || !KERBEROS.has(mechanismOf(token) ?? '')) {
    return 'the token inside is of another mechanism than Kerberos';
  }
  const message = body.subarray(mechanism.next);
  const hasId = message[0] === TOKEN_ID[0] && message[1] === TOKEN_ID[1];
  const request = hasId ? readOnly(message.subarray(TOKEN_ID.length)) : undefined;
  return request?.tag === APPLICATION_14 ? undefined : 'the token holds no AP-REQ';
}
