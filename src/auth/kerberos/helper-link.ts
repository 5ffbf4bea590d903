/**
 * Starts a helper process and carries its messages. Which calls it gets and when it is replaced is
 * decided in `lane.ts`.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { FromHelper, ToHelper } from './messages.ts';

/** Threads of a helper. Each waits as long as the library does for a silent KDC: 25 s and more. */
export const HELPER_THREADS = 32;

/** One running helper. After `ended` was called, nothing is sent any more. */
export interface HelperLink {
  send(message: ToHelper): void;
  /** At once, whatever its threads do. `ended` is called afterwards. */
  kill(): void;
}

export interface HelperEvents {
  message(message: FromHelper): void;
  /** Once. */
  ended(): void;
}

/** Starts a helper; a stand-in of it serves the unit tests. */
export type StartHelper = (events: HelperEvents) => HelperLink;

/** Whether the package is installed at all; its native parts show when a helper loads it. */
export function isPackagePresent(): boolean {
  try {
    import.meta.resolve('kerberos');
    return true;
  } catch {
    // The only answer to a package that is not there.
    return false;
  }
}

/** What a helper process sees of the outside; nothing is inherited. */
export interface HelperPlace {
  readonly environment: Readonly<Record<string, string>>;
  /** Removed by the helper when the daemon dies without having removed it. */
  readonly folder: string | undefined;
}

/** Starts real processes. They end with the daemon, however it ends. */
export function helperStarter({ environment, folder }: HelperPlace): StartHelper {
  const program = fileURLToPath(new URL('helper.ts', import.meta.url));
  return (events) => {
    const child = fork(program, folder === undefined ? [] : [folder], {
      env: { ...environment, UV_THREADPOOL_SIZE: String(HELPER_THREADS) },
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      events.ended();
    };
    child.on('message', (received) => events.message(received as FromHelper));
    child.once('exit', end);
    // Without `exit` when the process could not be started at all.
    child.once('error', end);
    return {
      send: (outgoing) => {
        // A channel that just broke is reported by `exit`.
        if (child.connected) child.send(outgoing, () => undefined);
      },
      kill: () => {
        child.kill('SIGKILL');
      },
    };
  };
}
