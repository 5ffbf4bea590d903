/**
 * `npm run bench`: starts everything, measures, prints. Ends with 0, with 1 when a point is invalid or
 * something is missing that must be there, with 64 for a bad command line, with 130 or 143 after a signal.
 */

import { writeFile } from 'node:fs/promises';
import { parseArguments, USAGE, type BenchPlan } from './arguments.ts';
import { checkLoginIsAsked, proveLogins, type LoginProof } from './checks.ts';
import { chooseCores, describeMachine } from './machine.ts';
import { formatFaultyPoints, formatReport } from './report.ts';
import { runRounds } from './rounds.ts';
import { compare, geometricMeans, summarise, type Point } from './statistics.ts';
import { SUBJECTS } from './subjects/all.ts';
import { extendedPath, findMissing, formatMissing, type Requirement } from './tools.ts';
import { World } from './world.ts';

/** The longest that a whole run may take. */
const RUN_MS = 45 * 60_000;

const WRK: Requirement = { by: 'load', program: 'wrk', debianPackage: 'wrk' };
const TASKSET: Requirement = { by: 'pinning', program: 'taskset', debianPackage: 'util-linux' };

async function main(args: readonly string[]): Promise<number> {
  let wanted: BenchPlan;
  try {
    wanted = parseArguments(args);
  } catch (error) {
    say(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 64;
  }
  process.env['PATH'] = extendedPath(process.env['PATH'] ?? '');
  const plan = withoutMissing(wanted);
  if (plan === undefined) return 1;
  const cores = chooseCores();
  const world = await World.create(cores);
  const stopWatching = endOnSignals(world);
  const overdue = setTimeout(() => void world.close(), RUN_MS);
  try {
    await world.start(plan.subjects);
    const [anyCase] = plan.cases;
    if (anyCase !== undefined) await checkLoginIsAsked(world.ntlmOriginPort, anyCase);
    const points = await runRounds({ world, plan, cores, onPoint: showProgress });
    const proof = await proveLogins(world.adminPort);
    return await publish(points, proof, plan);
  } finally {
    clearTimeout(overdue);
    await world.close();
    stopWatching();
  }

  async function publish(
    points: readonly Point[],
    proof: LoginProof,
    { jsonFile }: BenchPlan,
  ): Promise<number> {
    const ratios = compare(points);
    const report = {
      machine: describeMachine(cores),
      results: summarise(points),
      ratios,
      geometricMeans: geometricMeans(ratios),
      upstreamLogins: proof,
    };
    clearProgress();
    process.stdout.write(`\n${formatReport(report)}`);
    process.stdout.write(
      `\nsidekerb's upstream was authenticated: ${proof.logins} NTLM logins, ${proof.failedLogins} failed, ${proof.hits} of ${proof.leases} requests found a connection that was logged in.\n`,
    );
    if (jsonFile !== undefined) await writeFile(jsonFile, `${JSON.stringify(report, null, 2)}\n`);
    const faulty = formatFaultyPoints(points);
    say(faulty);
    return faulty === '' ? 0 : 1;
  }
}

/** The plan without peers that cannot run here; undefined when the run may not go on. */
function withoutMissing(plan: BenchPlan): BenchPlan | undefined {
  const tools = chooseCores().proxy === undefined ? [WRK] : [WRK, TASKSET];
  const missingTools = findMissing(tools, process.env['PATH'] ?? '');
  const missingPeers = findMissing(
    plan.subjects.flatMap((name) => {
      const { requires } = SUBJECTS[name];
      return requires === undefined ? [] : { by: name, ...requires };
    }),
    process.env['PATH'] ?? '',
  );
  for (const missing of missingTools) say(`${formatMissing(missing)}\n`);
  for (const missing of missingPeers) say(`${formatMissing(missing)}; it is left out\n`);
  if (missingTools.length > 0) return undefined;
  if (missingPeers.length > 0 && process.env['CI'] === 'true') {
    say('under CI=true every peer must be there\n');
    return undefined;
  }
  const absent = new Set<string>(missingPeers.map(({ by }) => by));
  return { ...plan, subjects: plan.subjects.filter((name) => !absent.has(name)) };
}

/** Ends the run's processes, then this one, as the signal asks. */
function endOnSignals(world: World): () => void {
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
  const listeners = Object.entries(codes).map(([signal, code]) => {
    const listener = (): void => {
      void world.close().finally(() => process.exit(code));
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
