/**
 * A blind relay of bytes both ways, after a 101 or a CONNECT.
 *
 * Each direction has its own back-pressure; a FIN is passed on and the other direction goes on
 * (half-close); an error on one side resets the other. Silence in both directions ends it after `idleMs`.
 * Neither connection is used for anything else afterwards (R23).
 */
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import type { Lease } from '../pool/lease.ts';
import type { BufferStore } from '../transport/buffer-store.ts';
import type { Transport, TransportOwner } from '../transport/transport.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';

/** Silence after which the kernel probes both peers: short tunnels need none of its options. */
const KEEP_ALIVE_MS = 60_000;

export interface TunnelFacts {
  readonly caller: Transport;
  readonly upstream: Transport;
  readonly deadlines: DeadlineWheel;
  /** Infinity: no limit. */
  readonly idleMs: number;
  /** Bytes of the upstream that came with its head. */
  readonly early: Buffer | undefined;
  /** Read buffers for a direction in full flow. */
  readonly bulk: BufferStore;
  /** Both sides are gone. Called once. */
  readonly closed: () => void;
}

class Tunnel {
  readonly #facts: TunnelFacts;
  readonly #deadline = new Deadline(() => this.#silent());
  /** The kernel probes both peers by now. */
  #probed = false;
  #open = 2;
  #ended = 0;

  constructor(facts: TunnelFacts) {
    this.#facts = facts;
  }

  active(): void {
    const { deadlines, idleMs } = this.#facts;
    const ms = this.#probed ? idleMs : Math.min(idleMs, KEEP_ALIVE_MS);
    if (ms !== Infinity) deadlines.arm(this.#deadline, ms);
  }

  /** A tunnel may be silent for long: a peer that is gone is noticed all the same. */
  #silent(): void {
    const { caller, upstream, deadlines, idleMs } = this.#facts;
    const leftMs = idleMs - KEEP_ALIVE_MS;
    if (this.#probed || leftMs <= 0) {
      this.end();
      return;
    }
    this.#probed = true;
    caller.keepAlive(KEEP_ALIVE_MS);
    upstream.keepAlive(KEEP_ALIVE_MS);
    if (leftMs !== Infinity) deadlines.arm(this.#deadline, leftMs);
  }

  end(): void {
    this.#facts.caller.destroy();
    this.#facts.upstream.destroy();
  }

  /** Whether the FIN of one side was the second: no side has anything to say any more. */
  sideEnded(): boolean {
    this.#ended += 1;
    return this.#ended === 2;
  }

  sideClosed(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#facts.deadlines.disarm(this.#deadline);
    this.#facts.closed();
  }
}

/** One end; what it receives goes out at the other. */
class TunnelSide implements TransportOwner {
  readonly #tunnel: Tunnel;
  readonly #own: Transport;
  readonly #peer: Transport;

  constructor(tunnel: Tunnel, own: Transport, peer: Transport) {
    this.#tunnel = tunnel;
    this.#own = own;
    this.#peer = peer;
  }

  received(buffer: Buffer, start: number, end: number): boolean {
    this.#tunnel.active();
    return this.#peer.write(buffer.subarray(start, end), this.#own);
  }

  drained(): void {
    this.#tunnel.active();
    this.#peer.resume();
  }

  ended(): void {
    this.#tunnel.active();
    if (this.#tunnel.sideEnded()) this.#peer.endBoth();
    else this.#peer.end();
  }

  closed(error: Error | undefined): void {
    // A cut must not look like an end. A clean end was passed on as FIN; what is left of the other side's
    // bytes may still flow to nobody, so it ends as well.
    if (error !== undefined) this.#peer.reset();
    else if (!this.#peer.closed) this.#peer.end();
    this.#peer.destroyAfterFlush();
    this.#tunnel.sideClosed();
  }
}

/** Makes the two transports one tunnel; bytes that came early on either side are passed on first. */
export function openTunnel(facts: TunnelFacts): void {
  const tunnel = new Tunnel(facts);
  const { caller, upstream } = facts;
  for (const side of [caller, upstream]) side.readInBulk(facts.bulk);
  caller.owner = new TunnelSide(tunnel, caller, upstream);
  upstream.owner = new TunnelSide(tunnel, upstream, caller);
  tunnel.active();
  if (facts.early !== undefined) caller.write(facts.early, undefined);
  caller.resume();
  upstream.resume();
}

/** The same with the connection of a lease, which ends with the tunnel (R23). */
export function tunnelLease(
  lease: Lease<UpstreamConnection>,
  shared: { readonly deadlines: DeadlineWheel; readonly bulkBuffers: BufferStore },
  facts: Pick<TunnelFacts, 'caller' | 'idleMs' | 'closed'> & { readonly early: Buffer },
): void {
  const { connection } = lease;
  connection.spend();
  openTunnel({
    ...facts,
    deadlines: shared.deadlines,
    bulk: shared.bulkBuffers,
    upstream: connection.transport,
    // The bytes lie in the buffer of the read that brought them.
    early: facts.early.length > 0 ? Buffer.from(facts.early) : undefined,
    closed: () => {
      lease.discard('peer');
      facts.closed();
    },
  });
}
