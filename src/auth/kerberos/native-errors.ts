/**
 * From the native library's texts to codes: the package `kerberos` and kinit give no numbers. The
 * texts are those of MIT Kerberos in the C locale; each row has its test.
 */
import { type ErrorCode, ProxyError } from '../../errors.ts';

interface Row {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  /** For logs and `explain`: no name of a principal in it. */
  readonly message: string;
}

/** The first row that matches counts: some texts are wrapped into others. */
const ROWS: readonly Row[] = [
  {
    pattern: /Server .*not found in Kerberos database/,
    code: 'spn-unknown',
    message: 'the KDC does not know the service name',
  },
  {
    pattern: /Client .*not found in Kerberos database/,
    code: 'credential-rejected',
    message: 'the KDC does not know the principal',
  },
  {
    pattern: /Preauthentication failed|Password incorrect|Decrypt integrity check failed/,
    code: 'credential-rejected',
    message: 'the KDC refused the password or key',
  },
  {
    pattern: /credentials have been revoked|Key table entry not found|contains no suitable keys/,
    code: 'credential-rejected',
    message: 'the account is locked, or the keytab has no key that the KDC takes',
  },
  {
    pattern: /Clock skew too great/,
    code: 'clock-skew',
    message: 'the clocks of this machine and the KDC differ too much',
  },
  {
    pattern: /Ticket expired|credential has expired|Password has expired|Credentials? .*expired/,
    code: 'credential-expired',
    message: 'the tickets or the password of the principal have expired',
  },
  {
    pattern: /Cannot (?:contact any|find|resolve network address for) KDC/,
    code: 'kdc-unreachable',
    message: 'no KDC of the realm can be reached',
  },
  {
    pattern:
      /No credentials were supplied|No Kerberos credentials available|[Cc]redentials cache .*not found|No credentials cache found|cannot find mechanisms to negotiate|Can't find client principal|Matching credential not found/,
    code: 'credential-missing',
    message: 'there is no ticket for the principal',
  },
];

/**
 * The error of a native text; what no row knows is `mechanism-failed`. `stage` is the handshake: the
 * request itself was not sent. The text is kept as the cause.
 */
export function nativeError(text: string): ProxyError {
  const row = ROWS.find(({ pattern }) => pattern.test(text));
  const message = row?.message ?? 'the Kerberos library failed in a way that has no code';
  return kerberosError(row?.code ?? 'mechanism-failed', message, new Error(text));
}

/** A failed login on the way to the next hop, before anything was sent there. */
export function kerberosError(code: ErrorCode, message: string, cause?: unknown): ProxyError {
  return new ProxyError(code, message, { side: 'upstream', stage: 'handshake', cause });
}

/** The realm whose KDC a text complains about; undefined where it names none. */
export function realmInText(text: string): string | undefined {
  return /KDC for realm ['"]([^'"]+)['"]/.exec(text)?.[1];
}
