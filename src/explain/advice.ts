/** The one table from what went wrong to what it means and what a person can do about it. */
import { KERBEROS_ERROR } from '../auth/spnego/kerberos-error.ts';
import type { ErrorCode } from '../errors.ts';

export interface Advice {
  readonly meaning: string;
  readonly advice: readonly string[];
}

/** What is known beside the code. */
export interface AdviceFacts {
  /** The mechanism in use when it failed; undefined: none was chosen. */
  readonly mechanism: string | undefined;
  /** A KDC said it, and no server saw a token. */
  readonly fromKdc: boolean;
  readonly overTls: boolean;
  readonly binding: 'none' | 'sent' | undefined;
  /** What is behind a refused login, where that is known. */
  readonly likely: ErrorCode | null;
  /** What the server said of the ticket (RFC 4120 7.5.9). */
  readonly kerberosError: number | null;
  /** Largest difference between our clock and an answering server's, in seconds. */
  readonly clockOffset: number;
}

/** Kerberos takes no more, by default (RFC 4120 5.5.1; MIT `clockskew`). */
export const KERBEROS_SKEW_SECONDS = 300;

const TABLE: Partial<Record<ErrorCode, Advice>> = {
  'connect-failed': {
    meaning: 'no connection could be made',
    advice: ['check the host and port, name resolution, firewalls, and that the server runs'],
  },
  'connect-timeout': {
    meaning: 'nobody accepted the connection, or answered the CONNECT, in time',
    advice: ['check firewalls on the way, and timeouts.connect of the upstream'],
  },
  'tls-failed': {
    meaning: 'there is no trusted TLS connection',
    advice: [
      'name the issuer of the certificate in tls.extraCa, or in tls.ca alone',
      'check that the certificate is for the host of the url, or set tls.servername',
    ],
  },
  'handshake-failed': {
    meaning: 'the login did not come to its end',
    advice: ['something between here and the server may close or share connections; see the legs'],
  },
  'handshake-timeout': {
    meaning: 'the login took too long',
    advice: ['see which leg got no answer; timeouts.handshake of the upstream sets the limit'],
  },
  'challenge-malformed': {
    meaning: 'the challenge of the server cannot be read',
    advice: ['see whether something on the way changes WWW-Authenticate or Proxy-Authenticate'],
  },
  'mutual-failed': {
    meaning: 'the server did not prove who it is',
    advice: [
      'auth.mutual: optional accepts servers that send no proof',
      'a proof that is wrong means that another server answers under this name',
    ],
  },
  'no-common-scheme': {
    meaning: 'the hop offers no scheme that auth.schemes allows and the principal can serve',
    advice: [
      'compare what it offers with auth.schemes of the upstream; basic must be named there',
      'Negotiate takes Kerberos, or NTLM inside, which not every server has',
    ],
  },
  'mechanism-unavailable': {
    meaning: 'the mechanism is not available here',
    advice: [
      'for Kerberos: install the optional package kerberos',
      'channelBinding: required leaves NTLM alone, as Kerberos tokens carry no binding here',
    ],
  },
  'mechanism-failed': {
    meaning: 'the Kerberos library failed in a way that has no code',
    advice: ['see what the library said; check krb5.conf'],
  },
  'kdc-timeout': {
    meaning: 'a KDC accepts and does not answer',
    advice: ['check the KDC, and firewalls that drop port 88 (udp and tcp) without a word'],
  },
  'kdc-unreachable': {
    meaning: 'no KDC of the realm can be reached',
    advice: [
      'check [realms] in krb5.conf (kerberos.config, KRB5_CONFIG), DNS SRV records, and port 88',
      'check that the realm of the principal, and of the service by [domain_realm], is the right one',
    ],
  },
  'credential-missing': {
    meaning: 'there is no ticket for the principal',
    advice: [
      'run kinit for the cache that is configured (ccache, or KRB5CCNAME for ambient)',
      'or give the principal a keytab or a password',
    ],
  },
  'credential-expired': {
    meaning: 'the tickets or the password of the principal have expired',
    advice: ['run kinit again, or change the password', 'a keytab renews its tickets by itself'],
  },
  'clock-skew': {
    meaning: 'the clocks of this machine and of the KDC differ too much',
    advice: ['set the clock of this machine (NTP); Kerberos allows five minutes'],
  },
  'spn-unknown': {
    meaning: 'the KDC does not know the service name',
    advice: [
      'set auth.spn to the name that the service is registered under (setspn -Q HTTP/HOST)',
      'an alias (CNAME) or a port in the url is not followed: the SPN is HTTP/ and the host as written',
      'check by [domain_realm] that the right realm is asked',
    ],
  },
  'upstream-denied': {
    meaning: 'the login is good, and this user may not do this',
    advice: ['ask for the right at the server, or use another principal'],
  },
  'guard-open': {
    meaning: 'the lockout guard does not use this credential for now',
    advice: [
      'it was rejected repeatedly: put the right one in place, or wait for guard.probeAfter',
    ],
  },
  'proxy-auth-from-origin': {
    meaning: 'the origin answers as if it were a proxy',
    advice: ['if it is one, configure it as `proxy` and name it in via'],
  },
  'parent-auth': {
    meaning: 'the parent asks for a login that is not configured, or not offered',
    advice: [
      'give the parent auth with a principal, and schemes that it offers',
      'after a login that was made, it may refuse the credential without saying so',
    ],
  },
  'connect-refused-by-parent': {
    meaning: 'the parent let us in and refused the tunnel',
    advice: ['its rules decide which hosts and ports may be reached: ask who runs it'],
  },
  'response-timeout': {
    meaning: 'no answer came in time',
    advice: ['timeouts.response of the upstream sets the limit'],
  },
  'upstream-closed': {
    meaning: 'the connection was closed without an answer',
    advice: ['see the log of the server'],
  },
  'response-malformed': {
    meaning: 'the answer is no sound HTTP/1.1',
    advice: ['see whether the port speaks something else, such as TLS'],
  },
  'target-denied': {
    meaning: 'the listener does not let this target through',
    advice: ['see allow, direct and private of the listener; our own listeners are never reached'],
  },
  misdirected: {
    meaning: 'the host is none of this listener',
    advice: ['use a URL of the listener itself, or name the host in hosts'],
  },
  'no-route': {
    meaning: 'no route of the listener has this host and path',
    advice: ['see routes of the listener'],
  },
  'client-auth-required': {
    meaning: 'the listener wants credentials of its caller, which explain does not have',
    advice: ['leave --as away, and name a principal by --principal'],
  },
  'no-principal': {
    meaning: 'no rule of the listener maps this caller to a principal',
    advice: ['see principal of the listener'],
  },
  'target-malformed': {
    meaning: 'no such target can be asked for on this listener',
    advice: ['a forward listener takes http URLs, and https as a tunnel'],
  },
  'request-malformed': {
    meaning: 'the listener refuses a request like this',
    advice: ['dot segments and encoded slashes need dangerousRawPath on the route'],
  },
};

