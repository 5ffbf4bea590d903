/**
 * The body of one request on its way upstream: how it is framed, what of it is kept for a second
 * try, and how many bytes are still to come.
 *
 * Bytes pass through; a copy is kept only while the exchange may have to send them again, and never
 * more than the limit (hostile row G9).
 */
import type { BufferStore } from '../transport/buffer-store.ts';
import { BODY_FAULT, type ByteSink, ChunkedScanner } from '../wire/chunked.ts';
import type { RequestHead } from '../wire/request-head.ts';

export class RequestBody implements ByteSink {
  /** All of the body was taken. */
  done = true;
  /** Everything taken so far is kept, or nothing was taken. */
  whole = true;
  #framing: 'none' | 'counted' | 'chunked' = 'none';
  #left = 0;
  #scanner: ChunkedScanner | undefined;
  #keepUpTo = 0;
  #kept: Buffer | undefined;
  #keptLength = 0;
  #sink: ByteSink | undefined;
  readonly #buffers: BufferStore;

  /** `buffers` are for the copies. */
  constructor(buffers: BufferStore) {
    this.#buffers = buffers;
  }

  /** Takes the framing of a parsed head. `keepUpTo`: bytes that may be kept for a second try. */
  begin(head: RequestHead, keepUpTo: number): void {
    this.end();
    this.#keepUpTo = keepUpTo;
    this.whole = true;
    if (head.chunked) {
      this.#framing = 'chunked';
      this.done = false;
      this.#scanner ??= new ChunkedScanner();
      this.#scanner.reset();
    } else {
      this.#framing = head.contentLength > 0 ? 'counted' : 'none';
      this.#left = head.contentLength;
      this.done = this.#framing === 'none';
    }
  }

  get isEmpty(): boolean {
    return this.#framing === 'none';
  }

  /** Bytes that were taken and can be sent again. */
  get kept(): Buffer | undefined {
    return this.#keptLength === 0 ? undefined : this.#kept?.subarray(0, this.#keptLength);
  }

  /** A counted body that fits the replay limit: it can always be sent again. */
  fits(): boolean {
    return this.#framing === 'counted' && this.#left <= this.#keepUpTo;
  }

  /** This try is the last one: what was kept is still sent with it, and nothing more is kept. */
  stopKeeping(): void {
    if (this.#framing === 'none') return;
    this.#keepUpTo = -1;
    this.whole = false;
  }

  /** Gives the copy back, at the end of an exchange. */
  end(): void {
    this.#keptLength = 0;
    this.#drop();
  }

  /**
   * Takes body bytes from `buffer` and hands what is to be sent to `sink`. Answers the offset after
   * the last byte that belongs to the body, or -1 when the framing is broken.
   */
  take(buffer: Buffer, start: number, end: number, sink: ByteSink): number {
    if (this.#framing === 'counted') {
      const length = Math.min(this.#left, end - start);
      this.#left -= length;
      this.done = this.#left === 0;
      if (length > 0) {
        this.#keep(buffer, start, start + length);
        sink.put(buffer, start, start + length);
      }
      return start + length;
    }
    if (this.#scanner === undefined) return start;
    this.#sink = sink;
    const next = this.#scanner.scan(buffer, start, end, this, true);
    this.#sink = undefined;
    if (next === BODY_FAULT) return -1;
    if (next < 0) return end;
    this.done = true;
    return next;
  }

  put(buffer: Buffer, start: number, end: number): void {
    this.#keep(buffer, start, end);
    this.#sink?.put(buffer, start, end);
  }

  #keep(buffer: Buffer, start: number, end: number): void {
    if (!this.whole || this.#keepUpTo < 0) {
      this.whole = false;
      return;
    }
    const length = this.#keptLength + end - start;
    if (length > this.#keepUpTo) {
      this.whole = false;
      this.end();
      return;
    }
    const kept = this.#room(length);
    buffer.copy(kept, this.#keptLength, start, end);
    this.#keptLength = length;
  }

  /** A buffer for `length` bytes with what was kept so far; for a counted body it fits the whole. */
  #room(length: number): Buffer {
    const kept = this.#kept;
    if (kept !== undefined && kept.length >= length) return kept;
    const expected = this.#framing === 'counted' ? length + this.#left : length * 2;
    const { size } = this.#buffers;
    const larger = expected <= size ? this.#buffers.take() : Buffer.allocUnsafeSlow(expected);
    kept?.copy(larger, 0, 0, this.#keptLength);
    this.#drop();
    this.#kept = larger;
    return larger;
  }

  #drop(): void {
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept?.length === this.#buffers.size) this.#buffers.giveBack(kept);
  }
}
