/**
 * Opens PKCS#12 stores off the event loop: a thread for each opening, two at a time, each with a
 * deadline. What was opened before is known to `opened-stores.ts`.
 */
import { Secret } from '../identity/secret.ts';
import type { Pkcs12Content } from './pkcs12.ts';
import { type Pkcs12Fault, pkcs12Fault } from './pkcs12-fault.ts';
import {
  type OpeningThread,
  type StartOpening,
  startOpening,
  type StoreSource,
} from './pkcs12-link.ts';

/** The key of a store, and the chain that leads from its certificate. */
export interface OpenedStore {
  readonly kind: 'opened';
  /** PKCS#8, PEM, not encrypted. */
  readonly key: Secret<string>;
  /** PEM: the key's own first, then the issuer of each, as far as they are in the store. */
  readonly certificates: readonly string[];
}

export interface OpenerSettings {
  readonly start?: StartOpening;
  /** For one opening, from the start of its thread. Default: 30 seconds. */
  readonly deadlineMs?: number;
}

/** Each takes a core for its whole time. */
const MAX_THREADS = 2;
const DEADLINE_MS = 30_000;

interface Opening {
  readonly source: StoreSource;
  /** The first answer counts. */
  readonly settle: (answer: OpenedStore | Pkcs12Fault) => void;
}

export class Pkcs12Opener {
  readonly #start: StartOpening;
  readonly #deadlineMs: number;
  readonly #waiting: Opening[] = [];
  /** Undefined in the moment of its start. A thread that has answered is still in here. */
  readonly #running = new Map<Opening, OpeningThread | undefined>();
  #isClosed = false;

  constructor(settings: OpenerSettings = {}) {
    this.#start = settings.start ?? startOpening;
    this.#deadlineMs = settings.deadlineMs ?? DEADLINE_MS;
  }

  /** What is in the store, or why that is not known; never rejects. Stores wait in their order. */
  open(source: StoreSource): Promise<OpenedStore | Pkcs12Fault> {
    if (this.#isClosed) return Promise.resolve(CLOSED);
    return new Promise((settle) => {
      this.#waiting.push({ source, settle });
      this.#serve();
    });
  }

  /** Ends the threads; whoever waits gets `not-opened`. */
  close(): void {
    this.#isClosed = true;
    for (const opening of this.#waiting.splice(0)) opening.settle(CLOSED);
    for (const [opening, thread] of this.#running) {
      opening.settle(CLOSED);
      thread?.kill();
    }
  }

  #serve(): void {
    while (this.#running.size < MAX_THREADS) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#run(next);
    }
  }

  #run(opening: Opening): void {
    this.#running.set(opening, undefined);
    const deadline = setTimeout(() => {
      opening.settle(notOpened(`was not opened within ${this.#deadlineMs / 1000} seconds`));
      this.#running.get(opening)?.kill();
    }, this.#deadlineMs);
    // The place is free when the thread has gone, not before: killing one may take a while.
    const ended = (reason: string | undefined): void => {
      clearTimeout(deadline);
      this.#running.delete(opening);
      const why = reason === undefined ? '' : ` (${reason})`;
      opening.settle(notOpened(`was not opened: the thread for it ended${why}`));
      this.#serve();
    };
    try {
      const answered = (answer: Pkcs12Content | Pkcs12Fault): void => {
        opening.settle(opened(answer));
        this.#running.get(opening)?.kill();
      };
      this.#running.set(opening, this.#start(opening.source, { answered, ended }));
    } catch (error) {
      // The system has no thread to give.
      ended(error instanceof Error ? error.name : undefined);
    }
  }
}

function opened(answer: Pkcs12Content | Pkcs12Fault): OpenedStore | Pkcs12Fault {
  if (answer.kind === 'fault') return answer;
  return { kind: 'opened', key: new Secret(answer.key), certificates: answer.certificates };
}

const notOpened = (message: string): Pkcs12Fault => pkcs12Fault('not-opened', message);

const CLOSED = notOpened('was not opened: the process is ending');
