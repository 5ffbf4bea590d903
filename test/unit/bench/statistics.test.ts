/** Medians are over the rounds, ratios are inside a round, and faulty points count nowhere. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  compare,
  geometricMeans,
  median,
  summarise,
  type Point,
} from '../../../bench/statistics.ts';

function point(fields: Partial<Point>): Point {
  return {
    subject: 'sidekerb',
    case: 'tiny',
    connections: 64,
    round: 1,
    rps: 100,
    cpuSeconds: 1,
    requests: 1000,
    p50Ms: 1,
    p99Ms: 2,
    foreignShare: 0,
    fault: undefined,
    ...fields,
  };
}

/** Sidekerb and nginx in rounds of these requests per CPU second. */
function rounds(own: readonly number[], peer: readonly number[]): Point[] {
  return [
    ...own.map((requests, index) => point({ requests, round: index + 1 })),
    ...peer.map((requests, index) => point({ subject: 'nginx', requests, round: index + 1 })),
  ];
}

test('a median is the middle value in order of size, not of arrival', () => {
  assert.equal(median([9, 1, 10]), 9);
});

test('a median of an even number is the mean of the two in the middle', () => {
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('a median of nothing is refused', () => {
  assert.throws(() => median([]), /no values/);
});

test('each number of a result is the median of its own column', () => {
  const points = [
    point({ rps: 1, cpuSeconds: 3, requests: 30, p50Ms: 5, p99Ms: 7, foreignShare: 0.1 }),
    point({ rps: 3, cpuSeconds: 1, requests: 20, p50Ms: 4, p99Ms: 9, foreignShare: 0.3, round: 2 }),
    point({ rps: 2, cpuSeconds: 2, requests: 80, p50Ms: 6, p99Ms: 8, foreignShare: 0.2, round: 3 }),
  ];
  assert.deepEqual(summarise(points), [
    {
      subject: 'sidekerb',
      case: 'tiny',
      connections: 64,
      rps: 2,
      cpuSeconds: 2,
      rpcs: 20,
      p50Ms: 5,
      p99Ms: 8,
      foreignShare: 0.2,
    },
  ]);
});

test('subjects, cases and numbers of connections are kept apart', () => {
  const loads = summarise([
    point({}),
    point({ connections: 16 }),
    point({ case: '16k' }),
    point({ subject: 'nginx' }),
    point({ round: 2 }),
  ]);
  assert.deepEqual(
    loads.map((one) => [one.subject, one.case, one.connections]),
    [
      ['sidekerb', 'tiny', 64],
      ['sidekerb', 'tiny', 16],
      ['sidekerb', '16k', 64],
      ['nginx', 'tiny', 64],
    ],
  );
});

test('a ratio is the median of the ratios inside the rounds, not the ratio of the medians', () => {
  // 1/2, 4/1, 3/3: the medians alone would give 3/2.
  assert.deepEqual(compare(rounds([1, 4, 3], [2, 1, 3])), [
    { case: 'tiny', connections: 64, against: 'nginx', value: 1 },
  ]);
});

test('a ratio is sidekerb over the other', () => {
  assert.equal(compare(rounds([300], [200]))[0]?.value, 1.5);
});

test('a faulty point spoils neither medians nor ratios', () => {
  const points = rounds([100, 100, 100], [50, 50, 50]);
  const spoilt = point({ requests: 1e9, rps: 1e9, fault: 'read errors', round: 3 });
  const without = points.filter((one) => one.subject !== 'sidekerb' || one.round !== 3);
  assert.equal(compare([...without, spoilt])[0]?.value, 2);
  assert.equal(summarise([...without, spoilt])[0]?.rps, 100);
});

test('without points of sidekerb there is no ratio', () => {
  assert.deepEqual(compare([point({ subject: 'nginx' })]), []);
});

test('ratios are averaged by their product, for each peer alone', () => {
  const ratio = { case: 'tiny', connections: 1 };
  const means = geometricMeans([
    { ...ratio, against: 'nginx', value: 0.5 },
    { ...ratio, against: 'nginx', value: 2 },
    { ...ratio, against: 'squid', value: 4 },
  ]);
  assert.deepEqual(
    means.map(({ against, value }) => [against, Number(value.toFixed(9))]),
    [
      ['nginx', 1],
      ['squid', 4],
    ],
  );
});
