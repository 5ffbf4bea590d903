/** When a tunnel ends for silence, and when the kernel is asked to probe its ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTunnel } from '../../../src/relay/tunnel.ts';
import { BufferStore } from '../../../src/transport/buffer-store.ts';
import type { Transport, TransportOwner } from '../../../src/transport/transport.ts';
import { FakeClock } from '../../support/fake-clock.ts';

class End {
  owner: TransportOwner | undefined;
  probedAfter: number | undefined;
  destroyed = false;

  readInBulk(): void {
    // Not looked at.
  }

  keepAlive(ms: number): void {
    this.probedAfter = ms;
  }

  write(): boolean {
    return true;
  }

  resume(): void {
    // Nothing comes by itself.
  }

  destroy(): void {
    this.destroyed = true;
  }
}

function open(idleMs: number): { clock: FakeClock; caller: End; upstream: End } {
  const clock = new FakeClock();
  const [caller, upstream] = [new End(), new End()];
  openTunnel({
    caller: caller as unknown as Transport,
    upstream: upstream as unknown as Transport,
    deadlines: clock.deadlines,
    idleMs,
    early: undefined,
    bulk: new BufferStore(16, 1),
    closed: () => undefined,
  });
  return { clock, caller, upstream };
}

test('a tunnel that is silent for a minute lets the kernel probe both ends', () => {
  const { clock, caller, upstream } = open(3_600_000);
  clock.advance(50_000);
  caller.owner?.received(Buffer.alloc(1), 0, 1);
  clock.advance(50_000);
  assert.deepEqual([caller.probedAfter, upstream.probedAfter], [undefined, undefined]);
  clock.advance(11_000);
  assert.deepEqual([caller.probedAfter, upstream.probedAfter], [60_000, 60_000]);
  assert.equal(caller.destroyed, false);
});

test('it ends after its idle limit, counted from the last byte of either side', () => {
  const { clock, caller, upstream } = open(100_000);
  clock.advance(90_000);
  upstream.owner?.received(Buffer.alloc(1), 0, 1);
  clock.advance(99_000);
  assert.equal(caller.destroyed, false);
  clock.advance(2000);
  assert.deepEqual([caller.destroyed, upstream.destroyed], [true, true]);
});

test('an idle limit below that ends it without probes', () => {
  const { clock, caller } = open(10_000);
  clock.advance(10_200);
  assert.deepEqual([caller.destroyed, caller.probedAfter], [true, undefined]);
});

test('without an idle limit it is probed, and stays', () => {
  const { clock, caller } = open(Infinity);
  clock.advance(61_000);
  assert.equal(caller.probedAfter, 60_000);
  clock.advance(10_000_000);
  assert.equal(caller.destroyed, false);
});
