/**
 * What `explain` found out, as plain data: the JSON that it prints. No token and no password has a place
 * in it, only schemes and lengths.
 */
import type { ErrorCode } from '../errors.ts';
import type { HopName } from '../upstream/login-state.ts';

/** Where the request goes next, before anything is dialled. */
export interface WayStep {
  readonly kind: 'way';
  /** Whose limits and settings; `direct` where none of the configuration's. */
  readonly upstream: string;
  /** `scheme://authority` of the origin. */
  readonly origin: string;
  /** As whom at the origin; null: as nobody. */
  readonly principal: string | null;
  readonly parent: ParentFacts | null;
}

export interface ParentFacts {
  readonly upstream: string;
  readonly url: string;
  /** Requests in absolute-form, or a tunnel by CONNECT. */
  readonly form: 'absolute' | 'tunnel';
  readonly principal: string | null;
}

export interface ConnectedStep {
  readonly kind: 'connected';
  readonly hop: HopName;
  readonly upstream: string;
  /** Address and port that were dialled; null inside a tunnel. */
  readonly address: string | null;
  readonly tls: TlsFacts | null;
}

export interface TlsFacts {
  readonly protocol: string;
  readonly cipher: string;
  readonly servername: string | null;
  /** Of the peer's certificate. */
  readonly subject: string | null;
  readonly issuer: string | null;
  readonly validTo: string | null;
  /** The connection has a binding of the kind tls-server-end-point (RFC 5929). */
  readonly bindable: boolean;
}

/** A mechanism was chosen for a login. */
export interface LoginStep {
  readonly kind: 'login';
  readonly hop: HopName;
  readonly upstream: string;
  readonly principal: string;
  readonly mechanism: string;
  /** null where the mechanism has none. */
  readonly spn: string | null;
  readonly channelBinding: 'none' | 'sent';
  readonly channelBindingRequired: boolean;
}

/** A mechanism that failed before anything of it was sent. */
export interface MechanismStep {
  readonly kind: 'mechanism-failed';
  readonly mechanism: string;
  readonly code: ErrorCode;
  readonly message: string;
  /** What the Kerberos library said. */
  readonly native: string | null;
}

export interface RequestStep {
  readonly kind: 'request';
  readonly hop: HopName;
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** `bytes`: of the token; null where its length is a secret too. */
  readonly credentials: readonly {
    readonly field: string;
    readonly scheme: string;
    readonly bytes: number | null;
  }[];
  /** null: there was no answer. */
  readonly status: number | null;
  /** Schemes of the challenges in order; `bytes`: of the token that came with it. */
  readonly offers: readonly { readonly scheme: string; readonly bytes: number | null }[];
  readonly persistentAuth: string | null;
  /** Why the server refuses a Kerberos token (RFC 4120 7.5.9); null where it does not say. */
  readonly kerberosError: number | null;
  /** Seconds that the server's clock is ahead of ours; null without a Date. */
  readonly clockOffset: number | null;
}

export type Step = WayStep | ConnectedStep | LoginStep | MechanismStep | RequestStep;

export interface ReportedError {
  readonly code: ErrorCode;
  /** What is behind a credential that was refused, where that is known. */
  readonly likely: ErrorCode | null;
  readonly hop: HopName | null;
  readonly stage: string;
  readonly message: string;
  /** What the system or a library said. */
  readonly native: string | null;
  /** What the code means, in one line. */
  readonly meaning: string;
  /** What to do, most likely first. */
  readonly advice: readonly string[];
}

export interface Report {
  readonly url: string;
  /** How the way was found, and what else is to be known. */
  readonly notes: readonly string[];
  readonly steps: readonly Step[];
  /** Of the last answer; null when there was none to the request itself. */
  readonly status: number | null;
  readonly error: ReportedError | null;
  /** The status is below 400 and every login was accepted. */
  readonly ok: boolean;
}
