/** A report for people: one line a leg. */
import type {
  ConnectedStep,
  LoginStep,
  MechanismStep,
  Report,
  ReportedError,
  RequestStep,
  Step,
  WayStep,
} from './report.ts';

/** Ends with a line end. */
export function formatReport(report: Report): string {
  const { url, notes, steps, status, error, ok } = report;
  // What failed last is told below, with what to do.
  const repeatsError = (step: Step, at: number): boolean =>
    error !== null && step.kind === 'mechanism-failed' && at === steps.length - 1;
  const lines = [
    url,
    ...notes.map((note) => `  ${note}`),
    ...steps.flatMap((step, at) => (repeatsError(step, at) ? [] : stepLines(step))),
    '',
    ...(error === null ? [] : errorLines(error)),
    `${ok ? 'ok' : 'failed'}: ${status === null ? 'no answer to the request' : `status ${status}`}`,
  ];
  return `${lines.map(printable).join('\n')}\n`;
}

function stepLines(step: Step): string[] {
  switch (step.kind) {
    case 'way':
      return wayLines(step);
    case 'connected':
      return connectedLines(step);
    case 'login':
      return [loginLine(step)];
    case 'mechanism-failed':
      return mechanismLines(step);
    case 'request':
      return requestLines(step);
    default:
      return step satisfies never;
  }
}

function wayLines({ upstream, origin, principal, parent }: WayStep): string[] {
  const through =
    parent === null
      ? []
      : [
          `  through the parent ${parent.upstream} (${parent.url}), ${whom(parent.principal)}, ${FORMS[parent.form]}`,
        ];
  return ['', `way: ${origin} (${upstream}), ${whom(principal)}`, ...through];
}

const FORMS = {
  absolute: 'which is sent the request itself',
  tunnel: 'by a tunnel (CONNECT)',
} as const;

const whom = (principal: string | null): string =>
  principal === null ? 'as nobody' : `as ${principal}`;

function connectedLines({ hop, upstream, address, tls }: ConnectedStep): string[] {
  const where = address === null ? 'inside the tunnel' : address;
  const lines = [`  ${hop}: connected to ${upstream}, ${where}`];
  if (tls === null) return lines;
  const { protocol, cipher, servername, subject, issuer, validTo, bindable } = tls;
  const named = servername === null ? 'no server name' : `server name ${servername}`;
  lines.push(`    ${protocol}, ${cipher}, ${named}`);
  lines.push(`    certificate of ${subject ?? '?'} by ${issuer ?? '?'}, until ${validTo ?? '?'}`);
  if (!bindable) lines.push('    its certificate has no channel binding (RFC 5929)');
  return lines;
}

const MECHANISMS: Readonly<Record<string, string>> = {
  kerberos: 'Kerberos in Negotiate',
  'ntlm-in-negotiate': 'NTLM in Negotiate',
  ntlm: 'NTLM',
  basic: 'Basic',
};

function loginLine(step: LoginStep): string {
  const { hop, principal, mechanism, spn, channelBinding, channelBindingRequired } = step;
  const required = channelBindingRequired ? ' (required)' : '';
  const name = spn === null ? '' : `, SPN ${spn}`;
  const binding = `channel binding ${channelBinding}${required}`;
  return `  ${hop}: login by ${MECHANISMS[mechanism] ?? mechanism} as ${principal}${name}, ${binding}`;
}

function mechanismLines({ mechanism, code, message, native }: MechanismStep): string[] {
  const name = MECHANISMS[mechanism] ?? mechanism;
  return [`  ${name} fails here: ${code}: ${message}`, ...nativeLines(native)];
}

function requestLines(step: RequestStep): string[] {
  const { hop, method, target, credentials, status, offers, persistentAuth, clockOffset } = step;
  const carried = credentials.map(({ field, scheme, bytes }) => {
    const what = bytes === null ? 'user name and password' : `token of ${bytes} bytes`;
    return `    ${field}: ${scheme} (${what})`;
  });
  const offered = offers.map(({ scheme, bytes }) =>
    bytes === null ? nameOf(scheme) : `${nameOf(scheme)} (token of ${bytes} bytes)`,
  );
  const answer = [
    status === null ? 'no answer' : String(status),
    ...(offered.length === 0 ? [] : [`offers ${offered.join(', ')}`]),
    ...(persistentAuth === null ? [] : [`Persistent-Auth: ${persistentAuth}`]),
    ...(Math.abs(clockOffset ?? 0) < NOTABLE_SECONDS ? [] : [`clock ${clockOffset} s from ours`]),
  ];
  return [`  ${hop}: ${method} ${target}`, ...carried, `    ${answer.join(', ')}`];
}

/** As RFCs write it. */
const nameOf = (scheme: string): string =>
  scheme === 'ntlm' ? 'NTLM' : `${scheme.slice(0, 1).toUpperCase()}${scheme.slice(1)}`;

/** Less than this lies in the answer's own time. */
const NOTABLE_SECONDS = 30;

function errorLines(error: ReportedError): string[] {
  const { code, likely, hop, message, native, meaning, advice } = error;
  const where = hop === null ? '' : ` at the ${hop}`;
  const cause = likely === null ? '' : ` (${likely})`;
  return [
    `${code}${cause}${where}: ${message}`,
    ...nativeLines(native),
    `  ${meaning}`,
    ...advice.map((line) => `  - ${line}`),
  ];
}

const nativeLines = (native: string | null): string[] =>
  native === null
    ? []
    : native
        .trim()
        .split('\n')
        .map((line) => `    (${line})`);

/** What a server sent must not move the cursor. */
const printable = (line: string): string => line.replaceAll(/\p{Cc}/gu, '?');
