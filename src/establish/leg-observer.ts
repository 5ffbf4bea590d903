/**
 * Who looks on while a connection is opened and logged in, leg by leg. The daemon has nobody there;
 * `explain` has. Nothing here decides anything, and no token or password is ever told: only which
 * scheme carried how many bytes.
 */
import type { Mechanism } from '../auth/scheme-choice.ts';
import type { Challenge } from '../http/challenge.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { HopName } from '../upstream/login-state.ts';
import type { UpstreamTarget } from '../upstream/target.ts';

/** Credentials that a request carries. */
export interface SentCredentials {
  readonly field: 'Authorization' | 'Proxy-Authorization';
  readonly scheme: string;
  /** Of the token; undefined for a scheme that carries the password itself, whose length is a secret too. */
  readonly bytes: number | undefined;
}

/** A request that is about to be written. */
export interface SentLeg {
  /** Whose login it is a leg of, or who is asked. */
  readonly hop: HopName;
  readonly method: string;
  readonly target: string;
  readonly host: string;
  readonly credentials: readonly SentCredentials[];
}

/** What it was answered with. */
export interface AnsweredLeg {
  readonly status: number;
  /** Of Proxy-Authenticate with 407, else of WWW-Authenticate. */
  readonly challenges: readonly Challenge[];
  /** Values of Persistent-Auth. */
  readonly persistentAuth: readonly string[];
  /** Value of Date. */
  readonly date: string | undefined;
}

/** How a login is to be made. */
export interface ChosenLogin {
  readonly hop: HopName;
  readonly upstream: string;
  readonly principal: string;
  readonly mechanism: Mechanism;
  readonly spn: string;
  readonly binding: 'none' | 'sent';
  readonly bindingRequired: boolean;
}

export interface LegObserver {
  /** A connection to `target` is there, or TLS to it inside a tunnel. */
  connected(target: UpstreamTarget, connection: UpstreamConnection): void;
  /** Before anything of it is tried. */
  chose(login: ChosenLogin): void;
  /** The mechanism failed before a token went out; another one may follow. */
  failedHere(mechanism: Mechanism, error: unknown): void;
  sent(leg: SentLeg): void;
  answered(leg: AnsweredLeg): void;
}

/** What the fields of a request say, without the secrets in them. `fields`: whole lines. */
export function sentCredentials(fields: string): SentCredentials[] {
  const lines = fields.matchAll(/^((?:Proxy-)?Authorization): (\S+) ?(\S*)\r$/gm);
  return Array.from(lines, ([, field, scheme = '', token = '']) => ({
    field: field === 'Authorization' ? field : 'Proxy-Authorization',
    scheme,
    bytes: /^basic$/i.test(scheme) ? undefined : Buffer.from(token, 'base64').length,
  }));
}
