/** What a process tree uses while something is done to it. */

import type { Cores } from './machine.ts';
import { coreBusySeconds, treeCpuSeconds } from './process-tree.ts';

export interface Usage<T> {
  readonly result: T;
  /** Of the whole tree, user and system. */
  readonly cpuSeconds: number;
  /** Share of the proxy's core that others used meanwhile, 0 to 1. */
  readonly foreignShare: number;
}

/** Runs `work` and tells what the tree of `pid` used meanwhile. */
export async function measureUsage<T>(
  pid: number,
  cores: Cores,
  work: () => Promise<T>,
): Promise<Usage<T>> {
  const busy = (): number => (cores.proxy === undefined ? 0 : coreBusySeconds(cores.proxy));
  const before = { cpu: treeCpuSeconds(pid), busy: busy(), at: performance.now() };
  const result = await work();
  const cpuSeconds = treeCpuSeconds(pid) - before.cpu;
  const elapsed = (performance.now() - before.at) / 1000;
  const foreignShare = Math.max(0, busy() - before.busy - cpuSeconds) / elapsed;
  return { result, cpuSeconds, foreignShare };
}
