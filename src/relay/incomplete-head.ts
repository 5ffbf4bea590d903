/**
 * The head of a response that came in pieces: its bytes so far, at the offsets where its parser
 * stopped, and the parser itself. Most heads come whole and never get here.
 */
import type { ResponseHead } from '../wire/response-head.ts';

/** Room for the rest of a usual head. */
const ROOM = 4096;

export class IncompleteHead {
  readonly head: ResponseHead;
  buffer: Buffer;
  end: number;

  /** Copies `buffer[start, end)` to the same offsets, because the parser goes on at these. */
  constructor(head: ResponseHead, buffer: Buffer, start: number, end: number) {
    this.head = head;
    this.buffer = Buffer.allocUnsafeSlow(end + ROOM);
    this.end = end;
    buffer.copy(this.buffer, start, start, end);
  }

  append(received: Buffer, start: number, end: number): void {
    const length = this.end + end - start;
    if (this.buffer.length < length) {
      const larger = Buffer.allocUnsafeSlow(length * 2);
      this.buffer.copy(larger, 0, 0, this.end);
      this.buffer = larger;
    }
    received.copy(this.buffer, this.end, start, end);
    this.end = length;
  }
}
