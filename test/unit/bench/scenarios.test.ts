/** The cases of the forward proxy: what the command line makes of them, and what their load programs say. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseArguments } from '../../../bench/arguments.ts';
import { forwardConfig } from '../../../bench/forward/sidekerb.ts';
import { formatOrder, parseOrder, sendPieces } from '../../../bench/load/orders.ts';
import { parseWork, runContest, type Work } from '../../../bench/scenarios/contestant.ts';
import { forwardScript } from '../../../bench/scenarios/forwarding.ts';
import { labOf } from '../../../bench/scenarios/run.ts';

function chosen(args: readonly string[]): string[] {
  return parseArguments(args).scenarios.map((one) => `${one.name}: ${one.subjects.join(' ')}`);
}

test('a whole run and a quick one have every case of the forward proxy', () => {
  const all = [
    'tokens: sidekerb',
    'ntlm-parent: sidekerb cntlm',
    'ntlm-origin: sidekerb cypress-ntlm-auth',
    'kerberos-parent: sidekerb squid',
    'tunnel-1g-down: sidekerb haproxy squid tinyproxy cntlm',
    'tunnel-1g-up: sidekerb haproxy squid tinyproxy cntlm',
    'tunnel-short: sidekerb haproxy squid tinyproxy cntlm',
  ];
  assert.deepEqual(chosen([]), all);
  assert.deepEqual(chosen(['--quick']), all);
});

test('only such a case: nothing of the reverse proxy is measured', () => {
  const plan = parseArguments(['--only', 'ntlm-parent']);
  assert.deepEqual(plan.cases, []);
  assert.deepEqual(chosen(['--only', 'ntlm-parent']), ['ntlm-parent: sidekerb cntlm']);
});

test('only a case of the reverse proxy: no other is measured', () => {
  assert.deepEqual(chosen(['--only', 'tiny']), []);
});

test('only a peer of forward proxies: its cases, with sidekerb beside it', () => {
  const plan = parseArguments(['--only', 'cntlm']);
  assert.deepEqual(plan.cases, []);
  assert.deepEqual(chosen(['--only', 'cntlm']), [
    'ntlm-parent: sidekerb cntlm',
    'tunnel-1g-down: sidekerb cntlm',
    'tunnel-1g-up: sidekerb cntlm',
    'tunnel-short: sidekerb cntlm',
  ]);
});

test('the lab is needed where there is a parent', () => {
  const needed = parseArguments([]).scenarios.filter((one) => labOf(one).length > 0);
  assert.deepEqual(
    needed.map(({ name }) => name),
    ['tokens', 'ntlm-parent', 'kerberos-parent', 'tunnel-1g-down', 'tunnel-1g-up', 'tunnel-short'],
  );
  const [tunnel] = parseArguments(['--only', 'haproxy', '--only', 'tunnel-short']).scenarios;
  assert.deepEqual(tunnel && labOf(tunnel), []);
});

test('an order survives its line, and nothing else is an order', () => {
  const order = { job: 'up', bytes: 1_073_741_824 } as const;
  assert.deepEqual(parseOrder(formatOrder(order).trim()), order);
  for (const line of ['', 'up', 'up x', 'sideways 5', 'up 5 ', 'up 1234567890123']) {
    assert.equal(parseOrder(line), undefined, line);
  }
});

test('pieces add up to what was ordered, with a stop wherever the socket is full', () => {
  const sizes: number[] = [];
  const goOn = sendPieces(600_000, (piece) => {
    sizes.push(piece.length);
    return false;
  });
  goOn();
  assert.deepEqual(sizes, [262_144]);
  for (let turn = 0; turn < 5; turn += 1) goOn();
  assert.deepEqual(sizes, [262_144, 262_144, 75_712]);
});

test('wrk is told to send the whole address of the target and its Host', () => {
  const script = forwardScript('http://127.0.0.1:8080/');
  assert.ok(script.includes('wrk.path = "http://127.0.0.1:8080/"\n'));
  assert.ok(script.includes('wrk.headers["Host"] = "127.0.0.1:8080"\n'));
});

test('what a load program printed is read, and anything else is refused', () => {
  const line = '{"requests":3,"seconds":1.5,"p50Ms":2,"p99Ms":4,"cpuSeconds":0.5}';
  const work = { requests: 3, seconds: 1.5, p50Ms: 2, p99Ms: 4, cpuSeconds: 0.5, fault: undefined };
  assert.deepEqual(parseWork(line), work);
  assert.throws(() => parseWork('{"requests":3,"seconds":1.5,"p50Ms":2}'), /no p99Ms/);
  assert.throws(() => parseWork('nothing'), SyntaxError);
});

test('each round measures all once, and every second one in the other order', async () => {
  const order: string[] = [];
  const contestant = (name: string, work: Partial<Work>, warmUps: number) => ({
    name,
    pid: process.pid,
    warmUps,
    run: () => {
      order.push(name);
      const done = { requests: 10, seconds: 2, p50Ms: 1, p99Ms: 2, cpuSeconds: 1 };
      return Promise.resolve({ ...done, fault: undefined, ...work });
    },
  });
  const cores = { proxy: undefined, load: undefined };
  const points = await runContest(
    { name: 'case', connections: [4], rounds: 2, cores, onPoint: () => undefined },
    [contestant('a', {}, 1), contestant('b', { cpuSeconds: 0 }, 0)],
  );
  assert.deepEqual(order, ['a', 'a', 'b', 'b', 'a']);
  assert.deepEqual(
    points.map(({ subject, round, rps, fault }) => [subject, round, rps, fault]),
    [
      ['a', 1, 5, undefined],
      ['b', 1, 5, 'no CPU was used'],
      ['b', 2, 5, 'no CPU was used'],
      ['a', 2, 5, undefined],
    ],
  );
});

test('the configuration of sidekerb has the parent and the login of the way', () => {
  const account = {
    user: 'bob',
    domain: 'LAB',
    password: 'not in the file',
    realm: 'LAB.TEST',
    keytab: '/lab/bob.keytab',
    krb5Config: '/lab/krb5.conf',
  };
  const context = { port: 1, folder: '/bench', core: undefined };
  const config = (scheme: 'ntlm' | 'negotiate'): string =>
    forwardConfig({ ...context, way: { kind: 'parent', port: 2, scheme, account } }, '/secret');
  assert.match(config('ntlm'), /username: "LAB\\\\bob", password: \{ file: "\/secret" \}/);
  assert.match(config('negotiate'), /kerberos: 'bob@LAB.TEST', keytab: "\/lab\/bob.keytab"/);
  for (const text of [config('ntlm'), config('negotiate')]) {
    assert.match(text, /proxy: 'http:\/\/localhost:2'\n/);
    assert.match(text, /via: \[corp\]/);
    assert.doesNotMatch(text, /not in the file/);
  }
});
