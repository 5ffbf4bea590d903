/** What a run needs of the machine, how it proves the login, and what wrk is told. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { CASES, wrkScript } from '../../../bench/cases.ts';
import { readLoginProof } from '../../../bench/checks.ts';
import { parseCoreList } from '../../../bench/machine.ts';
import { extendedPath, findMissing, formatMissing } from '../../../bench/tools.ts';

const SHELL = { by: 'load', program: 'sh', debianPackage: 'dash' };
const ABSENT = { by: 'nginx', program: 'no-such-program', debianPackage: 'nginx-light' };

test('a program that is nowhere on the path is missing, and its package is named', () => {
  const missing = findMissing([SHELL, ABSENT], '/usr/bin:/bin');
  assert.deepEqual(missing, [ABSENT]);
  assert.equal(
    formatMissing(ABSENT),
    "nginx: no-such-program is missing; Debian's package nginx-light brings it",
  );
});

test('a folder is no program', () => {
  assert.equal(findMissing([{ ...SHELL, program: 'bin' }], '/usr').length, 1);
});

test('daemons are looked for where a user has no path to', () => {
  assert.deepEqual(extendedPath('/a:/usr/sbin:').split(':'), [
    '/a',
    '/usr/sbin',
    '/usr/local/sbin',
    '/sbin',
  ]);
});

test('a list of cores may have ranges', () => {
  assert.deepEqual(parseCoreList('0-2,5,8-9'), [0, 1, 2, 5, 8, 9]);
});

test('logins and hits are summed over all upstreams, by result', () => {
  const proof = readLoginProof(`# TYPE sidekerb_handshakes_total counter
sidekerb_handshakes_total{upstream="a",hop="origin",scheme="ntlm",result="ok"} 3
sidekerb_handshakes_total{upstream="b",hop="origin",scheme="ntlm",result="ok"} 4
sidekerb_handshakes_total{upstream="a",hop="origin",scheme="ntlm",result="rejected"} 1
sidekerb_handshakes_total_other{result="ok"} 50
sidekerb_pool_lease_requests_total{upstream="a",result="new"} 7
sidekerb_pool_lease_requests_total{upstream="a",result="hit"} 90
`);
  assert.deepEqual(proof, { logins: 7, failedLogins: 1, hits: 90, leases: 97 });
});

test('without such counters nothing is proved', () => {
  assert.deepEqual(readLoginProof(''), { logins: 0, failedLogins: 0, hits: 0, leases: 0 });
});

test('a script sends what its case says and calls no Lua for a request', () => {
  for (const one of CASES) {
    const script = wrkScript(one);
    assert.ok(script.startsWith(`wrk.method = "${one.method}"\n`), one.name);
    assert.equal(script.split('wrk.headers[').length - 1, one.fields, one.name);
    assert.equal(script.includes(`string.rep("x", ${one.requestBytes})`), one.requestBytes > 0);
    assert.doesNotMatch(script, /function (request|response|delay)/, one.name);
  }
});
