/**
 * Costs of single calls: ns and bytes of each, of the code as it is and of what it is compared with, in
 * rounds that take turns. A case runs in a process of its own, so that nothing else has shaped the code
 * that is compiled for it.
 */

import { getHeapStatistics } from 'node:v8';
import { median } from '../statistics.ts';

export interface MicroSubject {
  /** As it stands in the output. */
  readonly name: string;
  /** Makes what one run of `calls` needs, which is not measured; answers the run. */
  readonly prepare: (calls: number) => () => void | Promise<void>;
  /** Calls of one run; default `CALLS`. */
  readonly calls?: number;
}

export interface MicroCase {
  readonly name: string;
  readonly subjects: readonly MicroSubject[];
}

/** Medians over the rounds. */
export interface MicroResult {
  readonly case: string;
  readonly subject: string;
  readonly nsPerCall: number;
  readonly bytesPerCall: number;
}

const CALLS = 200_000;
const WARM_UPS = 3;

export async function measureMicro(one: MicroCase, rounds: number): Promise<MicroResult[]> {
  const runs = one.subjects.map((subject) => ({
    subject,
    ns: new Array<number>(),
    bytes: new Array<number>(),
  }));
  for (const { subject } of runs) {
    for (let turn = 0; turn < WARM_UPS; turn += 1) await runOnce(subject);
  }
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? runs : runs.toReversed();
    for (const { subject, ns, bytes } of order) {
      const cost = await runOnce(subject);
      ns.push(cost.ns);
      bytes.push(cost.bytes);
    }
  }
  return runs.map(({ subject, ns, bytes }) => ({
    case: one.name,
    subject: subject.name,
    nsPerCall: median(ns),
    bytesPerCall: median(bytes),
  }));
}

interface Cost {
  readonly ns: number;
  readonly bytes: number;
}

/** V8 counts what it has handed out, collected since or not. */
async function runOnce({ prepare, calls = CALLS }: MicroSubject): Promise<Cost> {
  const run = prepare(calls);
  const allocated = getHeapStatistics().total_allocated_bytes;
  const start = process.hrtime.bigint();
  const running = run();
  if (running !== undefined) await running;
  const ns = Number(process.hrtime.bigint() - start);
  const bytes = getHeapStatistics().total_allocated_bytes - allocated;
  return { ns: ns / calls, bytes: bytes / calls };
}
