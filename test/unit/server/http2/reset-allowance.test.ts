/** How many streams a caller may break off. */

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { ResetAllowance } from '../../../../src/server/http2/reset-allowance.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

it('a caller may reset 200 streams at once, then 20 a second', () => {
  const clock = new FakeClock();
  const allowance = new ResetAllowance(clock);
  const taken = (): number => {
    let count = 0;
    while (allowance.take()) count += 1;
    return count;
  };
  assert.equal(taken(), 200);
  clock.advance(2000);
  // The one too many counts as well.
  assert.equal(taken(), 39);
  clock.advance(1_000_000);
  assert.equal(taken(), 200);
});
