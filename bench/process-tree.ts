/** CPU time and memory of a process with all its descendants, from /proc. Linux only. */

import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  /** Own time, and that of children that have ended and were waited for. Clock ticks. */
  readonly ticks: number;
  /** Time of the start since boot, in clock ticks: with the pid it names one process for good. */
  readonly startTicks: number;
  readonly rssPages: number;
  /** It has ended, and its parent has not asked how. */
  readonly zombie: boolean;
}

/** USER_HZ, which /proc uses on every architecture that Node runs on. */
export const TICKS_PER_SECOND = 100;

/** One line of /proc/PID/stat (proc(5)); undefined when it is none. */
export function parseStat(text: string): ProcessStat | undefined {
  // The name in parentheses may hold anything, parentheses too.
  const end = text.lastIndexOf(')');
  const pid = Number.parseInt(text, 10);
  if (end < 0 || Number.isNaN(pid)) return undefined;
  const fields = text
    .slice(end + 2)
    .trim()
    .split(' ');
  // Field 3 of proc(5) is fields[0].
  const field = (number: number): number => Number(fields[number - 3]);
  const numbers = {
    pid,
    parent: field(4),
    ticks: field(14) + field(15) + field(16) + field(17),
    startTicks: field(22),
    rssPages: field(24),
  };
  const sound = Object.values(numbers).every((value) => Number.isInteger(value));
  return sound ? { ...numbers, zombie: fields[0] === 'Z' } : undefined;
}

/** `root` and what descends from it. */
export function selectTree(all: readonly ProcessStat[], root: number): ProcessStat[] {
  const children = Map.groupBy(all, (stat) => stat.parent);
  const tree = all.filter((stat) => stat.pid === root);
  // The array grows while it is walked: breadth first.
  for (const stat of tree) tree.push(...(children.get(stat.pid) ?? []));
  return tree;
}

/** The living tree of `root`; empty when it has ended. */
export function readTree(root: number): ProcessStat[] {
  return selectTree(readAll(), root);
}

/** CPU seconds that the tree has used so far. */
export function treeCpuSeconds(root: number): number {
  return readTree(root).reduce((sum, stat) => sum + stat.ticks, 0) / TICKS_PER_SECOND;
}

function readAll(): ProcessStat[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readStat(Number(name)) ?? []);
}

/** Undefined when there is no such process any more. */
export function readStat(pid: number): ProcessStat | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    // It ended between the listing and the reading.
    return undefined;
  }
}

/** Busy seconds of one core since boot: all but idle and iowait, stolen time included. */
export function coreBusySeconds(core: number): number {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'utf8'))?.[1];
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = (line ?? '')
    .split(' ')
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND;
}
