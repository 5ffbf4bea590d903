/** What a parsed request head means to the connection it came on. */
import type { ErrorCode } from '../errors.ts';
import { fieldValues } from '../wire/field-values.ts';
import { REQUEST_FIELD } from '../wire/request-fields.ts';
import type { HeadFault, RequestHead } from '../wire/request-head.ts';
import type { RoutePlan } from './plan.ts';

/** The error that a refused head becomes. */
export const FAULT_CODES = {
  malformed: 'request-malformed',
  'too-large': 'request-head-too-large',
  'too-many-fields': 'request-head-too-large',
  version: 'version-unsupported',
  'transfer-coding': 'transfer-coding-unsupported',
  expectation: 'expectation-failed',
} as const satisfies Record<HeadFault, ErrorCode>;

/** The request asks to switch to a protocol that the route lets through (hostile row C25). */
export function isUpgrade(plan: RoutePlan, head: RequestHead, buffer: Buffer): boolean {
  if (head.method !== 'GET' || head.minor === 0) return false;
  if (head.count(REQUEST_FIELD.upgrade) !== 1) return false;
  const token = head.valueText(buffer, REQUEST_FIELD.upgrade)?.toLowerCase() ?? '';
  return plan.upgrade.includes(token);
}

/** Accept, to choose the form of an answer of our own. */
export const acceptOf = (head: RequestHead, buffer: Buffer): string | undefined =>
  head.valueText(buffer, REQUEST_FIELD.accept);

export const hasContent = (head: RequestHead): boolean => head.chunked || head.contentLength > 0;

/** The caller reads trailers of the answer (RFC 9110 10.1.4). */
export function takesTrailers(head: RequestHead, buffer: Buffer): boolean {
  if (head.first(REQUEST_FIELD.te) < 0 || head.minor === 0) return false;
  return fieldValues(head, buffer, REQUEST_FIELD.te).some((value) => TRAILERS.test(value));
}

const TRAILERS = /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i;

/** The caller wants the connection to end after the answer, by its own word or by its version. */
export const wantsClose = (head: RequestHead): boolean =>
  head.minor === 1 ? head.close : !head.keepAlive;
