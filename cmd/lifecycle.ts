/**
 * The life of the daemon's process: start, signals, exit code. Knows nothing of what it runs.
 *
 * SIGHUP reloads, once more for each that comes; what became of it is the daemon's to tell.
 * The first SIGTERM or SIGINT drains; a second one of either ends the process at once with 128 and
 * its number. A signal that comes during the start is kept until the start is over.
 */

import type { Log } from '../src/log/log.ts';
import { EXIT } from './command.ts';

export interface Drainable {
  /** Never rejects. */
  reload(cause: 'signal'): Promise<unknown>;
  /** Ends when nothing is in flight any more, or the grace is over. */
  drain(): Promise<void>;
  close(): Promise<void>;
}

export type StopSignal = 'SIGINT' | 'SIGTERM';

export interface Lifecycle {
  readonly log: Log;
  readonly start: () => Promise<Drainable>;
  readonly on: (signal: StopSignal | 'SIGHUP', listener: () => void) => void;
  /** Ends the process now. */
  readonly exit: (code: number) => void;
}

const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const satisfies Record<StopSignal, number>;

/** Runs until a signal has drained it. Resolves with the exit code. */
export async function live({ log, start, on, exit }: Lifecycle): Promise<number> {
  const stop = Promise.withResolvers<StopSignal>();
  let isStopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    on(signal, () => {
      if (isStopping) {
        log.warn({ signal }, 'a second signal: ending at once');
        exit(128 + NUMBERS[signal]);
        return;
      }
      isStopping = true;
      stop.resolve(signal);
    });
  }
  const hangUps = { waiting: false, reload: undefined as (() => void) | undefined };
  on('SIGHUP', () => {
    if (hangUps.reload === undefined) hangUps.waiting = true;
    else hangUps.reload();
  });
  let app: Drainable;
  try {
    app = await start();
  } catch (error) {
    log.error(
      { reason: error instanceof Error ? error.message : String(error) },
      'the start failed',
    );
    return isListenError(error) ? EXIT.unavailable : EXIT.internal;
  }
  hangUps.reload = () => void app.reload('signal');
  if (hangUps.waiting) hangUps.reload();
  const signal = await stop.promise;
  log.info({ signal }, 'draining');
  await app.drain();
  await app.close();
  log.info({}, 'stopped');
  return EXIT.ok;
}

/** True where a port or socket could not be had. */
function isListenError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  if ('syscall' in error && /^(?:listen|bind|unlink|chmod|connect)$/.test(String(error.syscall)))
    return true;
  return 'cause' in error && isListenError(error.cause);
}
