/**
 * Two sockets of one connection inside this process: what one end writes, the other one reads.
 *
 * For a request that comes as Node's objects and yet is to be served by the relay, which reads bytes. An
 * end behaves like a TCP socket: half-close, RST, back-pressure, and nothing arrives within the call
 * that sent it. Bytes are copied on the way: the relay lends its buffers for the length of a write.
 */
import { Duplex } from 'node:stream';

/** The two ends of a new connection. */
export function createSocketPair(): readonly [SocketEnd, SocketEnd] {
  const near = new SocketEnd();
  const far = new SocketEnd();
  near.join(far);
  far.join(near);
  return [near, far];
}

type Done = (error?: Error | null) => void;

export class SocketEnd extends Duplex {
  /** By which a transport knows that there is an RST. */
  readonly remotePort = 0;
  #peer: SocketEnd | undefined;
  /** On their way, for the next turn. */
  #arriving: Buffer[] = [];
  #arrivingBytes = 0;
  #endArrives = false;
  /** The peer's write that waits until this end has room. */
  #held: Done | undefined;

  constructor() {
    super({ allowHalfOpen: true });
  }

  /** Called once, by `createSocketPair`. */
  join(peer: SocketEnd): void {
    this.#peer = peer;
  }

  // --- What a socket has and a stream has not ----------------------------------------------------

  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  /** Ends, and closes once everything has left. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  // --- The stream ---------------------------------------------------------------------------------

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: Done): void {
    const peer = this.#peer;
    if (peer === undefined || peer.destroyed) done();
    else peer.#take(Buffer.from(chunk), done);
  }

  override _final(done: Done): void {
    if (this.#peer !== undefined) this.#peer.#takeEnd();
    done();
  }

  override _read(): void {
    this.#release();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#arriving = [];
    this.#release();
    const peer = this.#peer;
    // An end that was not said is a cut, as of a socket with an RST.
    if (peer !== undefined && !this.writableFinished) process.nextTick(() => peer.#cut());
    done(error);
  }

  #take(bytes: Buffer, done: Done): void {
    this.#arriving.push(bytes);
    this.#arrivingBytes += bytes.length;
    if (this.#arriving.length === 1) process.nextTick(() => this.#arrive());
    if (this.readableLength + this.#arrivingBytes < this.readableHighWaterMark) done();
    else this.#held = done;
  }

  #takeEnd(): void {
    this.#endArrives = true;
    if (this.#arriving.length === 0) process.nextTick(() => this.#arrive());
  }

  #arrive(): void {
    const arrived = this.#arriving;
    this.#arriving = [];
    this.#arrivingBytes = 0;
    let room = true;
    for (const bytes of arrived) {
      if (this.destroyed) return;
      room = this.push(bytes);
    }
    if (this.destroyed || this.#arriving.length > 0) return;
    if (this.#endArrives) {
      this.#endArrives = false;
      this.push(null);
    }
    if (room) this.#release();
  }

  #release(): void {
    const held = this.#held;
    this.#held = undefined;
    held?.();
  }

  #cut(): void {
    if (this.destroyed) return;
    const reset = Object.assign(new Error('the other end is gone'), { code: 'ECONNRESET' });
    this.destroy(reset);
  }
}
