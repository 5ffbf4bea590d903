/**
 * The word of a proxy that it keeps one connection to an origin for one connection of its client, so
 * that logins of connections may pass (RFC 4559 6).
 */
import { fieldValues } from './field-values.ts';
import { RESPONSE_FIELD, type ResponseHead } from './response-head.ts';

/** The same as a line. */
export const PROXY_SUPPORT = 'Proxy-Support: Session-Based-Authentication\r\n';

export function keepsSessions(head: ResponseHead, buffer: Buffer): boolean {
  const values = fieldValues(head, buffer, RESPONSE_FIELD.proxySupport);
  return values.some((value) => /(?:^|,)\s*session-based-authentication\s*(?:,|$)/i.test(value));
}
