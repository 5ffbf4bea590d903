/**
 * Tells HTTP/2 with prior knowledge from HTTP/1.1 by the first bytes of a connection (RFC 9113 3.4).
 */
import type { Socket } from 'node:net';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

export interface PrefaceFacts {
  readonly deadlines: DeadlineWheel;
  /** How long the first bytes may take. */
  readonly headMs: number;
  /** The caller speaks `version`; `first` was read from the socket, which nobody reads now. */
  readonly told: (version: 'http1' | 'http2', first: Buffer) => void;
  /** The connection ended before that. */
  readonly gone: () => void;
}

/** A connection whose version is not known yet. */
export class PrefaceReader {
  readonly #socket: Socket;
  readonly #facts: PrefaceFacts;
  readonly #deadline = new Deadline(() => this.destroy());
  #first: Buffer = Buffer.alloc(0);
  readonly #read = (): void => this.#readable();
  readonly #ended = (): void => this.destroy();
  readonly #closed = (): void => this.#gone();

  constructor(socket: Socket, facts: PrefaceFacts) {
    this.#socket = socket;
    this.#facts = facts;
    socket.on('readable', this.#read);
    socket.on('end', this.#ended);
    socket.on('error', ignore);
    socket.on('close', this.#closed);
    facts.deadlines.arm(this.#deadline, facts.headMs);
  }

  /** Nothing was asked yet. */
  drain(): void {
    this.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #readable(): void {
    const bytes: Buffer | null = this.#socket.read() as Buffer | null;
    if (bytes === null) return;
    this.#first = Buffer.concat([this.#first, bytes]);
    const length = Math.min(this.#first.length, PREFACE.length);
    if (this.#first.compare(PREFACE, 0, length, 0, length) !== 0) this.#tell('http1');
    else if (length === PREFACE.length) this.#tell('http2');
  }

  // In another turn: only then has the stream forgotten how it was read, and can be read otherwise.
  #tell(version: 'http1' | 'http2'): void {
    this.#stopReading();
    process.nextTick(() => {
      if (this.#socket.destroyed) return;
      this.#socket.off('close', this.#closed);
      this.#socket.off('error', ignore);
      this.#facts.told(version, this.#first);
    });
  }

  #gone(): void {
    this.#stopReading();
    this.#facts.gone();
  }

  #stopReading(): void {
    this.#facts.deadlines.disarm(this.#deadline);
    this.#socket.off('readable', this.#read);
    this.#socket.off('end', this.#ended);
  }
}

const ignore = (): void => undefined;
