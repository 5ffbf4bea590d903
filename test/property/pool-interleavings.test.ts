/** Whatever order things happen in, the pool keeps its promises. A failure prints seed and moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from 'fast-check';

import { MOVES, PoolMachine } from './pool-machine.ts';
import type { Move, MoveKind } from './pool-machine.ts';

const kinds = Object.entries(MOVES).map(([kind, weight]) => ({
  weight,
  arbitrary: fc.constant(kind as MoveKind),
}));
const move: fc.Arbitrary<Move> = fc.record({ kind: fc.oneof(...kinds), pick: fc.nat(10_000) });

/** What the moves have to bring about for the run to prove anything. */
const WANTED = [
  'leased at once',
  'leased after an opening',
  'has to wait',
  'cancelled queued',
  'cancelled opening',
  'idle broke: peer',
  'idle broke: unsolicited',
  'refused pool-wait-timeout',
  'refused pool-queue-full',
  'refused connection-limit',
  'refused upstream-closed',
  'refused connect-failed',
  'refused shutting-down',
];

test('R1 R16 R17 R44 R45 hold for random interleavings over principals and upstreams', () => {
  const seen = new Map<string, number>();
  fc.assert(
    fc.property(fc.array(move, { maxLength: 150, size: 'max' }), (moves) => {
      const machine = new PoolMachine();
      machine.run(moves);
      for (const [event, count] of machine.seen) seen.set(event, (seen.get(event) ?? 0) + count);
    }),
    { numRuns: 300 },
  );
  for (const event of WANTED) assert.ok((seen.get(event) ?? 0) > 10, `too little of: ${event}`);
});
