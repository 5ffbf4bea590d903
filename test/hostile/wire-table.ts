/**
 * Runs a table of hostile messages through the parsers: whole, cut at every byte, and byte by byte,
 * each time between other guard bytes. The outcome must be the expected one, and always the same.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { everySplit, latin1 } from '../unit/wire/support.ts';
import type { Feeding, Message, Outcome } from '../unit/wire/support.ts';

/** `wants` is a fault, `more`, or the facts of an accepted message. */
export type Wanted = string | Partial<Message['head']> | { readonly message: Partial<Message> };

export interface Row {
  /** Number of the row in the project's list of hostile inputs. */
  readonly row: string;
  readonly what: string;
  readonly bytes: string;
  readonly wants: Wanted;
  readonly feeding?: Feeding;
}

/** Longer messages are cut at a sample of bytes, to keep the run short. */
const EVERY_BYTE_UP_TO = 400;

export function runTable(
  read: (bytes: Buffer, feeding?: Feeding) => Outcome,
  rows: readonly Row[],
): void {
  for (const { row, what, bytes, wants, feeding } of rows) {
    test(`${row}: ${what} -> ${title(wants)}`, () => {
      const input = latin1(bytes);
      const whole = read(input, feeding);
      check(whole, wants);
      const splits = everySplit(input.length);
      const step = Math.ceil(input.length / EVERY_BYTE_UP_TO);
      for (let i = 0; i < splits.length; i += step) {
        const cuts = splits[i] ?? [];
        const poison = i % 2 === 0 ? 0x0a : 0x0d;
        assert.deepEqual(read(input, { ...feeding, cuts, poison }), whole, `cut at ${cuts[0]}`);
      }
    });
  }
}

function title(wants: Wanted): string {
  return typeof wants === 'string' ? wants : 'accepted';
}

function check(outcome: Outcome, wants: Wanted): void {
  if (wants === 'more') {
    assert.equal(outcome.kind, 'more');
    return;
  }
  if (typeof wants === 'string') {
    assert.deepEqual(outcome, { kind: 'fault', fault: wants });
    return;
  }
  assert.equal(outcome.kind, 'message', JSON.stringify(outcome));
  if (outcome.kind !== 'message') return;
  const [facts, seen] =
    'message' in wants && typeof wants.message === 'object'
      ? [wants.message, outcome as object]
      : [wants, outcome.head as object];
  assert.partialDeepStrictEqual(seen, facts);
}
