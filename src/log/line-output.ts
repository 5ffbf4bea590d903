/**
 * Writes lines to a file descriptor without blocking the event loop and without growing.
 *
 * Decides what happens when the reader is slow (lines wait, up to a bound), stopped (lines are
 * dropped and counted) or gone (the output is dead). Node's own standard output blocks on pipes;
 * sonic-boom 4.2.1, which pino brings, never leaves its last flush when the pipe is broken.
 */
import { write, writeSync } from 'node:fs';
import type { LineSink } from './access-log.ts';

export interface LineOutput extends LineSink {
  write(lines: string): void;
  /** Calls that were given up because too much was waiting or the reader was gone. */
  readonly dropped: number;
  /** Waits until all is written, the output is dead, or `graceMs` passed. */
  drain(graceMs: number): Promise<void>;
  /** Writes what waits, blocking, and gives up at the first refusal: for `process.exit` paths. */
  flushNow(): void;
}

export interface LineOutputSettings {
  readonly fd: number;
  /** Characters that may wait in memory (I12). */
  readonly maxWaiting: number;
}

/** An output over `fd`, which stays open. */
export function createLineOutput(settings: LineOutputSettings): LineOutput {
  return new FdOutput(settings);
}

// A full pipe gives EAGAIN when it was set non-blocking; there is no readiness event for a plain fd.
const FULL_PIPE_PAUSE_MS = 20;

class FdOutput implements LineOutput {
  dropped = 0;
  readonly #settings: LineOutputSettings;
  #waiting: string[] = [];
  #waitingLength = 0;
  #writing = false;
  #dead = false;
  #onEmpty: (() => void)[] = [];

  constructor(settings: LineOutputSettings) {
    this.#settings = settings;
  }

  write(lines: string): void {
    if (this.#dead || this.#waitingLength + lines.length > this.#settings.maxWaiting) {
      this.dropped += 1;
      return;
    }
    this.#waiting.push(lines);
    this.#waitingLength += lines.length;
    if (!this.#writing) this.#next();
  }

  drain(graceMs: number): Promise<void> {
    if (!this.#writing) return Promise.resolve();
    return new Promise((resolve) => {
      const deadline = setTimeout(resolve, graceMs);
      this.#onEmpty.push(() => {
        clearTimeout(deadline);
        resolve();
      });
    });
  }

  flushNow(): void {
    let rest = this.#take();
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(this.#settings.fd, rest));
    } catch {
      // The reader is slow or gone, and the process is about to end: waiting would only delay that.
      this.dropped += 1;
    }
  }

  #take(): Buffer {
    const chunk = Buffer.from(this.#waiting.join(''));
    this.#waiting = [];
    this.#waitingLength = 0;
    return chunk;
  }

  #next(): void {
    if (this.#waiting.length === 0) {
      this.#end();
      return;
    }
    this.#writing = true;
    this.#put(this.#take());
  }

  #put(chunk: Buffer): void {
    write(this.#settings.fd, chunk, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#put(chunk), FULL_PIPE_PAUSE_MS);
      } else if (error) {
        this.#dead = true;
        this.dropped += 1 + this.#waiting.length;
        this.#take();
        this.#end();
      } else if (written < chunk.length) {
        this.#put(chunk.subarray(written));
      } else {
        this.#next();
      }
    });
  }

  #end(): void {
    this.#writing = false;
    const callbacks = this.#onEmpty;
    this.#onEmpty = [];
    for (const callback of callbacks) callback();
  }
}
