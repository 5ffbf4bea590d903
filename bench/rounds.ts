/**
 * The schedule of a run: in each round every load is put on every subject, one after the other, in an
 * order that is reversed from round to round, so that drift of the machine hits nobody alone.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchPlan } from './arguments.ts';
import { wrkScript, type BenchCase } from './cases.ts';
import { checkAnswers, type Answer } from './checks.ts';
import type { Cores } from './machine.ts';
import { measureUsage } from './measure.ts';
import type { Point } from './statistics.ts';
import type { RunningSubject, World } from './world.ts';
import { findWrkFault, parseWrkOutput, type WrkResult } from './wrk.ts';

/** What wrk may take longer than it was told. */
const WRK_EXTRA_MS = 10_000;

/** By then the compiler of Node has settled; a guess from profiles. */
const WARM_REQUESTS = 15_000;

export interface RoundsDeps {
  readonly world: World;
  readonly plan: BenchPlan;
  readonly cores: Cores;
  /** Told of every point as it is done. */
  readonly onPoint: (point: Point) => void;
}

/** Measures everything once per round. Throws when a subject's answers are not the origin's. */
export async function runRounds(deps: RoundsDeps): Promise<Point[]> {
  const { world, plan } = deps;
  const loads = await prepare(deps);
  await warmUp(deps, loads);
  const points: Point[] = [];
  for (let round = 1; round <= plan.rounds; round += 1) {
    const subjects = round % 2 === 1 ? world.subjects : world.subjects.toReversed();
    for (const load of loads) {
      for (const connections of load.case.connections) {
        for (const subject of subjects) {
          const point = await measure(deps, load, { subject, connections, round });
          points.push(point);
          deps.onPoint(point);
        }
      }
    }
  }
  return points;
}

interface Load {
  readonly case: BenchCase;
  readonly script: string;
  readonly expected: Answer;
}

async function prepare({ world, plan }: RoundsDeps): Promise<Load[]> {
  const loads: Load[] = [];
  for (const one of plan.cases) {
    const expected = await checkAnswers(one, world.openOriginPort, world.subjects);
    const script = join(world.group.folder, `${one.name}.lua`);
    await writeFile(script, wrkScript(one));
    loads.push({ case: one, script, expected });
  }
  return loads;
}

/**
 * Compiles what is compiled at run time, and opens and logs in the connections of the largest load. On
 * a machine that others use too a second may be few requests: it is repeated, within bounds.
 */
async function warmUp({ world, plan }: RoundsDeps, loads: readonly Load[]): Promise<void> {
  const end = performance.now() + plan.warmUpSeconds * 1000;
  for (const load of loads) {
    const connections = Math.max(...load.case.connections);
    for (const subject of world.subjects) {
      const target = { subject, connections };
      let requests = 0;
      do requests += (await runWrk(world, load, target, 1)).requests;
      while (requests < WARM_REQUESTS && performance.now() < end);
    }
  }
}

interface Target {
  readonly subject: RunningSubject;
  readonly connections: number;
}

async function measure(
  { world, plan, cores }: RoundsDeps,
  load: Load,
  target: Target & { readonly round: number },
): Promise<Point> {
  const { subject, connections, round } = target;
  const { result, cpuSeconds, foreignShare } = await measureUsage(subject.child.pid, cores, () =>
    runWrk(world, load, target, plan.seconds),
  );
  return {
    subject: subject.name,
    case: load.case.name,
    connections,
    round,
    rps: result.requests / (result.microseconds / 1e6),
    cpuSeconds,
    requests: result.requests,
    p50Ms: result.p50 / 1000,
    p99Ms: result.p99 / 1000,
    foreignShare,
    fault: findPointFault(result, load, cpuSeconds),
  };
}

function findPointFault(result: WrkResult, load: Load, cpuSeconds: number): string | undefined {
  const { body, headBytes } = load.expected;
  const sizes = { bodyBytes: body.length, answerBytes: body.length + headBytes };
  if (cpuSeconds <= 0) return 'the process used no CPU, or has ended';
  return findWrkFault(result, sizes);
}

async function runWrk(
  world: World,
  load: Load,
  { subject, connections }: Target,
  seconds: number,
): Promise<WrkResult> {
  const url = `http://127.0.0.1:${subject.port}${load.case.path}`;
  const size = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`];
  const args = [...size, '--timeout', '5s', '-s', load.script, url];
  return parseWrkOutput(await world.group.runLoad('wrk', args, seconds * 1000 + WRK_EXTRA_MS));
}
