/**
 * One socket as bytes: read into buffers of our own, written with back-pressure, no streams' pipe.
 *
 * Reading uses Node's `onread` with a private buffer per socket. A buffer may be handed on to
 * another socket's `write`; when that write does not finish at once, the buffer belongs to the
 * write until it ends, and the reader goes on with a fresh one (`giveAway`). Who reads the bytes
 * is the `owner`, which changes over the life of an upstream connection.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { BufferStore } from './buffer-store.ts';

/** What a socket tells its present owner. Nothing here is called again after `closed`. */
export interface TransportOwner {
  /**
   * Bytes `start` to `end` of `buffer` arrived; they are valid during this call only, unless they
   * were handed to `write` of another transport. Answers false to stop reading until `resume()`.
   */
  received(buffer: Buffer, start: number, end: number): boolean;
  /** What was queued by `write` has left; called only after a `write` that answered false. */
  drained(): void;
  /** The peer sent its FIN. */
  ended(): void;
  /** The socket is gone, with the error that ended it where there was one. */
  closed(error: Error | undefined): void;
}

/** Free bytes before each read, so that a head can grow in place and leave in one write. */
export const HEADROOM = 512;
const SMALL_READ = 8 * 1024;
// A body of 64 KiB with its head in one read.
const LARGE_READ = 72 * 1024;
/** Large buffers that stay for the next large message, in all sockets together. */
const LARGE_KEPT = 128;
/** Small buffers of closed sockets that wait for new ones. */
const SMALL_KEPT = 256;
/** Messages in a row without need of a large buffer, after which it is given back. */
const QUIET_MESSAGES = 16;
/** A read in a bulk buffer that is this short: the flow is over for now. */
const TRICKLE = 16 * 1024;

/** The read buffers of a process: large ones, and those that every socket begins with. */
export class ReadBuffers extends BufferStore {
  readonly small = new BufferStore(HEADROOM + SMALL_READ, SMALL_KEPT);

  constructor() {
    super(HEADROOM + LARGE_READ, LARGE_KEPT);
  }
}

export const createReadBuffers = (): ReadBuffers => new ReadBuffers();

/** Before the first read is prepared. */
const NO_BUFFER: Buffer = Buffer.alloc(0);

/** The `onread` option of `net.connect`, `tls.connect` and `net.Socket`. */
export interface OnRead {
  readonly buffer: () => Uint8Array;
  readonly callback: (bytes: number, buffer: Uint8Array) => boolean;
}

/** What a transport needs of a socket. */
export type TransportSocket = Duplex &
  Pick<Socket, 'destroySoon' | 'remotePort'> & {
    resetAndDestroy(): unknown;
    setKeepAlive(enable: boolean, idleMs: number): unknown;
  };

export class Transport {
  owner: TransportOwner;
  /** Bytes read over the life of the socket. */
  bytesRead = 0;
  /** Bytes given to `write` over the life of the socket. */
  bytesWritten = 0;
  #socket: TransportSocket | undefined;
  // The buffer that Node reads into now, and the one it gets after the read in progress.
  #active: Buffer = NO_BUFFER;
  #next: Buffer | undefined;
  #inRead = false;
  /** Where the buffer in use, or else the next one, comes from; undefined: it is a small one. */
  #store: BufferStore | undefined;
  /** A larger store than the usual one, for bytes without messages. */
  #bulk: BufferStore | undefined;
  /** The buffer of the read in progress, when one of another size follows it. */
  #outgrown: { readonly store: BufferStore; readonly buffer: Buffer } | undefined;
  /** Buffers of other transports that the writes in progress hold, and where they come from. */
  readonly #borrowed: { readonly store: BufferStore; readonly buffer: Buffer }[] = [];
  /** Longest read since the last `shrink`. */
  #longest = 0;
  #quiet = 0;
  readonly #buffers: ReadBuffers;
  #paused = false;
  /**
   * What came while paused: TLS brings several reads out of one packet, and goes on with them when the
   * first one asks to stop. One packet's worth at most.
   */
  #held: Buffer | undefined;
  /** The end came behind what is held, or in the packet of the read that asked to stop. */
  #endHeld = false;
  #blocked = false;
  #closed = false;
  #error: Error | undefined;

  constructor(owner: TransportOwner, buffers: ReadBuffers) {
    this.owner = owner;
    this.#buffers = buffers;
  }

  /** The option to open the socket with; `attach` takes the socket that was opened with it. */
  onread(): OnRead {
    return {
      buffer: () => this.#nextView(),
      callback: (bytes) => this.#read(bytes),
    };
  }

