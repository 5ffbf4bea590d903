/** The cases of the forward proxy: what the command line makes of them, and what their load programs say. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { parseArguments } from '../../../bench/arguments.ts';
import { forwardConfig } from '../../../bench/forward/sidekerb.ts';
import { formatOrder, parseOrder, sendPieces } from '../../../bench/load/orders.ts';
import { parseWork, runContest, type Work } from '../../../bench/scenarios/contestant.ts';
import { forwardScript } from '../../../bench/scenarios/forwarding.ts';
import { gatewayConfig, jwtClient, readingClients, tokenScript } from '../../../bench/callers.ts';
import { createBenchIssuer } from '../../../bench/micro/jwt-decoder.ts';
import { measureMicro, type MicroResult } from '../../../bench/micro/micro.ts';
import { formatMicro } from '../../../bench/micro/report.ts';
import { describeStart, formatStarts } from '../../../bench/scenarios/cold-start.ts';
import { labOf } from '../../../bench/scenarios/run.ts';
import { formatFaults } from '../../../src/config/faults.ts';
import { loadText } from '../../../src/config/load.ts';
import { systemIo } from '../../../src/config/secrets.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

function chosen(args: readonly string[]): string[] {
  return parseArguments(args).scenarios.map((one) => `${one.name}: ${one.subjects.join(' ')}`);
}

test('a whole run and a quick one have every case of the forward proxy', () => {
  const all = [
    'jwt-http-1: sidekerb cache-off',
    'jwt-http-10: sidekerb cache-off',
    'jwt-cold: sidekerb cache-off no-callers',
    'headers-read: sidekerb fields-unread fields-passed-on',
    'h2-tiny: sidekerb nginx-h2 http-proxy-3-h2',
    'jwt-h2-1: sidekerb cache-off',
    'jwt-h2-10: sidekerb cache-off',
    'jwt-h2-cold: sidekerb cache-off',
    'tls-rsa-12: sidekerb decrypt-2048 decrypt-100000',
    'tls-rsa-13: sidekerb decrypt-2048 decrypt-100000',
    'tls-ec-12: sidekerb decrypt-2048 decrypt-100000',
    'tls-ec-13: sidekerb decrypt-2048 decrypt-100000',
    'tls-resumed-12: sidekerb',
    'tls-resumed-13: sidekerb',
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

test('a cold start is told by its rates, and by when they were first those of the steady state', () => {
  // 100 requests in each tenth, but fewer in the first two; then 1000 a second.
  const samples = [{ at: 0, requests: 0 }];
  for (let tenth = 1; tenth <= 20; tenth += 1) {
    const before = samples.at(-1)?.requests ?? 0;
    samples.push({ at: tenth * 100, requests: before + (tenth <= 2 ? 50 : 100) });
  }
  for (let second = 3; second <= 8; second += 1) {
    samples.push({ at: second * 1000, requests: (samples.at(-1)?.requests ?? 0) + 1000 });
  }
  const start = describeStart('sidekerb', samples);
  assert.equal(start.steady, 1000);
  assert.equal(start.fullAfterMs, 300);
  assert.deepEqual(start.seconds.map(Math.round), [900, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
  assert.equal(
    describeStart(
      'x',
      samples.filter(({ at }) => at <= 200 || at > 2000),
    ).fullAfterMs,
    undefined,
  );
  // Requests of one tenth to the next, 94 in the third: nearly is not full speed.
  const nearly = samples.map(({ at, requests }) => {
    return { at, requests: requests - (at >= 300 ? 6 : 0) };
  });
  assert.equal(describeStart('x', nearly).fullAfterMs, 400);
  const text = formatStarts([
    start,
    { ...start, fullAfterMs: 500 },
    { ...start, fullAfterMs: 700 },
  ]);
  assert.match(text, /median of the starts:\n {2}sidekerb: after 500 ms\n$/);
  assert.equal(formatStarts([]), '');
});

test('the gateways of the callers’ cases have sound configurations', () => {
  const keys = join(temporaryFolder(), 'bench-keys.json');
  writeFileSync(keys, createBenchIssuer().jwks);
  const ports = { port: 1, adminPort: 2, originPort: 3 };
  for (const settings of [
    { ...ports, clients: jwtClient(keys, 'off') },
    { ...ports, clients: readingClients(['X-A', 'X-B']), route: ', rewriteCookies: true' },
    { ...ports, clients: 'none', identityHeaders: ['X-A'] },
  ]) {
    const { faults } = loadText('f', gatewayConfig(settings), systemIo);
    assert.equal(formatFaults(faults), '0 faults\n');
  }
});

test('each thread of the load is a client with tokens of its own', () => {
  const script = tokenScript(['a', 'b', 'c', 'd'], 2, '-- done\n');
  assert.match(script, /local tokens = \{ "a", "b", "c", "d" \}/);
  assert.match(script, /thread:set\("first", threads \* 2\)/);
  assert.ok(script.endsWith('-- done\n'));
});

test('costs of calls stand beside what they are compared with, and beside the source', () => {
  const result = (subject: string, nsPerCall: number): MicroResult => {
    return { case: 'jwt-decoder', subject, nsPerCall, bytesPerCall: 1 };
  };
  const text = formatMicro([result('one token', 100), result('cache off', 50_000)]);
  assert.match(text, /one token +100\.0 +1\.0 +500 x +0\.078 us \(640 x\)\n/);
  assert.match(text, /cache off +50000\.0 +1\.0 +49\.9 us\n/);
  assert.equal(formatMicro([]), '');
});

test('costs are measured for every subject, and the preparation is not in them', async () => {
  let prepared = 0;
  const [cheap, dear] = await measureMicro(
    {
      name: 'x',
      subjects: [
        { name: 'cheap', calls: 1000, prepare: () => () => undefined },
        {
          name: 'dear',
          calls: 10,
          prepare: () => {
            prepared += 1;
            return () => void Array.from({ length: 100_000 }, (_, i) => ({ i }));
          },
        },
      ],
    },
    3,
  );
  assert.ok(cheap !== undefined && dear !== undefined);
  assert.ok(dear.bytesPerCall > 1000 * Math.max(1, cheap.bytesPerCall));
  assert.equal(prepared, 6);
});
