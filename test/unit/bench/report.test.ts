/** The table says what was measured, for whom, and how it compares. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { formatFaultyPoints, formatReport } from '../../../bench/report.ts';
import type { BenchResult, Point } from '../../../bench/statistics.ts';

function result(fields: Partial<BenchResult>): BenchResult {
  return {
    subject: 'sidekerb',
    case: 'tiny',
    connections: 64,
    rps: 70_123.4,
    cpuSeconds: 2.955,
    rpcs: 71_000.6,
    p50Ms: 0.8,
    p99Ms: 3.691,
    foreignShare: 0.054,
    ...fields,
  };
}

test('a table has a line per result, aligned, with the ratio on the line of the peer', () => {
  const report = {
    results: [result({}), result({ subject: 'http-proxy-3', rpcs: 18_000 })],
    ratios: [{ case: 'tiny', connections: 64, against: 'http-proxy-3', value: 3.944 }],
    geometricMeans: [{ against: 'http-proxy-3', value: 3.944 }],
  };
  assert.equal(
    formatReport(report),
    [
      'case  conns  subject       req/s  CPU s  req/CPU s  p50 ms  p99 ms  sidekerb is  others',
      'tiny     64  sidekerb      70123   2.96      71001    0.80    3.69                  5 %',
      'tiny     64  http-proxy-3  70123   2.96      18000    0.80    3.69       3.94 x     5 %',
      '',
      'Requests per CPU second of sidekerb, geometric mean of the cases above:',
      '  3.94 x http-proxy-3',
      '',
    ].join('\n'),
  );
});

test('results of one load stand together', () => {
  const lines = formatReport({
    results: [result({}), result({ case: '16k' }), result({ subject: 'nginx' })],
    ratios: [],
    geometricMeans: [],
  }).split('\n');
  assert.deepEqual(
    lines.slice(1, 4).map((line) => line.split(/\s+/).slice(0, 3).join(' ')),
    ['tiny 64 sidekerb', 'tiny 64 nginx', '16k 64 sidekerb'],
  );
});

test('a ratio of another load stands on no line', () => {
  const ratio = { against: 'nginx', value: 7.77 };
  const text = formatReport({
    results: [result({ subject: 'nginx' })],
    ratios: [
      { ...ratio, case: 'tiny', connections: 16 },
      { ...ratio, case: '16k', connections: 64 },
    ],
    geometricMeans: [],
  });
  assert.doesNotMatch(text, /7\.77/);
});

test('an invalid point is named with its fault; a valid one is not', () => {
  const point: Point = {
    ...result({}),
    round: 2,
    requests: 1,
    fault: '3 read errors',
  };
  assert.equal(
    formatFaultyPoints([point, { ...point, fault: undefined }]),
    'invalid: sidekerb, tiny, 64 connections, round 2: 3 read errors\n',
  );
});
