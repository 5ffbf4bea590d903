/**
 * An upstream as the code uses it: where it is, how it is dialled, and what was learned about it.
 *
 * Made once per configuration; the learned part is the only one that changes.
 */
import type { TlsProfile } from './tls-profile.ts';

/** An address that a name was resolved to. */
export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export interface UpstreamTarget {
  readonly name: string;
  readonly scheme: 'http' | 'https';
  /** Name or IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  /** As in Host: brackets for IPv6, the port only where it is not the default. */
  readonly authority: string;
  /** '' or a path that starts with a slash and ends without one. */
  readonly basePath: string;
  readonly tls: TlsProfile | undefined;
  readonly connectMs: number;
  /**
   * The only lookup of a dial, and the check of what it found: only these addresses are dialled, in
   * this order (hostile row D14). Undefined: the system looks the host up, and any address will do.
   * Rejects with `connect-failed` or `target-denied`.
   */
  readonly resolve?: (host: string) => Promise<readonly ResolvedAddress[]>;
  /** `later`: whoever takes the connection lets the kernel probe the peer once it is silent. */
  readonly probed?: 'later';
  readonly login: LoginSettings | undefined;
  /** Of a parent: until it has answered a CONNECT, as it dials the origin meanwhile. */
  readonly answerMs: number;
  readonly learned: Learned;
}

/** As a CONNECT asks for it: always with the port. */
export function connectAuthority({ host, port }: UpstreamTarget): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** How the daemon logs in to this upstream, whoever the principal is. */
export interface LoginSettings {
  /** `HTTP/host`, from the configuration, never from a caller's Host (R27). */
  readonly spn: string;
  readonly channelBinding: 'auto' | 'required' | 'off';
  /** Order of preference, and all that is allowed. */
  readonly schemes: readonly ('negotiate' | 'ntlm' | 'basic' | 'digest')[];
  readonly mutual: 'off' | 'optional' | 'required';
  /** How long a login lasts; `auto`: as the peer says (R37). */
  readonly persistence: 'auto' | 'connection' | 'request';
  readonly probe: 'head' | 'same';
  /** For all legs that carry no body, together. */
  readonly handshakeMs: number;
}

/** Facts of the hop that outlive a connection; none of them decides who a request is. */
export interface Learned {
  /** Whether the hop asks for a login at all; `yes` stays. */
  challenges: 'unknown' | 'yes' | 'no';
  /** Schemes that it offered last, lower case. */
  offered: ReadonlySet<string> | undefined;
  /** It refused a token that came before it had asked on that connection (R39). */
  asksFirst: boolean;
  /** How long a Kerberos login without a word about it lasts here; undefined: not tried. */
  persistence: 'connection' | 'request' | undefined;
  /** The hop does not answer `Expect: 100-continue`. */
  ignoresExpect: boolean;
}

export const nothingLearned = (): Learned => ({
  challenges: 'unknown',
  offered: undefined,
  asksFirst: false,
  persistence: undefined,
  ignoresExpect: false,
});
