/**
 * The body of one answer on its way to the caller: how it is framed on both sides, and where it ends.
 *
 * Bytes leave from the buffer they came in, joined with the head before them into one write.
 * `close-delimited` answers become chunks for HTTP/1.1 callers, so that a cut one can be told from a
 * whole one on the caller's side; chunks are taken off for HTTP/1.0 callers.
 */
import type { Transport } from '../transport/transport.ts';
import { BODY_FAULT, type ByteSink, ChunkedScanner, NEED_MORE } from '../wire/chunked.ts';
import type { ResponseHead } from '../wire/response-head.ts';
import { latin1 } from './bytes.ts';

type Framing = 'none' | 'counted' | 'chunked' | 'until-close';

/** The body leaves as it came, without its chunks, or in chunks of ours. */
export type Reframing = 'same' | 'dechunk' | 'chunk';

/** More is to come; the message ended; its framing is broken. */
export type BodyProgress = 'more' | 'ended' | 'fault';

export class ResponseBody implements ByteSink {
  reframed: Reframing = 'same';
  /** No byte came behind the end of the message, and the message has an end of its own. */
  clean = true;
  /** The caller takes more. */
  flowing = true;
  readonly #caller: Transport;
  #source: Transport | undefined;
  #framing: Framing = 'none';
  #left = 0;
  #scanner: ChunkedScanner | undefined;
  /** The line of the chunk for the bytes at hand stands already. */
  #chunkOpen = false;
  /** What a chunk of ours starts with: the end of the one before. */
  #chunkStart = '';
  /** Adjacent runs, joined into one write. */
  #run: Buffer | undefined;
  #runStart = 0;
  #runEnd = 0;

  constructor(caller: Transport) {
    this.#caller = caller;
  }

  get endsWithConnection(): boolean {
    return this.#framing === 'until-close';
  }

  /** Takes the framing of a parsed head. `source` lends the buffers that `read` gets. */
  begin(
    head: ResponseHead,
    facts: {
      readonly bodiless: boolean;
      readonly callerMinor: 0 | 1;
      /** The caller takes trailers. */
      readonly trailers: boolean;
    },
    source: Transport | undefined,
  ): void {
    this.#source = source;
    this.#run = undefined;
    this.#left = 0;
    this.clean = true;
    this.reframed = 'same';
    if (facts.bodiless) {
      this.#framing = 'none';
      // An HTTP/1.0 caller must not see Transfer-Encoding even where no body follows (RFC 9112 6.1).
      if (head.chunked && facts.callerMinor === 0) this.reframed = 'dechunk';
    } else if (head.chunked) {
      this.#framing = 'chunked';
      this.#scanner ??= new ChunkedScanner();
      this.#scanner.reset();
      this.#scanner.keepsTrailers = facts.trailers;
      if (facts.callerMinor === 0) this.reframed = 'dechunk';
    } else if (head.contentLength >= 0) {
      this.#framing = 'counted';
      this.#left = head.contentLength;
    } else {
      this.#framing = 'until-close';
      this.clean = false;
      if (facts.callerMinor === 1) this.reframed = 'chunk';
    }
  }

  /** The head lies in the read buffer, right before the body. */
  headAt(buffer: Buffer, start: number, end: number): void {
    this.#run = buffer;
    this.#runStart = start;
    this.#runEnd = end;
  }

  /**
   * The head was written aside: `out[0, length)`, with room for a chunk line behind it. It is put in
   * front of the body `buffer[start, end)` where there is room, so that both leave in one write.
   */
  headAside(out: Buffer, headLength: number, buffer: Buffer, start: number, end: number): void {
    let length = headLength;
    this.#chunkStart = '';
    this.#chunkOpen = this.reframed === 'chunk' && start < end;
    if (this.#chunkOpen) length += out.write(`${(end - start).toString(16)}\r\n`, length, 'latin1');
    if (length <= start) {
      out.copy(buffer, start - length, 0, length);
      this.headAt(buffer, start - length, start);
    } else {
      this.#write(out.subarray(0, length));
    }
  }

  /** Takes what was read, and writes what of it is the caller's. */
  read(buffer: Buffer, start: number, end: number): BodyProgress {
    const progress = this.#take(buffer, start, end);
    if (progress === 'fault') this.#run = undefined;
    else this.#flush();
    return progress;
  }

  /** The connection ended a body that ends with it. */
  endWithConnection(): void {
    if (this.reframed === 'chunk') this.#write(latin1(`${this.#chunkStart}0\r\n\r\n`));
  }

  /** A run of bytes for the caller; runs that touch are joined. */
  put(buffer: Buffer, start: number, end: number): void {
    if (buffer === this.#run && start === this.#runEnd) {
      this.#runEnd = end;
      return;
    }
    this.#flush();
    this.headAt(buffer, start, end);
  }

  #take(buffer: Buffer, start: number, end: number): BodyProgress {
    switch (this.#framing) {
      case 'none':
        if (start < end) this.clean = false;
        return 'ended';
      case 'counted': {
        const length = Math.min(this.#left, end - start);
        this.#left -= length;
        if (length > 0) this.put(buffer, start, start + length);
        // Bytes behind the answer: it is delivered, the connection is not used again (E4).
        if (start + length < end) this.clean = false;
        return this.#left === 0 ? 'ended' : 'more';
      }
      case 'chunked':
        return this.#takeChunks(buffer, start, end);
      case 'until-close':
        if (start < end) this.#takeUntilClose(buffer, start, end);
        return 'more';
      default:
        return this.#framing satisfies never;
    }
  }

  #takeChunks(buffer: Buffer, start: number, end: number): BodyProgress {
    const next = this.#scanner?.scan(buffer, start, end, this, this.reframed === 'same');
    if (next === undefined || next === BODY_FAULT) return 'fault';
    if (next === NEED_MORE) return 'more';
    if (next < end) this.clean = false;
    return 'ended';
  }

  // What was read becomes one chunk. Its line, with the CRLF that ends the chunk before, goes into
  // the room in front of the bytes.
  #takeUntilClose(buffer: Buffer, start: number, end: number): void {
    if (this.reframed !== 'chunk' || this.#chunkOpen) {
      this.put(buffer, start, end);
    } else {
      const line = `${this.#chunkStart}${(end - start).toString(16)}\r\n`;
      const lineStart = start - line.length;
      if (lineStart < 0) {
        this.#write(latin1(line));
        this.put(buffer, start, end);
      } else {
        buffer.write(line, lineStart, 'latin1');
        this.put(buffer, lineStart, end);
      }
    }
    this.#chunkOpen = false;
    this.#chunkStart = '\r\n';
  }

  #flush(): void {
    const run = this.#run;
    if (run === undefined) return;
    this.#run = undefined;
    const bytes = run.subarray(this.#runStart, this.#runEnd);
    this.flowing = this.#caller.write(bytes, this.#source) && this.flowing;
  }

  #write(bytes: Buffer): void {
    this.#flush();
    this.flowing = this.#caller.write(bytes, undefined) && this.flowing;
  }
}
