/**
 * Starts the thread that checks passwords, and carries its messages. What it gets and when it is
 * started again is decided in `password-checks.ts`.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { PasswordHash } from '../../identity/hash-form.ts';
import type { Secret } from '../../identity/secret.ts';

/** What the thread gets. It never leaves the process. */
export interface HashRequest {
  readonly id: number;
  readonly password: string;
  readonly hash: string;
}

/** What it says. */
export interface HashAnswer {
  readonly id: number;
  readonly isRight: boolean;
}

/** A running thread. After `ended` was called, nothing is sent any more. */
export interface HashWorker {
  send(id: number, password: Secret<string>, hash: PasswordHash): void;
  /** At once, in the middle of a check if need be. `ended` is called afterwards. */
  kill(): void;
}

/** Called in later turns of the event loop only, never while the thread is being started. */
export interface HashWorkerEvents {
  answered(answer: HashAnswer): void;
  /** Once. `reason` is the code or name of the error that ended it, never its text. */
  ended(reason: string | undefined): void;
}

/** Starts a thread; a stand-in of it serves the unit tests. */
export type StartHashWorker = (events: HashWorkerEvents) => HashWorker;

/** Starts a real thread, which does not keep the process alive. */
export function startHashWorker(events: HashWorkerEvents): HashWorker {
  // A checkout runs the .ts files as they are, a package has .js files: as this file, so that one.
  const file = `hash-worker${extname(import.meta.filename)}`;
  const worker = new Worker(new URL(file, import.meta.url), { env: {}, execArgv: [] });
  let reason: string | undefined;
  worker.on('message', (message: unknown) => {
    if (isAnswer(message)) events.answered(message);
  });
  // Always followed by `exit`.
  worker.once('error', (error) => {
    reason = reasonOf(error);
  });
  worker.once('exit', () => events.ended(reason));
  // Behind the listeners: the one for messages would undo it.
  worker.unref();
  return {
    send: (id, password, hash) => {
      const request: HashRequest = { id, password: password.reveal(), hash: hash.reveal() };
      worker.postMessage(request, []);
    },
    kill: () => {
      void worker.terminate();
    },
  };
}

function isAnswer(message: unknown): message is HashAnswer {
  if (typeof message !== 'object' || message === null) return false;
  if (!('id' in message) || !('isRight' in message)) return false;
  return typeof message.id === 'number' && typeof message.isRight === 'boolean';
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
