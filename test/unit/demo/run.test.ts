/**
 * The demo around a stand-in for the daemon: what it prints, how it ends, and that it says so when a
 * daemon mixes its principals. The daemon itself is in test/flow/demo.test.ts.
 */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';
import { grown, hitRate, parseLeaseCounters } from '../../../src/demo/lease-counters.ts';
import { runDemo, type DemoDaemon } from '../../../src/demo/run.ts';
import { formatTable } from '../../../src/demo/table.ts';
import { event } from '../../support/waiting.ts';

interface StandIn {
  readonly daemon: DemoDaemon;
  readonly closed: () => boolean;
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await event(server, 'listening');
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Answers as the origin would, with a socket per principal, or one for all. */
async function standIn(mixed: boolean): Promise<StandIn> {
  const sockets = new Map<string, number>();
  const counts = { hit: 0, new: 0 };
  const front = createServer((request, response) => {
    const principal = request.url?.split('/')[1] ?? '';
    const key = mixed ? 'all' : principal;
    counts[sockets.has(key) ? 'hit' : 'new'] += 1;
    if (!sockets.has(key)) sockets.set(key, sockets.size + 1);
    const user = `DEMO\\${mixed ? 'alice' : principal}`;
    request.resume();
    response.end(JSON.stringify({ user, socket: sockets.get(key) }));
  });
  const admin = createServer((_request, response) => {
    const line = (result: 'hit' | 'new'): string =>
      `sidekerb_pool_lease_requests_total{upstream="origin",result="${result}"} ${counts[result]}\n`;
    response.end(line('hit') + line('new'));
  });
  const [port, adminPort] = [await listen(front), await listen(admin)];
  let closed = false;
  const close = async (): Promise<void> => {
    closed = true;
    const gone = [event(front, 'close'), event(admin, 'close')];
    for (const server of [front, admin]) server.close().closeAllConnections();
    await Promise.all(gone);
  };
  return { daemon: { port, adminPort, close }, closed: () => closed };
}

describe('the demo', () => {
  it('prints a row per request and the hit rate, ends with 0, and leaves nothing behind', async () => {
    const { daemon, closed } = await standIn(false);
    const lines: string[] = [];
    let folder = '';
    const startDaemon = async (file: string): Promise<DemoDaemon> => {
      folder = dirname(file);
      const secrets = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
      assert.equal(new Set(secrets).size, 3, 'a configuration and two different passwords');
      return Promise.resolve(daemon);
    };
    const output = (line: string): void => void lines.push(line);
    const exit = await runDemo(
      { startDaemon },
      { once: true, output },
      new AbortController().signal,
    );
    const text = lines.join('\n');
    assert.equal(exit, 0);
    assert.equal(lines.filter((line) => /-app +(GET|POST) /.test(line)).length, 10);
    assert.match(text, /orders-app +GET \/alice\/orders\/1 +200 +alice +DEMO\\alice +1 +new\n/);
    assert.match(text, /reports-app +POST \/bob\/reports +200 +bob +DEMO\\bob +2 +hit\n/);
    assert.match(text, /8 of 10 requests, 80 %/);
    assert.equal(closed(), true);
    assert.equal(existsSync(folder), false);
  });

  it('ends with 70 and says why when two principals share a socket', async () => {
    const { daemon } = await standIn(true);
    const lines: string[] = [];
    const exit = await runDemo(
      { startDaemon: () => Promise.resolve(daemon) },
      { once: true, output: (line) => void lines.push(line) },
      new AbortController().signal,
    );
    assert.equal(exit, 70);
    assert.ok(lines.includes('WRONG: socket 1 served alice and bob'));
    assert.ok(lines.includes('WRONG: GET /bob/reports/1: status 200, user "DEMO\\alice"'));
  });

  it('stays up until it is told to end', async () => {
    const { daemon, closed } = await standIn(false);
    const end = new AbortController();
    const invited = Promise.withResolvers<undefined>();
    const output = (line: string): void => {
      if (line.startsWith('Ctrl-C')) invited.resolve(undefined);
    };
    const running = runDemo(
      { startDaemon: () => Promise.resolve(daemon) },
      { once: false, output },
      end.signal,
    );
    await invited.promise;
    assert.equal(closed(), false);
    end.abort();
    assert.equal(await running, 0);
    assert.equal(closed(), true);
  });

  it('removes its secrets when the daemon does not start', async () => {
    let folder = '';
    const startDaemon = (file: string): Promise<DemoDaemon> => {
      folder = dirname(file);
      return Promise.reject(new Error('no'));
    };
    const options = { once: true, output: (): void => undefined };
    await assert.rejects(runDemo({ startDaemon }, options, new AbortController().signal), /no/);
    assert.notEqual(folder, '');
    assert.equal(existsSync(folder), false);
  });
});

describe('lease counters', () => {
  const name = 'sidekerb_pool_lease_requests_total';

  it('are read for the upstream of the demo only', () => {
    const counters = parseLeaseCounters(
      `# TYPE ${name} counter\n${name}{upstream="origin",result="hit"} 3\n` +
        `${name}{upstream="other",result="hit"} 9\n${name}{result="new",upstream="origin"} 1\n`,
    );
    assert.deepEqual(
      [...counters],
      [
        ['hit', 3],
        ['new', 1],
      ],
    );
    assert.deepEqual(hitRate(counters), { hits: 3, all: 4 });
  });

  it('tell which result grew', () => {
    const before = new Map([['hit', 1]]);
    assert.equal(grown(before, new Map([['hit', 2]])), 'hit');
    assert.equal(
      grown(
        before,
        new Map([
          ['hit', 1],
          ['new', 1],
        ]),
      ),
      'new',
    );
    assert.equal(grown(before, before), '-');
  });
});

describe('formatTable', () => {
  it('aligns text to the left and numbers to the right', () => {
    assert.deepEqual(
      formatTable(
        ['name', 'n'],
        [
          ['a', 1],
          ['longer', 10],
        ],
      ),
      ['name    n', '------  --', 'a        1', 'longer  10'],
    );
  });
});
