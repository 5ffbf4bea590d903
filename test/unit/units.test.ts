/** Durations and sizes: what is accepted, what is refused, and the way back to text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatDuration, formatSize, parseDuration, parseSize } from '../../src/units.ts';

test('a duration is a whole number and one of four units', () => {
  assert.equal(parseDuration('250ms'), 250);
  assert.equal(parseDuration('30s'), 30_000);
  assert.equal(parseDuration('5m'), 300_000);
  assert.equal(parseDuration('1h'), 3_600_000);
  assert.equal(parseDuration('0s'), 0);
});

test('a size is a whole number and a binary unit', () => {
  assert.equal(parseSize('512B'), 512);
  assert.equal(parseSize('64KiB'), 65_536);
  assert.equal(parseSize('1MiB'), 1_048_576);
  assert.equal(parseSize('2GiB'), 2_147_483_648);
});

test('anything else is no duration', () => {
  for (const text of [
    '',
    '5',
    's',
    '1.5s',
    '-1s',
    '1 s',
    ' 1s',
    '1s ',
    '1S',
    '1d',
    '1h30m',
    '٣s',
    '1s\n',
    '1234567890123s',
  ]) {
    assert.equal(parseDuration(text), undefined, JSON.stringify(text));
  }
});

test('anything else is no size', () => {
  for (const text of [
    '',
    '5',
    'KiB',
    '1.5KiB',
    '-1KiB',
    '1 KiB',
    '1KB',
    '1kib',
    '1K',
    '1TiB',
    '64KiB\n',
  ]) {
    assert.equal(parseSize(text), undefined, JSON.stringify(text));
  }
});

test('the largest unit without a rest is written', () => {
  assert.equal(formatDuration(90_000), '90s');
  assert.equal(formatDuration(7_200_000), '2h');
  assert.equal(formatDuration(1), '1ms');
  assert.equal(formatDuration(0), '0s');
  assert.equal(formatSize(65_536), '64KiB');
  assert.equal(formatSize(1025), '1025B');
  assert.equal(formatSize(0), '0B');
});

test('what is written is read back as the same value', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999_999_999_999 }), (value) => {
      assert.equal(parseDuration(formatDuration(value)), value);
      assert.equal(parseSize(formatSize(value)), value);
    }),
  );
});
