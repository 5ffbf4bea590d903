/** What the numbers were measured on, and which cores are for whom. */

import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** Cores of a run; both undefined where there is only one. */
export interface Cores {
  readonly proxy: number | undefined;
  /** For wrk and the origins. */
  readonly load: number | undefined;
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryMiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly pinned: boolean;
}

/** The first two cores that this process may use. */
export function chooseCores(): Cores {
  const [proxy, load] = allowedCores();
  return load === undefined ? { proxy: undefined, load: undefined } : { proxy, load };
}

export function describeMachine(cores: Cores): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: allowedCores().length,
    memoryMiB: Math.round(totalmem() / 1024 / 1024),
    kernel: release(),
    node: process.version,
    pinned: cores.proxy !== undefined,
  };
}

function allowedCores(): number[] {
  const status = readFileSync('/proc/self/status', 'utf8');
  return parseCoreList(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '0');
}

/** `0-2,5` as numbers (cpuset(7), List format). */
export function parseCoreList(text: string): number[] {
  return text.split(',').flatMap((part) => {
    const [first = 0, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
