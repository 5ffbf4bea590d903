/**
 * Buffers of one size that are used again, so that large messages cost no allocation each.
 *
 * Bounded: at most `keep` unused buffers stay. A buffer is given back by whoever took it, once
 * nothing refers to it any more; one that went along with a pending write is just forgotten.
 */
export class BufferStore {
  /** Size of every buffer, in bytes. */
  readonly size: number;
  readonly #keep: number;
  readonly #free: Buffer[] = [];
  #taken = 0;

  constructor(size: number, keep: number) {
    this.size = size;
    this.#keep = keep;
  }

  /** Buffers that were taken and neither given back nor forgotten. */
  get taken(): number {
    return this.#taken;
  }

  /** More are in use than stay unused: who needs his no more should give it back. */
  get crowded(): boolean {
    return this.#taken > this.#keep;
  }

  /** As many are in use as stay unused: a store that is to be bounded lends no more. */
  get exhausted(): boolean {
    return this.#taken >= this.#keep;
  }

  take(): Buffer {
    this.#taken += 1;
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.size);
  }

  giveBack(buffer: Buffer): void {
    this.#taken -= 1;
    if (this.#free.length < this.#keep) this.#free.push(buffer);
  }

  /** The buffer belongs to somebody else now and will not come back. */
  forget(): void {
    this.#taken -= 1;
  }
}
