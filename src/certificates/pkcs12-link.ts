/**
 * Starts the thread that opens a store, and carries its messages. How many there are at a time, and
 * for how long, is decided in `pkcs12-opener.ts`.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Secret } from '../identity/secret.ts';
import type { Pkcs12Content } from './pkcs12.ts';
import { PKCS12_REASONS, type Pkcs12Fault } from './pkcs12-fault.ts';

/** A store as it was read; a `TlsIdentity` of the kind `pkcs12` is one. */
export interface StoreSource {
  readonly pkcs12: Secret<Buffer>;
  /** Absent and empty open the same stores. */
  readonly passphrase: Secret<string> | undefined;
}

/** What the thread gets. It never leaves the process. */
export interface OpeningRequest {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly passphrase: string | undefined;
}

/** A running thread, for one opening. */
export interface OpeningThread {
  /** At once, save for a single derivation of a key that is under way. `ended` is called after. */
  kill(): void;
}

/** Called in later turns of the event loop only, never while the thread is being started. */
export interface OpeningEvents {
  /** At most once. */
  answered(answer: Pkcs12Content | Pkcs12Fault): void;
  /** Once, and last. `reason` is the code or name of the error that ended it, never its text. */
  ended(reason: string | undefined): void;
}

/** Starts a thread; a stand-in of it serves the unit tests. Throws where the system has none. */
export type StartOpening = (source: StoreSource, events: OpeningEvents) => OpeningThread;

/** A store has a few certificates; a heap of this size is far more than they take. */
const HEAP_MB = 128;

/** Starts a real thread. It keeps the process alive, which waits for what is in the store. */
export function startOpening(source: StoreSource, events: OpeningEvents): OpeningThread {
  // A checkout runs the .ts files as they are, a package has .js files: as this file, so that one.
  const file = `pkcs12-worker${extname(import.meta.filename)}`;
  const worker = new Worker(new URL(file, import.meta.url), {
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  let reason: string | undefined;
  worker.once('message', (message: unknown) => {
    if (isAnswer(message)) events.answered(message);
  });
  // Always followed by `exit`.
  worker.once('error', (error) => {
    reason = reasonOf(error);
  });
  worker.once('exit', () => events.ended(reason));
  // A copy: a small buffer is a part of a larger one, and all of that would be sent.
  const bytes = new Uint8Array(source.pkcs12.reveal());
  const request: OpeningRequest = { bytes, passphrase: source.passphrase?.reveal() };
  worker.postMessage(request, [bytes.buffer]);
  return {
    kill: () => {
      void worker.terminate();
    },
  };
}

function isAnswer(message: unknown): message is Pkcs12Content | Pkcs12Fault {
  if (typeof message !== 'object' || message === null || !('kind' in message)) return false;
  if (message.kind === 'content') return 'key' in message && 'certificates' in message;
  if (message.kind !== 'fault' || !('reason' in message)) return false;
  return PKCS12_REASONS.some((reason) => reason === message.reason);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
