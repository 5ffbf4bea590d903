/**
 * The demo: an NTLM origin, sidekerb in front of it with two principals, and two callers that know
 * nothing of logins. In order:
 *
 * 1. the origin starts, with passwords that are new in every run;
 * 2. secrets and a configuration are written, sidekerb starts from them as it always does;
 * 3. both callers send requests in turn; what the origin saw is printed as a table;
 * 4. the hit rate is read from sidekerb's own /metrics;
 * 5. with `once` everything is closed, else it stays up for trying until the signal aborts.
 */

import { Caller } from './caller.ts';
import {
  DEMO_PRINCIPALS,
  demoUser,
  randomPasswords,
  writeDemoFiles,
  type DemoPrincipal,
} from './demo-files.ts';
import { grown, hitRate, parseLeaseCounters, type LeaseCounters } from './lease-counters.ts';
import { startDemoOrigin } from './origin.ts';
import { formatTable } from './table.ts';

/** A running sidekerb; the demo closes it. */
export interface DemoDaemon {
  /** Port of the one reverse listener. */
  readonly port: number;
  /** Port of the admin listener. */
  readonly adminPort: number;
  close(): Promise<void>;
}

export interface DemoDeps {
  /** Starts sidekerb in this process from a configuration file. */
  startDaemon(configFile: string): Promise<DemoDaemon>;
}

export interface DemoOptions {
  /** Ends after the table. */
  readonly once: boolean;
  /** Takes one line of text. */
  output(line: string): void;
}

/** Exit codes as on the command line. */
export type DemoExit = 0 | 70;

/** Who asks for what, in order. Each caller uses the route of one principal. */
const RUN: readonly (readonly [DemoPrincipal, 'GET' | 'POST', string])[] = [
  ['alice', 'GET', 'orders/1'],
  ['bob', 'GET', 'reports/1'],
  ['alice', 'GET', 'orders/2'],
  ['alice', 'POST', 'orders'],
  ['bob', 'GET', 'reports/2'],
  ['alice', 'GET', 'orders/3'],
  ['bob', 'POST', 'reports'],
  ['bob', 'GET', 'reports/3'],
  ['alice', 'GET', 'orders/4'],
  ['bob', 'GET', 'reports/4'],
];

const CALLER_NAMES = { alice: 'orders-app', bob: 'reports-app' } as const satisfies Record<
  DemoPrincipal,
  string
>;

interface Row {
  readonly principal: DemoPrincipal;
  readonly request: string;
  readonly status: number;
  readonly user: string;
  readonly socket: number;
  readonly lease: string;
}

/**
 * Runs the demo. Resolves with 0, or with 70 when an answer was not what it must be: another user
 * than the principal's, or one upstream socket for both. Rejects when something cannot start, or with
 * the reason of `signal` when it aborts before the table is complete. All that was started is closed,
 * and the secrets are removed, on every way out.
 */
export async function runDemo(
  deps: DemoDeps,
  options: DemoOptions,
  signal: AbortSignal,
): Promise<DemoExit> {
  const passwords = randomPasswords();
  await using ends = new AsyncDisposableStack();
  const origin = await startDemoOrigin({
    port: 0,
    mode: 'story',
    passwords: Object.fromEntries(DEMO_PRINCIPALS.map((name) => [demoUser(name), passwords[name]])),
  });
  ends.defer(() => origin.close());
  const files = await writeDemoFiles(origin.port, passwords);
  ends.defer(() => files.remove());
  const daemon = await deps.startDaemon(files.configFile);
  ends.defer(() => daemon.close());
  options.output(`NTLM origin on 127.0.0.1:${origin.port}, sidekerb in front on ${daemon.port}.\n`);
  const rows = await callInTurn(daemon, signal);
  const exit = report(rows, await readCounters(daemon, signal), options);
  if (options.once) return exit;
  invite(daemon, options);
  await aborted(signal);
  return exit;
}

