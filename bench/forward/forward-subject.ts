/** What every forward proxy of the benchmarks is to the run, and the ways it may lead. */

import type { Child } from '../child.ts';

/** Where requests go from the proxy. */
export type ForwardWay =
  /** Straight to targets on 127.0.0.1. */
  | { readonly kind: 'direct' }
  /** One TCP port, for who is no HTTP proxy. */
  | { readonly kind: 'port'; readonly port: number }
  /** Through a parent that asks for a login, as the account of the lab. */
  | {
      readonly kind: 'parent';
      readonly port: number;
      readonly scheme: 'ntlm' | 'negotiate';
      readonly account: LabAccount;
    }
  /** Straight to an origin that asks for NTLM. */
  | {
      readonly kind: 'origin';
      readonly port: number;
      readonly domain: string;
      readonly user: string;
      readonly password: string;
    };

/** Who logs in at the lab's parents. */
export interface LabAccount {
  readonly user: string;
  readonly domain: string;
  readonly password: string;
  readonly realm: string;
  readonly keytab: string;
  readonly krb5Config: string;
}

export interface ForwardContext {
  /** Free port on 127.0.0.1 that it listens on. */
  readonly port: number;
  readonly way: ForwardWay;
  /** Exists, is the subject's own, and is readable by everybody on the machine. */
  readonly folder: string;
  /** Core that it must stay on; undefined: any. */
  readonly core: number | undefined;
}

export interface ForwardSubject {
  /** Program looked for, and the Debian package that brings it; undefined: it comes with npm. */
  readonly requires: { readonly program: string; readonly debianPackage: string } | undefined;
  /** Resolves with the process once it was started; it may not be listening yet. */
  start(context: ForwardContext): Promise<Child>;
}
