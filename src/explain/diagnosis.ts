/** What the legs say beside the error that the daemon gives: a likely cause, and what to do. */
import { KERBEROS_ERROR } from '../auth/spnego/kerberos-error.ts';
import { type ErrorCode, ProxyError } from '../errors.ts';
import type { HopName } from '../upstream/login-state.ts';
import { adviceFor, KERBEROS_SKEW_SECONDS } from './advice.ts';
import { nativeText } from './recorder.ts';
import type { LoginStep, ReportedError, RequestStep, Step } from './report.ts';

/** The error as it is reported. */
export function diagnose(error: ProxyError, steps: readonly Step[]): ReportedError {
  const { code, hop, stage, message } = error;
  const login = lastLogin(steps);
  const request = lastRequest(steps);
  const native = nativeText(error);
  const fromKdc = code === 'credential-rejected' && native !== null;
  const isTicket = code === 'credential-rejected' && !fromKdc && login?.mechanism === 'kerberos';
  const clockOffset = largestOffset(steps);
  const kerberosError = isTicket ? (request?.kerberosError ?? null) : null;
  const likely = isTicket ? likelyCause(kerberosError, clockOffset) : misfit(error, steps);
  const advice = adviceFor(code, {
    mechanism: login?.mechanism,
    fromKdc,
    likely,
    kerberosError,
    overTls: steps.some((step) => step.kind === 'connected' && step.tls !== null),
    binding: login?.channelBinding,
    clockOffset,
  });
  return { code, likely, hop: hop ?? null, stage, message, native, ...advice };
}

/**
 * A 401 that the daemon passes on although it logged in: no scheme that was used is among those that the
 * origin names. undefined for any other answer.
 */
export function refusedWithoutScheme(
  status: number,
  steps: readonly Step[],
): ProxyError | undefined {
  if (status !== 401 || !isMisfit('origin', steps)) return undefined;
  const facts = { side: 'upstream', stage: 'response', hop: 'origin' } as const;
  const text = 'the origin does not offer the scheme of the login; the 401 is passed on';
  return new ProxyError('no-common-scheme', text, facts);
}

/** The status of the answer that an error is about; null where it is about none. */
export function statusBehind(error: ProxyError, steps: readonly Step[]): number | null {
  const last = steps.at(-1);
  const status = last?.kind === 'request' ? last.status : null;
  return error.receivedStatus ?? (status !== null && status >= 400 ? status : null);
}

function likelyCause(kerberosError: number | null, clockOffset: number): ErrorCode | null {
  switch (kerberosError) {
    case KERBEROS_ERROR.TICKET_NOT_YET_VALID:
    case KERBEROS_ERROR.SKEW:
      return 'clock-skew';
    case KERBEROS_ERROR.TICKET_EXPIRED:
      return 'credential-expired';
    case null:
      return Math.abs(clockOffset) > KERBEROS_SKEW_SECONDS ? 'clock-skew' : null;
    default:
      return null;
  }
}

/** The hop asks, and never for what it was given. */
function misfit({ code, hop, cause }: ProxyError, steps: readonly Step[]): ErrorCode | null {
  // What it was before it was told as the parent's.
  if (cause instanceof ProxyError && cause.code !== code) return cause.code;
  const asks = code === 'parent-auth' || code === 'handshake-failed';
  return asks && isMisfit(hop ?? 'parent', steps) ? 'no-common-scheme' : null;
}

/** `hop` was logged in to by a scheme that no challenge of its names. */
function isMisfit(hop: HopName, steps: readonly Step[]): boolean {
  const login = steps.findLast((step) => step.kind === 'login' && step.hop === hop);
  if (login?.kind !== 'login') return false;
  const scheme = /^(?:ntlm|basic)$/.test(login.mechanism) ? login.mechanism : 'negotiate';
  const offers = steps.flatMap((step) =>
    step.kind === 'request' && asksAs(hop, step) ? step.offers : [],
  );
  return offers.length > 0 && offers.every((offer) => offer.scheme !== scheme);
}

const asksAs = (hop: HopName, { status }: RequestStep): boolean =>
  status === (hop === 'parent' ? 407 : 401);

const lastLogin = (steps: readonly Step[]): LoginStep | undefined =>
  steps.findLast((step): step is LoginStep => step.kind === 'login');

const lastRequest = (steps: readonly Step[]): RequestStep | undefined =>
  steps.findLast((step): step is RequestStep => step.kind === 'request');

function largestOffset(steps: readonly Step[]): number {
  const offsets = steps.map((step) => (step.kind === 'request' ? (step.clockOffset ?? 0) : 0));
  return offsets.toSorted((a, b) => Math.abs(b) - Math.abs(a))[0] ?? 0;
}
