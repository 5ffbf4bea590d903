/**
 * The daemon's own challenge to a caller who has to say who he is (RFC 9110 11.6.1, 11.7.1; RFC 7617).
 * An upstream's challenges never go this way.
 */

/** What an answer needs to ask for credentials. */
export interface OwnChallenge {
  /** 401 from an origin's place, 407 from a proxy's. */
  readonly status: 401 | 407;
  /** The whole field line without its end. */
  readonly line: string;
}

/** `realm` is printable ASCII without quotes and backslashes. */
export function basicChallenge(status: 401 | 407, realm: string): OwnChallenge {
  const field = status === 401 ? 'WWW-Authenticate' : 'Proxy-Authenticate';
  return Object.freeze({ status, line: `${field}: Basic realm="${realm}", charset="UTF-8"` });
}
