/**
 * The lab's processes: started in the foreground as an unprivileged user, waited for, and ended.
 *
 * Each server is a child of the process that started the lab and gets SIGTERM from the kernel when
 * that process dies, so that a killed test run leaves nothing behind. What a server needs in its
 * configuration is decided by its own file.
 */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { findCommand } from './requires.ts';

const run = promisify(execFile);
const POLL_MS = 10;
const START_LIMIT_MS = 20_000;
const STOP_LIMIT_MS = 5_000;

/** A server of the lab. `stop()` may be called twice. */
export interface LabProcess {
  readonly name: string;
  /** Waits until `isUp` answers true; throws with the end of the log when the server ends first. */
  ready(isUp: () => boolean | Promise<boolean>): Promise<void>;
  stop(): Promise<void>;
}

export interface LabCommand {
  readonly name: string;
  /** Where the pid file and the log go. */
  readonly folder: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** `own` is for programs of this repository, whose files another user may not be able to read. */
  readonly user?: 'unprivileged' | 'own';
  /** How it is asked to end; SIGTERM when not given. */
  readonly stopSignal?: NodeJS.Signals;
}

/** Starts `options.command`; output goes to `<name>.log`, the pid to `<name>.pid` in its folder. */
export function startProcess(options: LabCommand): LabProcess {
  const log = `${options.folder}/${options.name}.log`;
  const output = openSync(log, 'a');
  const { command, args } = asLabUser(options.command, options.args, options.user);
  // A process group of its own keeps an interrupt from the terminal away from it until it is stopped in order.
  const child = spawn(command, args, {
    cwd: options.folder,
    env: environment(options.environment),
    stdio: ['ignore', output, output],
    detached: true,
  });
  closeSync(output);
  child.unref();
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(`ended with ${signal ?? code}`));
  });
  if (child.pid !== undefined)
    writeFileSync(`${options.folder}/${options.name}.pid`, `${child.pid}\n`);
  return {
    name: options.name,
    ready: (isUp) => waitUntilUp(options.name, log, ended, isUp),
    stop: () => stopGroup(child, ended, options.stopSignal ?? 'SIGTERM'),
  };
}

/** Runs a program to its end as the lab's user; throws when it fails. Gives its standard output. */
export async function runAsLabUser(
  command: string,
  args: readonly string[],
  options: {
    readonly input?: string;
    readonly environment?: Readonly<Record<string, string>>;
  } = {},
): Promise<string> {
  const full = asLabUser(command, args, 'unprivileged');
  const running = run(full.command, full.args, { env: environment(options.environment) });
  running.child.stdin?.end(options.input ?? '');
  return (await running).stdout;
}

/** The argument list that runs `command` as the lab's user, for servers that start helpers themselves. */
export function asLabUser(
  command: string,
  args: readonly string[],
  user: LabCommand['user'] = 'unprivileged',
): { command: string; args: string[] } {
  const drop =
    user === 'unprivileged' && process.getuid?.() === 0
      ? ['--reuid=nobody', '--regid=nogroup', '--clear-groups']
      : [];
  return { command: 'setpriv', args: [...drop, '--pdeathsig=TERM', '--', command, ...args] };
}

/** Gives a folder to the lab's user; nothing to do when the lab runs as that user already. */
export async function giveToLabUser(folder: string): Promise<void> {
  if (process.getuid?.() === 0) await run('chown', ['-R', 'nobody:nogroup', folder]);
}

/** The path of a program that the lab cannot do without. */
export function command(name: string): string {
  const path = findCommand(name);
  if (path === undefined) throw new Error(`${name} is not installed`);
  return path;
}

/** True when something accepts on 127.0.0.1:`port`. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Fills `@NAME@` places; a place without a value, or a value without a place, is a mistake. */
export function fillTemplate(
  file: string,
  values: Readonly<Record<string, string | number>>,
): string {
  const unused = new Set(Object.keys(values));
  const text = readFileSync(file, 'utf8').replaceAll(/@([A-Z_]+)@/g, (place, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${file}: nothing is given for ${place}`);
    unused.delete(name);
    return String(value);
  });
  if (unused.size > 0) throw new Error(`${file}: no place for ${[...unused].join(', ')}`);
  return text;
}

function environment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C.UTF-8', ...extra };
}

async function waitUntilUp(
  name: string,
  log: string,
  ended: Promise<string>,
  isUp: () => boolean | Promise<boolean>,
): Promise<void> {
  const running = Promise.resolve('running');
  const deadline = performance.now() + START_LIMIT_MS;
  while (!(await isUp())) {
    const end = await Promise.race([ended, running]);
    const late = performance.now() > deadline;
    if (end !== 'running' || late) {
      const reason = end === 'running' ? `not up after ${START_LIMIT_MS} ms` : end;
      throw new Error(`${name}: ${reason}\n${readFileSync(log, 'utf8').slice(-2000)}`);
    }
    await delay(POLL_MS);
  }
}

async function stopGroup(
  child: ChildProcess,
  ended: Promise<string>,
  signal: NodeJS.Signals,
): Promise<void> {
  const { pid } = child;
  if (pid === undefined) return;
  // Nothing else may keep this process alive until the server has ended.
  child.ref();
  if (child.exitCode === null && child.signalCode === null) {
    child.kill(signal);
    await Promise.race([ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
  }
  // Helpers that outlive their server are in its process group.
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group is empty: the usual case.
  }
  await ended;
}
