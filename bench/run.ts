/**
 * `npm run bench`: starts everything, measures, prints. Ends with 0, with 1 when a point is invalid or
 * something is missing that must be there, with 64 for a bad command line, with 130 or 143 after a signal.
 */

import { writeFile } from 'node:fs/promises';
import { parseArguments, USAGE, type BenchPlan } from './arguments.ts';
import { withoutMissing } from './available.ts';
import { checkLoginIsAsked, proveLogins, type LoginProof } from './checks.ts';
import { chooseCores, describeMachine, type Cores } from './machine.ts';
import { formatMicro, runMicro } from './micro/report.ts';
import { formatFaultyPoints, formatReport, formatSources } from './report.ts';
import { runRounds } from './rounds.ts';
import { type ColdStart, formatStarts } from './scenarios/cold-start.ts';
import { runScenarios } from './scenarios/run.ts';
import { Stage } from './scenarios/stage.ts';
import { compare, geometricMeans, summarise, type Point } from './statistics.ts';
import { extendedPath } from './tools.ts';
import { World } from './world.ts';

/** The longest that a whole run may take. */
const RUN_MS = 60 * 60_000;

async function main(args: readonly string[]): Promise<number> {
  let wanted: BenchPlan;
  try {
    wanted = parseArguments(args);
  } catch (error) {
    say(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 64;
  }
  process.env['PATH'] = extendedPath(process.env['PATH'] ?? '');
  const plan = await withoutMissing(wanted, process.env['PATH'] ?? '', say);
  if (plan === undefined) return 1;
  const cores = chooseCores();
  // Before this process is put on a core of the load.
  const machine = describeMachine(cores);
  const { points: reversed, proof } = await measureReverse(plan, cores);
  const starts: ColdStart[] = [];
  const forwarded = await measureScenarios(plan, cores, (start) => starts.push(start));
  const points = [...reversed, ...forwarded];
  const handshakes = forwarded.filter((point) => point.case.startsWith('tls-'));
  const micro = await runMicro(plan.micro);
  const report = {
    machine,
    results: summarise(points),
    ratios: compare(points),
    // Of the reverse proxy's cases, and of full handshakes; each peer is in one of them.
    geometricMeans: [...geometricMeans(compare(reversed)), ...geometricMeans(compare(handshakes))],
    ...(micro.length === 0 ? {} : { micro }),
    ...(starts.length === 0 ? {} : { coldStarts: starts }),
    ...(proof === undefined ? {} : { upstreamLogins: proof }),
  };
  clearProgress();
  process.stdout.write(
    `\n${formatReport(report)}${formatSources(points)}${formatStarts(starts)}${formatMicro(micro)}${formatProof(proof)}`,
  );
  const { jsonFile } = plan;
  if (jsonFile !== undefined) await writeFile(jsonFile, `${JSON.stringify(report, null, 2)}\n`);
  const faulty = formatFaultyPoints(points);
  say(faulty);
  return faulty === '' ? 0 : 1;
}

interface Reversed {
  readonly points: readonly Point[];
  readonly proof: LoginProof | undefined;
}

async function measureReverse(plan: BenchPlan, cores: Cores): Promise<Reversed> {
  if (plan.cases.length === 0) return { points: [], proof: undefined };
  return whileRunning(await World.create(cores), async (world) => {
    await world.start(plan.subjects);
    const [anyCase] = plan.cases;
    if (anyCase !== undefined) await checkLoginIsAsked(world.ntlmOriginPort, anyCase);
    const points = await runRounds({ world, plan, cores, onPoint: showProgress });
    return { points, proof: await proveLogins(world.adminPort) };
  });
}

async function measureScenarios(
  plan: BenchPlan,
  cores: Cores,
  onStart: (start: ColdStart) => void,
): Promise<readonly Point[]> {
  if (plan.scenarios.length === 0) return [];
  return whileRunning(await Stage.create(cores), (stage) =>
    runScenarios({ ...plan, stage, onPoint: showProgress, onStart }),
  );
}

/** Runs `work`; whatever happens, what it runs on is closed. */
async function whileRunning<T extends { close(): Promise<void> }, R>(
  running: T,
  work: (running: T) => Promise<R>,
): Promise<R> {
  const stopWatching = endOnSignals(running);
  const overdue = setTimeout(() => void running.close(), RUN_MS);
  try {
    return await work(running);
  } finally {
    clearTimeout(overdue);
    await running.close();
    stopWatching();
  }
}

function formatProof(proof: LoginProof | undefined): string {
  if (proof === undefined) return '';
  const { logins, failedLogins, hits, leases } = proof;
  return `\nsidekerb's upstream was authenticated: ${logins} NTLM logins, ${failedLogins} failed, ${hits} of ${leases} requests found a connection that was logged in.\n`;
}

/** Ends the run's processes, then this one, as the signal asks. */
function endOnSignals(running: { close(): Promise<void> }): () => void {
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
  const listeners = Object.entries(codes).map(([signal, code]) => {
    const listener = (): void => {
      void running.close().finally(() => process.exit(code));
    };
    process.on(signal, listener);
    return () => process.off(signal, listener);
  });
  return () => listeners.forEach((remove) => remove());
}

function showProgress(point: Point): void {
  if (!process.stderr.isTTY) return;
  process.stderr.write(
    `\r\u001B[Kround ${point.round}: ${point.subject}, ${point.case}, ${point.connections} connections`,
  );
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\u001B[K');
}

function say(text: string): void {
  process.stderr.write(text);
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  say(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  return 1;
});
