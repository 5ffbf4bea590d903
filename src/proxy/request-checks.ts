/**
 * Checks of a request that listeners of every mode make before they choose where it goes. Each
 * listener decides in which order, and what a finding leads to.
 */
import { type ErrorCode, ProxyError } from '../errors.ts';
import { isForeignPage } from '../http/web-page.ts';
import type { Requester } from '../relay/caller.ts';
import { KNOWN_STRIDE } from '../wire/field-lines.ts';
import { fieldValues } from '../wire/field-values.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { RequestHead } from '../wire/request-head.ts';

/** A refusal of the request by its own words. */
export function refusal(code: ErrorCode, message: string): ProxyError {
  return new ProxyError(code, message, { side: 'downstream', stage: 'identify' });
}

/** Keeps method and target, without the query, for the access log. */
export function noteRequest(head: RequestHead, buffer: Buffer, connection: Requester): void {
  connection.loggedMethod = head.method;
  connection.loggedTarget = buffer.toString('latin1', head.targetStart, head.pathEnd);
}

/** The request passed this process before: its id stands in Via (RFC 9110 7.6.3). */
export function isLoop(head: RequestHead, buffer: Buffer, viaId: string): boolean {
  if (head.first(REQUEST_FIELD.via) < 0) return false;
  return fieldValues(head, buffer, REQUEST_FIELD.via).some((value) => value.includes(viaId));
}

/** Authorization with a scheme that authenticates connections (R19). */
export function carriesConnectionLogin(head: RequestHead, buffer: Buffer): boolean {
  const entry = head.first(REQUEST_FIELD.authorization) * KNOWN_STRIDE;
  if (entry < 0) return false;
  const start = head.known[entry + 3] ?? 0;
  const scheme = buffer.toString('latin1', start, Math.min(start + 10, head.known[entry + 4] ?? 0));
  return /^(?:ntlm|nego|kerberos)/i.test(scheme);
}

/**
 * Whether what a caller logs in to can be his connection alone: HTTP/1.0 does not keep it for him, and
 * one that carries requests side by side is shared by them (R21).
 */
export const keepsLogins = (head: RequestHead, connection: Requester): boolean =>
  head.minor === 1 && !connection.multiplexed;

export const refuseLogin = (): ProxyError =>
  refusal('caller-credentials-refused', 'the caller sent NTLM or Negotiate credentials');

/** What the request claims to ask for. */
export interface PageTarget {
  readonly scheme: 'http' | 'https';
  /** With the port where it is not the default. */
  readonly host: string;
}

/**
 * Whether a web page of another origin made the request (config.md, "Web pages must not use us").
 * `allowed`: origins that may.
 */
export function isForeignPageRequest(
  head: RequestHead,
  buffer: Buffer,
  target: PageTarget,
  allowed: readonly string[],
): boolean {
  const hasOrigin = head.first(REQUEST_FIELD.origin) >= 0;
  if (!hasOrigin && head.first(REQUEST_FIELD.secFetchSite) < 0) return false;
  // Which of two would count is anybody's guess.
  if (head.count(REQUEST_FIELD.origin) > 1 || head.count(REQUEST_FIELD.secFetchSite) > 1) {
    return true;
  }
  const facts = {
    ...target,
    method: head.method,
    origin: head.valueText(buffer, REQUEST_FIELD.origin),
    secFetchSite: head.valueText(buffer, REQUEST_FIELD.secFetchSite),
    secFetchMode: head.valueText(buffer, REQUEST_FIELD.secFetchMode),
    secFetchDest: head.valueText(buffer, REQUEST_FIELD.secFetchDest),
    upgrade: head.first(REQUEST_FIELD.upgrade) >= 0,
  };
  return isForeignPage(facts, allowed);
}