  /** Takes the socket over. Its errors are handled from here on. */
  attach(socket: TransportSocket): void {
    this.#socket = socket;
    socket.on('drain', () => this.#drain());
    socket.on('end', () => {
      if (this.#held !== undefined || (this.#paused && 'encrypted' in socket)) this.#endHeld = true;
      else this.owner.ended();
    });
    socket.on('error', (error: Error) => {
      this.#error = error;
    });
    socket.on('close', () => {
      // In order, whoever asked to stop: there is no later.
      if (this.#error === undefined) this.#giveHeld();
      this.#closed = true;
      this.#leaveBuffer();
      for (const { store } of this.#borrowed.splice(0)) store.forget();
      this.owner.closed(this.#error);
    });
  }

  /** As `attach`, for a socket that was opened without `onread`: public API only, a buffer per read. */
  attachEvents(socket: TransportSocket): void {
    this.attach(socket);
    socket.on('data', (bytes: Buffer) => {
      this.bytesRead += bytes.length;
      if (!this.owner.received(bytes, 0, bytes.length)) this.pause();
    });
  }

  get closed(): boolean {
    return this.#closed || this.#socket === undefined || this.#socket.destroyed;
  }

  /** The peer can still be written to. */
  get writable(): boolean {
    return !this.#closed && this.#socket !== undefined && this.#socket.writable;
  }

  /** Bytes that `write` took and the kernel has not. */
  get pending(): number {
    return this.#socket?.writableLength ?? 0;
  }

  /**
   * The underlying socket, for facts of its own (addresses, TLS); never for reading or writing.
   * undefined for one that is none of the system's.
   */
  get socket(): Socket | undefined {
    return this.#socket instanceof Socket ? this.#socket : undefined;
  }

  /**
   * Writes `bytes`; false means: stop until `drained()`. When `source` lent the bytes from its
   * read buffer and they could not leave at once, `source` goes on with a fresh buffer.
   */
  write(bytes: Uint8Array, source: Transport | undefined): boolean {
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return true;
    this.bytesWritten += bytes.length;
    const more = socket.write(bytes);
    if (!more) this.#blocked = true;
    if (source !== undefined && socket.writableLength !== 0) source.#giveAway(this);
    return more;
  }

  /** True while a `write` answered false and `drained()` has not come. */
  get blocked(): boolean {
    return this.#blocked;
  }

  cork(): void {
    this.#socket?.cork();
  }

  uncork(): void {
    this.#socket?.uncork();
  }

  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    // Not inside this call: its caller may be about to write what came before.
    if (this.#held !== undefined || this.#endHeld) process.nextTick(() => this.#goOn());
    else this.#socket?.resume();
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Sends FIN after what is queued; `left` is called when the kernel has all of it, or the socket is gone. */
  end(left?: () => void): void {
    this.#socket?.end(left);
  }

  /** The last FIN of both: where nothing is queued, closing says it with one call of the system. */
  endBoth(): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    // TLS has a farewell of its own to send.
    if (socket.writableLength === 0 && !('encrypted' in socket)) socket.destroy();
    else socket.end();
  }

  /** Closes at once; `closed` of the owner follows. */
  destroy(): void {
    this.#socket?.destroy();
  }

  /** Closes once what is queued has left, whatever the peer still sends. */
  destroyAfterFlush(): void {
    this.#socket?.destroySoon();
  }

  /**
   * Closes with RST, so that the peer cannot take a cut message for a whole one. TLS says the same by
   * the close_notify that is missing; a unix socket has no such sign and just closes.
   */
  reset(): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    // Node throws ERR_INVALID_HANDLE_TYPE for anything but TCP.
    if ('encrypted' in socket || socket.remotePort === undefined) socket.destroy();
    else socket.resetAndDestroy();
  }

  /**
   * From now on bytes are no messages: a flow that fills the large buffers gets one of `store`, as long
   * as there are any.
   */
  readInBulk(store: BufferStore): void {
    this.#bulk = store;
  }

  /** Lets the kernel probe a peer that was silent for this long. */
  keepAlive(idleMs: number): void {
    this.#socket?.setKeepAlive(true, idleMs);
  }

  /**
   * Called when a message has ended: gives a large read buffer back that was not needed for a while, or
   * that many others want. Only inside `received`: at other times the system holds the buffer for its
   * next read, and giving it back would put one buffer under two sockets.
   */
  shrink(): void {
    const needed = this.#longest > SMALL_READ;
    this.#longest = 0;
    if (this.#store === undefined || !this.#inRead) return;
    this.#quiet = needed ? 0 : this.#quiet + 1;
    if (this.#quiet < QUIET_MESSAGES && !this.#buffers.crowded) return;
    this.#becomeSmall(this.#store);
  }

  #becomeSmall(store: BufferStore): void {
    // What was to be next was never read into. The one in use may yet go along with a write.
    if (this.#next !== undefined) store.giveBack(this.#next);
    else this.#outgrown = { store, buffer: this.#active };
    this.#store = undefined;
    this.#quiet = 0;
    this.#next = this.#buffers.small.take();
  }

  /** After a `resume` that found something held. */
  #goOn(): void {
    if (this.#paused || this.#closed) return;
    this.#giveHeld();
    if (!this.#paused) this.#socket?.resume();
  }

  #giveHeld(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined && !this.owner.received(held, 0, held.length)) this.pause();
    if (!this.#endHeld || (this.#paused && !this.#socket?.destroyed)) return;
    this.#endHeld = false;
    this.owner.ended();
  }

  #hold(bytes: Buffer): boolean {
    this.#held = this.#held === undefined ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]);
    return false;
  }

  #read(bytes: number): boolean {
    this.bytesRead += bytes;
    this.#inRead = true;
    const buffer = this.#active;
    if (this.#paused || this.#held !== undefined) {
      return this.#hold(buffer.subarray(HEADROOM, HEADROOM + bytes));
    }
    if (bytes > this.#longest) this.#longest = bytes;
    if (this.#store === undefined) {
      if (bytes === SMALL_READ) {
        this.#buffers.small.forget();
        this.#growTo(this.#buffers);
      }
    } else if (bytes === LARGE_READ && this.#store === this.#buffers) {
      this.#outgrow(buffer);
    }
    const more = this.owner.received(buffer, HEADROOM, HEADROOM + bytes);
    if (this.#bulk !== undefined) this.#afterBulk(bytes);
    this.#leaveOutgrown();
    if (more) return !this.#paused;
    this.pause();
    return false;
  }

  /** At the end of the socket. */
  #leaveBuffer(): void {
    const { small } = this.#buffers;
    const store = this.#store;
    this.#store = undefined;
    // A write may still hold a large one: it is not used again.
    if (store !== undefined) store.forget();
    // A small one that went along with a write was replaced at once.
    else if (this.#active !== NO_BUFFER) small.giveBack(this.#next ?? this.#active);
    this.#active = NO_BUFFER;
    this.#next = undefined;
  }

  #growTo(store: BufferStore): void {
    this.#store = store;
    this.#next = store.take();
  }

  #outgrow(buffer: Buffer): void {
    if (this.#bulk === undefined || this.#bulk.exhausted) return;
    this.#outgrown = { store: this.#buffers, buffer };
    this.#growTo(this.#bulk);
  }

  /** After a read of a tunnel: a large buffer that idles goes back. */
  #afterBulk(bytes: number): void {
    if (this.#store === undefined || this.#store !== this.#bulk || bytes > TRICKLE) return;
    this.#becomeSmall(this.#store);
  }

  /** At the end of a read: what was read into goes back, unless a write took it along. */
  #leaveOutgrown(): void {
    const left = this.#outgrown;
    if (left === undefined) return;
    this.#outgrown = undefined;
    left.store.giveBack(left.buffer);
  }

  #drain(): void {
    if (!this.#blocked) return;
    this.#blocked = false;
    for (const { store, buffer } of this.#borrowed.splice(0)) store.giveBack(buffer);
    this.owner.drained();
  }

  /** The buffer in use goes along with a write of `writer` that has not ended. */
  #giveAway(writer: Transport): void {
    // What its owner held back and writes later is a copy, and the system may read into this one.
    if (!this.#inRead) return;
    // A fresh one is on its way already.
    if (this.#next !== undefined) {
      if (this.#outgrown !== undefined) writer.#borrow(this.#outgrown.store, this.#outgrown.buffer);
      this.#outgrown = undefined;
      return;
    }
    if (this.#store === undefined) {
      this.#buffers.small.forget();
      this.#next = this.#buffers.small.take();
      return;
    }
    writer.#borrow(this.#store, this.#active);
    this.#next = this.#store.take();
  }

  /** The buffer comes back once all writes have ended; without a sign of that it is forgotten. */
  #borrow(store: BufferStore, buffer: Buffer): void {
    if (this.#blocked) this.#borrowed.push({ store, buffer });
    else store.forget();
  }

  // Node asks when it makes a handle (again for each address it tries), and after each read, where
  // anything but a buffer means "the same one again".
  #nextView(): Uint8Array {
    const afterRead = this.#inRead;
    this.#inRead = false;
    const next = this.#next;
    if (next === undefined && afterRead) return undefined as unknown as Uint8Array;
    this.#next = undefined;
    if (next !== undefined) this.#active = next;
    else if (this.#active === NO_BUFFER) this.#active = this.#buffers.small.take();
    return this.#active.subarray(HEADROOM);
  }
}