async function callInTurn(daemon: DemoDaemon, signal: AbortSignal): Promise<Row[]> {
  using ends = new DisposableStack();
  const callers = new Map<DemoPrincipal, Caller>();
  for (const principal of DEMO_PRINCIPALS) {
    const caller = new Caller(CALLER_NAMES[principal], daemon.port);
    ends.defer(() => caller.close());
    callers.set(principal, caller);
  }
  const rows: Row[] = [];
  let counters = await readCounters(daemon, signal);
  for (const [principal, method, path] of RUN) {
    const answer = await callers.get(principal)?.ask(method, `/${principal}/${path}`, signal);
    const after = await readCounters(daemon, signal);
    rows.push({
      principal,
      request: `${method} /${principal}/${path}`,
      status: answer?.status ?? 0,
      ...readStory(answer?.body ?? ''),
      lease: grown(counters, after),
    });
    counters = after;
  }
  return rows;
}

/** What the origin said it saw; an answer that is not the origin's has no user and socket 0. */
function readStory(body: string): { user: string; socket: number } {
  try {
    const story: unknown = JSON.parse(body);
    if (typeof story === 'object' && story !== null && 'user' in story && 'socket' in story) {
      return { user: String(story.user), socket: Number(story.socket) };
    }
  } catch {
    // Not JSON: an error answer in plain text. The row shows its status.
  }
  return { user: '', socket: 0 };
}

async function readCounters(daemon: DemoDaemon, signal: AbortSignal): Promise<LeaseCounters> {
  const reader = new Caller('metrics', daemon.adminPort);
  try {
    const { body } = await reader.ask('GET', '/metrics', signal);
    return parseLeaseCounters(body);
  } finally {
    reader.close();
  }
}

function report(rows: readonly Row[], counters: LeaseCounters, options: DemoOptions): DemoExit {
  const head = ['caller', 'request', 'status', 'principal', 'user seen', 'socket', 'connection'];
  const cells = rows.map((row) => [
    CALLER_NAMES[row.principal],
    row.request,
    row.status,
    row.principal,
    row.user,
    row.socket,
    row.lease,
  ]);
  for (const line of formatTable(head, cells)) options.output(line);
  const { hits, all } = hitRate(counters);
  const share = all === 0 ? 0 : Math.round((100 * hits) / all);
  options.output(`\nHit rate from /metrics: ${hits} of ${all} requests, ${share} %.`);
  const wrong = complaints(rows);
  for (const complaint of wrong) options.output(`WRONG: ${complaint}`);
  return wrong.length === 0 ? 0 : 70;
}

function complaints(rows: readonly Row[]): string[] {
  const wrong = rows
    .filter((row) => row.status !== 200 || row.user !== demoUser(row.principal))
    .map((row) => `${row.request}: status ${row.status}, user "${row.user}"`);
  const owners = new Map<number, DemoPrincipal>();
  for (const { socket, principal } of rows) {
    const owner = owners.get(socket) ?? principal;
    owners.set(socket, owner);
    if (owner !== principal) wrong.push(`socket ${socket} served ${owner} and ${principal}`);
  }
  return wrong;
}

function invite(daemon: DemoDaemon, options: DemoOptions): void {
  const lines = [
    '',
    'Try it (no login needed, sidekerb has it):',
    ...DEMO_PRINCIPALS.map((name) => `  curl http://127.0.0.1:${daemon.port}/${name}/hello`),
    `  curl http://127.0.0.1:${daemon.adminPort}/api/pools`,
    `  curl -s http://127.0.0.1:${daemon.adminPort}/metrics | grep lease_requests`,
    `Status page: http://127.0.0.1:${daemon.adminPort}/`,
    'Ctrl-C ends the demo.',
  ];
  for (const line of lines) options.output(line);
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const done = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => done.resolve(), { once: true });
  await done.promise;
}
