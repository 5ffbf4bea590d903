/**
 * Programs that a run starts: pinned to a core, watched while they start, and ended with everything
 * that descends from them, by pid.
 */

import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { type ProcessStat, readStat, readTree } from './process-tree.ts';

const TERM_MS = 3_000;
const POLL_MS = 20;
const KEPT_OUTPUT = 4_096;

export interface ChildSettings {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Core it may run on; undefined: any. */
  readonly core: number | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** Where it works; undefined: where this process does. */
  readonly folder?: string;
}

/** A started program; ended by `stop`. */
export class Child {
  readonly name: string;
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #ended: Promise<void>;
  #output = '';
  #stdout = '';
  #exit: string | undefined;

  /** Throws when the program cannot be started. */
  static async start(settings: ChildSettings): Promise<Child> {
    const pinned = settings.core === undefined ? [] : ['taskset', '-c', String(settings.core)];
    const [command = '', ...args] = [...pinned, settings.command, ...settings.args];
    const running = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...settings.env },
      ...(settings.folder === undefined ? {} : { cwd: settings.folder }),
    });
    const started = Promise.withResolvers<void>();
    running.once('spawn', () => started.resolve());
    running.once('error', started.reject);
    await started.promise;
    return new Child(settings.name, running);
  }

  constructor(name: string, running: ChildProcess) {
    this.name = name;
    this.pid = running.pid ?? 0;
    this.#process = running;
    const ended = Promise.withResolvers<void>();
    this.#ended = ended.promise;
    running.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#keep(text);
    });
    running.stderr?.setEncoding('utf8').on('data', (text: string) => this.#keep(text));
    running.once('close', (code, signal) => {
      this.#exit = signal ?? `exit code ${code}`;
      ended.resolve();
    });
  }

  /** All of its standard output so far. */
  get stdout(): string {
    return this.#stdout;
  }

  /** The end of all that it printed so far. */
  get output(): string {
    return this.#output;
  }

  /** Resolves with the exit code as text, or with the signal. */
  async ended(): Promise<string> {
    await this.#ended;
    return this.#exit ?? '';
  }

  /** Waits until `probe` gives a value; throws what it printed when it ends before, or after `ms`. */
  async until<T>(probe: () => Promise<T | undefined>, ms: number): Promise<T> {
    const end = performance.now() + ms;
    for (;;) {
      const found = await probe();
      if (found !== undefined) return found;
      if (this.#exit !== undefined) throw this.#fault(`ended early (${this.#exit})`);
      if (performance.now() > end) throw this.#fault(`was not ready after ${ms / 1000} s`);
      await delay(POLL_MS);
    }
  }

  /** Ends it and its descendants; may be called twice. */
  async stop(): Promise<void> {
    if (this.#exit !== undefined) return;
    const tree = readTree(this.pid);
    this.#process.kill('SIGTERM');
    await Promise.race([this.#ended, delay(TERM_MS, undefined, { ref: false })]);
    for (const { pid, startTicks } of tree) {
      // A pid may name somebody else by now; the time of its start does not.
      if (readStat(pid)?.startTicks === startTicks) killNow(pid);
    }
    await Promise.race([this.#ended, delay(TERM_MS, undefined, { ref: false })]);
    // A signal is sent at once and obeyed a little later.
    const end = performance.now() + TERM_MS;
    while (tree.some(isAlive) && performance.now() < end) await delay(POLL_MS);
  }

  #keep(text: string): void {
    this.#output = (this.#output + text).slice(-KEPT_OUTPUT);
  }

  #fault(what: string): Error {
    return new Error(`${this.name} ${what}\n${this.#output.trim()}`);
  }
}

function isAlive({ pid, startTicks }: ProcessStat): boolean {
  const stat = readStat(pid);
  return stat?.startTicks === startTicks && !stat.zombie;
}

function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has just ended by itself.
  }
}
