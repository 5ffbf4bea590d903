/** What wrk says is read exactly, and a point that hides errors does not count. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { findWrkFault, parseWrkOutput, type WrkResult } from '../../../bench/wrk.ts';

const LINE =
  'bench-result {"requests":1200,"bytes":93600,"microseconds":3001500,"p50":740,"p99":2080,"connect":0,"read":0,"write":0,"timeout":0,"status":0}';

const OUTPUT = `Running 3s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   121.02us  100.00us   1.65ms   90.00%
  1200 requests in 3.00s, 91.41KB read
Requests/sec:    400.00
${LINE}
`;

const GOOD = parseWrkOutput(OUTPUT);
const TINY = { bodyBytes: 13, answerBytes: 78 };

test('the numbers come from the line of the script, not from the rounded text', () => {
  assert.deepEqual(GOOD, {
    requests: 1200,
    bytes: 93_600,
    microseconds: 3_001_500,
    p50: 740,
    p99: 2080,
    connect: 0,
    read: 0,
    write: 0,
    timeout: 0,
    status: 0,
  });
});

test('an output without the line is shown', () => {
  assert.throws(() => parseWrkOutput('unable to connect to 127.0.0.1:1'), /unable to connect/);
});

test('a line that lacks a number is refused by name', () => {
  assert.throws(() => parseWrkOutput(LINE.replace('"p99":2080,', '')), /no p99/);
  assert.throws(() => parseWrkOutput(LINE.replace('"bytes":93600', '"bytes":-1')), /no bytes/);
});

test('a clean point has no fault', () => {
  assert.equal(findWrkFault(GOOD, TINY), undefined);
});

for (const kind of ['status', 'connect', 'read', 'write', 'timeout'] as const) {
  test(`one error of the kind ${kind} makes a point invalid`, () => {
    const result: WrkResult = { ...GOOD, [kind]: 1 };
    assert.match(findWrkFault(result, TINY) ?? '', kind === 'status' ? /^1 answers/ : /^1 \w+ err/);
  });
}

test('a point without answers is invalid', () => {
  assert.match(findWrkFault({ ...GOOD, requests: 0, bytes: 0 }, TINY) ?? '', /no answer/);
});

test('fewer bytes per answer than the body has make a point invalid', () => {
  const facts = { bodyBytes: 79, answerBytes: 200 };
  assert.match(findWrkFault(GOOD, facts) ?? '', /bodies are cut/);
  assert.equal(findWrkFault(GOOD, { ...facts, bodyBytes: 78 }), undefined);
});

test('many more bytes per answer than the origin sends make a point invalid', () => {
  assert.match(findWrkFault({ ...GOOD, bytes: 1200 * 2000 }, TINY) ?? '', /not the origin's/);
});
