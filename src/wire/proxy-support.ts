/**
 * What a proxy says of its connections: that it keeps one to an origin for one of its client, so that
 * logins of connections may pass (RFC 4559 6), and whether the client's own goes on.
 */
import { fieldValues } from './field-values.ts';
import { RESPONSE_FIELD, type ResponseHead } from './response-head.ts';

/** The same as a line. */
export const PROXY_SUPPORT = 'Proxy-Support: Session-Based-Authentication\r\n';

export function keepsSessions(head: ResponseHead, buffer: Buffer): boolean {
  const values = fieldValues(head, buffer, RESPONSE_FIELD.proxySupport);
  return values.some((value) => /(?:^|,)\s*session-based-authentication\s*(?:,|$)/i.test(value));
}

/**
 * Whether the connection goes on behind this answer, by RFC 9112 9.3. Of a proxy (`ofProxy`) also by
 * Proxy-Connection, which proxies of HTTP/1.0 send in place of Connection, and some of HTTP/1.1 too.
 */
export function keepsConnection(head: ResponseHead, buffer: Buffer, ofProxy: boolean): boolean {
  const keeps = head.minor === 1 ? !head.close : head.keepAlive;
  if (!ofProxy || head.first(RESPONSE_FIELD.proxyConnection) < 0) return keeps;
  const words = fieldValues(head, buffer, RESPONSE_FIELD.proxyConnection)
    .flatMap((value) => value.split(','))
    .map((word) => word.trim().toLowerCase());
  if (words.includes('close') || head.close) return false;
  return keeps || words.includes('keep-alive');
}
