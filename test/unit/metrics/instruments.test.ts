import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  Histogram,
  counterFamily,
  gaugeFamily,
  histogramFamily,
  names,
  words,
} from '../../../src/metrics/instruments.ts';

const RESULTS = ['hit', 'new'] as const;
const STATES = ['idle', 'active'] as const;

describe('a histogram', () => {
  test('counts an observation in the first bucket whose bound is not below it', () => {
    const histogram = new Histogram([1, 2, 5]);
    for (const value of [0, 1, 1.5, 2, 5, 5.1, 1e9]) histogram.observe(value);
    assert.deepEqual([...histogram.counts], [2, 2, 1, 2]);
    assert.equal(histogram.count, 7);
    assert.equal(histogram.sum, 1e9 + 14.6);
  });

  test('drops what would spoil its sum', () => {
    const histogram = new Histogram([1]);
    for (const value of [Number.NaN, -1, -Infinity]) histogram.observe(value);
    assert.deepEqual([...histogram.counts], [0, 0]);
    assert.equal(histogram.count, 0);
    assert.equal(histogram.sum, 0);
  });
});

describe('a family', () => {
  test('has every combination of its closed words at 0 from the start', () => {
    const family = gaugeFamily('g', 'help', words('result', RESULTS), words('state', STATES));
    assert.deepEqual(
      [...family.entries()].map(({ values, instrument }) => [...values, instrument.value]),
      [
        ['hit', 'idle', 0],
        ['hit', 'active', 0],
        ['new', 'idle', 0],
        ['new', 'active', 0],
      ],
    );
  });

  test('without labels has its one series', () => {
    const family = counterFamily('c_total', 'help');
    family.child().add(2);
    assert.deepEqual([...family.entries()], [{ values: [], instrument: family.child() }]);
  });

  test('waits for configured names and then has all their combinations', () => {
    const family = counterFamily('c_total', 'help', names('upstream'), words('result', RESULTS));
    assert.equal([...family.entries()].length, 0);
    family.populate({ upstream: 'crm' });
    family.populate({ upstream: 'crm' });
    const shown = [...family.entries()].map(({ values }) => values.join(' '));
    assert.deepEqual(shown, ['crm hit', 'crm new']);
  });

  test('gives the same child for the same values, and another for others', () => {
    const family = counterFamily('c_total', 'help', names('a'), names('b'));
    const child = family.child('1:x', 'y');
    child.add();
    child.add(4);
    assert.equal(family.child('1:x', 'y'), child);
    assert.equal(child.value, 5);
    // The same characters, cut elsewhere.
    const others = [family.child('1:', 'xy'), family.child('1', ':xy'), family.child('', '1:xy')];
    assert.equal(new Set([child, ...others]).size, 4);
  });

  test('refuses a word that is not in its closed set and a wrong number of values', () => {
    const open: {
      child(...values: string[]): unknown;
    } = counterFamily('c_total', 'help', words('result', RESULTS));
    assert.throws(() => open.child('evil'), TypeError);
    assert.throws(() => open.child(), TypeError);
    assert.throws(() => open.child('hit', 'hit'), TypeError);
  });

  test('forgets single series and all series of a name', () => {
    const family = histogramFamily(
      'h_seconds',
      'help',
      [1],
      names('upstream'),
      words('r', RESULTS),
    );
    for (const upstream of ['crm', 'site']) family.populate({ upstream });
    family.remove('site', 'hit');
    family.removeWhere('upstream', 'crm');
    family.removeWhere('no-such-label', 'site');
    assert.deepEqual(
      [...family.entries()].map(({ values }) => values.join(' ')),
      ['site new'],
    );
  });
});
