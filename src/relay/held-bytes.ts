/** Bytes that a caller sent and that cannot be used yet, in a buffer of their own: `bytes[start, end)`. */
export class HeldBytes {
  /** undefined: nothing is held. */
  bytes: Buffer | undefined;
  start = 0;
  end = 0;

  get isEmpty(): boolean {
    return this.bytes === undefined;
  }

  get length(): number {
    return this.bytes === undefined ? 0 : this.end - this.start;
  }

  drop(): void {
    this.bytes = undefined;
  }

  /** Holds `buffer[start, end)` and nothing else. The buffer is the transport's and will be read into again. */
  keep(buffer: Buffer, start: number, end: number): void {
    if (buffer === this.bytes) {
      this.start = start;
      return;
    }
    this.bytes = Buffer.from(buffer.subarray(start, end));
    this.start = 0;
    this.end = end - start;
  }

  /** The same for an incomplete head: its parser goes on at the same offsets, so the copy keeps them. */
  keepHead(buffer: Buffer, start: number, end: number): void {
    const held = Buffer.allocUnsafeSlow(end + 1024);
    buffer.copy(held, start, start, end);
    this.bytes = held;
    this.start = start;
    this.end = end;
  }

  /** Adds bytes behind those that are held; offsets of those stay. */
  append(buffer: Buffer, start: number, end: number): void {
    const length = this.end + end - start;
    let target = this.bytes ?? buffer;
    if (this.bytes === undefined || this.bytes.length < length) {
      target = Buffer.allocUnsafeSlow(Math.max(1024, length * 2));
      this.bytes?.copy(target, this.start, this.start, this.end);
      this.bytes = target;
    }
    buffer.copy(target, this.end, start, end);
    this.end = length;
  }
}
