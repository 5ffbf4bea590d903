/**
 * Runs kinit for password principals. The password goes through standard input only: arguments and
 * environments can be read by others. One process for each attempt, so a silent KDC blocks nobody.
 */
import { spawn } from 'node:child_process';
import { Deadline, type DeadlineWheel } from '../../deadlines.ts';
import type { Secret } from '../../identity/secret.ts';
import { kerberosError, nativeError } from './native-errors.ts';

export interface KinitOrder {
  /** `user@REALM`. */
  readonly principal: string;
  readonly password: Secret<string>;
  /** Cache file that is made. */
  readonly file: string;
  /** Aborted when the daemon closes. */
  readonly signal: AbortSignal;
}

/** Makes a cache with a ticket-granting ticket, or rejects with a code of `native-errors.ts`. */
export type Kinit = (order: KinitOrder) => Promise<void>;

/** Longest text of kinit that is looked at. */
const MAX_TEXT = 4096;

/** Runs the kinit of the machine with nothing but `environment`. */
export function kinitRunner(
  environment: Readonly<Record<string, string>>,
  limits: { deadlines: DeadlineWheel; deadlineMs: number },
): Kinit {
  return ({ principal, password, file, signal }) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const child = spawn('kinit', ['-c', `FILE:${file}`, '--', principal], {
      env: { ...environment, LC_ALL: 'C' },
      stdio: ['pipe', 'ignore', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    });
    let text = '';
    let isLate = false;
    const deadline = new Deadline(() => {
      isLate = true;
      child.kill('SIGKILL');
    });
    limits.deadlines.arm(deadline, limits.deadlineMs);
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      if (text.length < MAX_TEXT) text += chunk;
    });
    child.once('error', (error) => {
      limits.deadlines.disarm(deadline);
      reject(
        signal.aborted
          ? kerberosError('shutting-down', 'the Kerberos provider is closed')
          : kerberosError('mechanism-unavailable', 'kinit cannot be started', error),
      );
    });
    child.once('close', (status) => {
      limits.deadlines.disarm(deadline);
      if (isLate) reject(kerberosError('kdc-timeout', 'the KDC of the realm does not answer'));
      else if (status === 0) resolve();
      else reject(nativeError(text.trim()));
    });
    // A kinit that ended early does not read its input; its status tells why.
    child.stdin.on('error', () => undefined);
    child.stdin.end(`${password.reveal()}\n`);
    return promise;
  };
}