const REJECTED_BY_KDC: Advice = {
  meaning: 'the KDC refused the password or key of the principal',
  advice: [
    'put the right password or keytab in place (kinit with it shows the same)',
    'a name that differs in upper and lower case is another principal, with another salt',
  ],
};

const UNKNOWN: Advice = { meaning: 'something else went wrong', advice: [] };

/** What the server says of a ticket, by its error code. */
const TICKET_ERRORS: Readonly<Record<number, Advice>> = {
  [KERBEROS_ERROR.TICKET_NOT_YET_VALID]: skewed('the ticket begins in the future of the server'),
  [KERBEROS_ERROR.SKEW]: skewed('the clocks of the server and of this machine differ too much'),
  [KERBEROS_ERROR.TICKET_EXPIRED]: {
    meaning: 'the ticket has expired, by the clock of the server',
    advice: ['run kinit again, and compare the clocks of the server, the KDC and this machine'],
  },
  [KERBEROS_ERROR.WRONG_KEY]: wrongKey(),
  [KERBEROS_ERROR.MODIFIED]: wrongKey(),
  [KERBEROS_ERROR.KEY_VERSION]: wrongKey(),
  [KERBEROS_ERROR.NO_KEY]: wrongKey(),
  [KERBEROS_ERROR.NOT_FOR_US]: wrongKey(),
};

function skewed(meaning: string): Advice {
  const advice = [
    'set the clocks of the KDC, the server and this machine (NTP): five minutes count',
  ];
  return { meaning, advice };
}

function wrongKey(): Advice {
  return {
    meaning: 'the server has no key that opens the ticket',
    advice: [
      'its keytab is older than the key at the KDC, or the SPN stands at another account',
      'set auth.spn to the name that this server has the key of',
    ],
  };
}

/** What `code` means and what to do. */
export function adviceFor(code: ErrorCode, facts: AdviceFacts): Advice {
  const { likely, mechanism } = facts;
  if (code !== 'credential-rejected') {
    const { meaning, advice } = TABLE[likely ?? code] ?? UNKNOWN;
    const isBroken = code === 'handshake-failed' || code === 'challenge-malformed';
    const isInside = isBroken && mechanism === 'ntlm-in-negotiate';
    return { meaning, advice: isInside ? [...INSIDE_ONLY, ...advice] : advice };
  }
  if (facts.fromKdc) return REJECTED_BY_KDC;
  return mechanism === 'kerberos' ? ticketRejected(facts) : passwordRejected(facts);
}

/** A server that takes Kerberos alone offers Negotiate too. */
const INSIDE_ONLY = [
  'where Negotiate means Kerberos alone, NTLM inside of it is refused: give the principal `kerberos`, or put ntlm before negotiate in auth.schemes',
];

function passwordRejected({ overTls, binding }: AdviceFacts): Advice {
  const unbound = 'over TLS it may want a channel binding, and none was sent: see channelBinding';
  return {
    meaning: 'the server refused the user name or password',
    advice: [
      'wrong password, unknown user or domain, or the account is locked or expired',
      ...(overTls && binding === 'none' ? [unbound] : []),
    ],
  };
}

/** A ticket from the KDC, which a server cannot or will not take. */
function ticketRejected({ overTls, binding, clockOffset, kerberosError }: AdviceFacts): Advice {
  const told = kerberosError === null ? undefined : TICKET_ERRORS[kerberosError];
  if (told !== undefined) return told;
  if (Math.abs(clockOffset) > KERBEROS_SKEW_SECONDS)
    return skewed(`the clock of the server is ${clockOffset} s from that of this machine`);
  const unbound =
    'over TLS it may want a channel binding, which Kerberos tokens carry none of here';
  return {
    meaning: 'the KDC gave a ticket, and the server refused it without saying why',
    advice: [
      'the key of the service account may be another than the KDC has: see the log of the server',
      'the clocks of the server and the KDC may differ',
      ...(overTls && binding === 'none' ? [unbound] : []),
    ],
  };
}
