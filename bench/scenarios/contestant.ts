/** One subject in one case, ready to be measured; and the schedule of rounds over all of them. */

import type { Cores } from '../machine.ts';
import { measureUsage } from '../measure.ts';
import type { Point } from '../statistics.ts';

/** What was done in one measurement. */
export interface Work {
  readonly requests: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Where the load knows better what was used than the run can see. */
  readonly cpuSeconds?: number;
  /** With `cpuSeconds`: what others used of the proxy's core meanwhile, where that is known. */
  readonly foreignShare?: number;
  /** Why it does not count. */
  readonly fault: string | undefined;
}

export interface Contestant {
  readonly name: string;
  /** Root of the process tree whose CPU is counted. */
  readonly pid: number;
  /** Puts the load on once. */
  readonly run: (connections: number) => Promise<Work>;
  /** How often the load is put on before it counts. */
  readonly warmUps: number;
}

export interface ContestFacts {
  readonly name: string;
  readonly connections: readonly number[];
  readonly rounds: number;
  readonly cores: Cores;
  readonly onPoint: (point: Point) => void;
}

/** Warms all up, then measures each once per round, in an order that is reversed from round to round. */
export async function runContest(
  facts: ContestFacts,
  contestants: readonly Contestant[],
): Promise<Point[]> {
  for (const { run, warmUps } of contestants) {
    for (let turn = 0; turn < warmUps; turn += 1) await run(Math.max(...facts.connections));
  }
  const points: Point[] = [];
  for (let round = 1; round <= facts.rounds; round += 1) {
    const order = round % 2 === 1 ? contestants : contestants.toReversed();
    for (const connections of facts.connections) {
      for (const contestant of order) {
        const point = await measure(facts, contestant, { connections, round });
        points.push(point);
        facts.onPoint(point);
      }
    }
  }
  return points;
}

async function measure(
  { name, cores }: ContestFacts,
  contestant: Contestant,
  { connections, round }: { readonly connections: number; readonly round: number },
): Promise<Point> {
  const usage = await measureUsage(contestant.pid, cores, () => contestant.run(connections));
  const { result } = usage;
  const cpuSeconds = result.cpuSeconds ?? usage.cpuSeconds;
  // Of a process that comes and goes with its load only the load may know what else was on the core.
  const foreignShare = result.cpuSeconds === undefined ? usage.foreignShare : result.foreignShare;
  return {
    subject: contestant.name,
    case: name,
    connections,
    round,
    rps: result.requests / result.seconds,
    cpuSeconds,
    requests: result.requests,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    foreignShare: foreignShare ?? 0,
    fault: result.fault ?? (cpuSeconds > 0 ? undefined : 'no CPU was used'),
  };
}

/** Reads what a load program of `load/` or `peers/` printed; throws an Error that shows it when it is not that. */
export function parseWork(output: string): Work {
  const parsed: unknown = JSON.parse(output);
  const found = new Map<string, unknown>(
    typeof parsed === 'object' && parsed !== null ? Object.entries(parsed) : [],
  );
  const number = (name: string): number => {
    const value = found.get(name);
    if (typeof value !== 'number' || !(value >= 0)) throw new Error(`no ${name}: ${output.trim()}`);
    return value;
  };
  return {
    requests: number('requests'),
    seconds: number('seconds'),
    p50Ms: number('p50Ms'),
    p99Ms: number('p99Ms'),
    ...(found.has('cpuSeconds') ? { cpuSeconds: number('cpuSeconds') } : {}),
    fault: undefined,
  };
}
