/** The command line chooses what is measured; what it does not know it refuses. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseArguments } from '../../../bench/arguments.ts';

function loads(args: readonly string[]): string[] {
  return parseArguments(args).cases.map((one) => `${one.name}: ${one.connections.join(' ')}`);
}

test('a whole run has every subject and every load of the contract', () => {
  const plan = parseArguments([]);
  assert.deepEqual(plan.subjects, [
    'sidekerb',
    'nginx',
    'haproxy',
    'squid',
    'apache',
    'node-relay',
    'http-proxy-3',
  ]);
  assert.deepEqual(loads([]), [
    'tiny: 1 16 64 256',
    '16k: 1 16 64 256',
    'headers: 64',
    'chunked: 64',
    'post-1k: 64',
    'post-64k: 16',
  ]);
  assert.equal(plan.rounds, 3);
  assert.equal(plan.seconds, 3);
});

test('a quick run has the loads and subjects of the goal, and ends in time', () => {
  const plan = parseArguments(['--quick']);
  assert.deepEqual(loads(['--quick']), ['tiny: 64', '16k: 64']);
  for (const name of ['sidekerb', 'nginx', 'http-proxy-3'] as const) {
    assert.ok(plan.subjects.includes(name), name);
  }
  const points = plan.cases.length * plan.subjects.length;
  // The rest of the 90 s is for the start, the checks and what wrk takes longer.
  assert.ok(points * plan.rounds * plan.seconds + plan.warmUpSeconds <= 75);
});

test('only a case: every subject, that case', () => {
  assert.deepEqual(loads(['--only', '16k']), ['16k: 1 16 64 256']);
  assert.equal(parseArguments(['--only', '16k']).subjects.length, 7);
});

test('only a peer: sidekerb beside it, every case', () => {
  const plan = parseArguments(['--only', 'squid']);
  assert.deepEqual(plan.subjects, ['sidekerb', 'squid']);
  assert.equal(plan.cases.length, 6);
});

test('a quick run of a case that is not quick by itself has that case', () => {
  assert.deepEqual(loads(['--quick', '--only', 'post-64k', '--only', 'squid']), ['post-64k: 16']);
});

test('the file of the results is taken over', () => {
  assert.equal(parseArguments(['--json', 'out.json']).jsonFile, 'out.json');
  assert.equal(parseArguments([]).jsonFile, undefined);
});

test('unknown names and options are refused', () => {
  assert.throws(() => parseArguments(['--only', 'varnish']), /varnish/);
  assert.throws(() => parseArguments(['--slow']), /--slow/);
});
