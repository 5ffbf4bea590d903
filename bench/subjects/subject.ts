/** What every subject of the benchmarks is to the run. */

import type { Child } from '../child.ts';
import type { SubjectName } from '../subject-names.ts';

/** What a subject is started with. */
export interface SubjectContext {
  /** Free port on 127.0.0.1 that it listens on. */
  readonly port: number;
  /** Another free port, for those that need two. */
  readonly secondPort: number;
  /** Origin without a login on 127.0.0.1. */
  readonly openOriginPort: number;
  /** Origin that asks every connection for NTLM. */
  readonly ntlmOriginPort: number;
  /** File with the password of `BENCH_USER` there. */
  readonly passwordFile: string;
  /** Exists, is the subject's own, and is readable by everybody on the machine. */
  readonly folder: string;
  /** Core that it must stay on; undefined: any. */
  readonly core: number | undefined;
}

export interface Subject {
  readonly name: SubjectName;
  /** Program looked for, and the Debian package that brings it; undefined: it comes with npm. */
  readonly requires: { readonly program: string; readonly debianPackage: string } | undefined;
  /** Resolves with the process once it was started; it may not be listening yet. */
  start(context: SubjectContext): Promise<Child>;
}

/** Account at the origin that asks for a login. */
export const BENCH_USER = 'DEMO\\bench';

/** More than the connections of any case, everywhere the same. */
export const POOL_SIZE = 512;
