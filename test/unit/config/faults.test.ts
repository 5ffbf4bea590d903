/** How faults are written, ordered and hinted at. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatPath, isWithin, nearest, sortFaults } from '../../../src/config/faults.ts';

test('a path has dots for keys and brackets for indexes', () => {
  assert.equal(
    formatPath(['listeners', 0, 'routes', 1, 'upstream']),
    'listeners[0].routes[1].upstream',
  );
  assert.equal(formatPath([]), '');
});

test('a path lies within itself and what it starts with, and within no other', () => {
  assert.ok(isWithin(['a', 0, 'b'], ['a', 0]));
  assert.ok(isWithin(['a'], ['a']));
  assert.ok(!isWithin(['a'], ['a', 0]));
  assert.ok(!isWithin(['a', 1], ['a', 0]));
});

test('faults stand in the order of the file', () => {
  const at = (line: number, column: number) => {
    return {
      file: 'f',
      line,
      column,
      path: '',
      message: '',
      hint: undefined,
      kind: 'config',
    } as const;
  };
  assert.deepEqual(sortFaults([at(2, 1), at(1, 9), at(1, 2)]), [at(1, 2), at(1, 9), at(2, 1)]);
});

test('the nearest word is near: a slip, a swap, another case', () => {
  const known = ['maxIdle', 'minIdle', 'maxAge', 'url'];
  assert.equal(nearest('maxIdel', known), 'maxIdle');
  assert.equal(nearest('maxidle', known), 'maxIdle');
  assert.equal(nearest('maxAgee', known), 'maxAge');
  assert.equal(nearest('ulr', known), 'url');
  assert.equal(nearest('timeout', known), undefined);
  assert.equal(nearest('uri2', known), undefined);
  assert.equal(nearest('', known), undefined);
});
