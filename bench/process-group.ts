/**
 * Programs of a run that end together, with their folder. Load and what answers it share one core, the
 * proxies have another.
 */

import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, type ChildSettings } from './child.ts';
import type { Cores } from './machine.ts';

const ORIGIN = join(import.meta.dirname, '../src/demo/origin.ts');
const READY_MS = 15_000;

/** Close it in all cases. */
export class ProcessGroup {
  readonly folder: string;
  readonly cores: Cores;
  readonly #children: Child[] = [];
  #closed: Promise<void> | undefined;

  static async create(cores: Cores): Promise<ProcessGroup> {
    const folder = await mkdtemp(join(tmpdir(), 'sidekerb-bench-'));
    // Some peers serve as another user; secrets lie in folders of their own.
    await chmod(folder, 0o755);
    return new ProcessGroup(folder, cores);
  }

  constructor(folder: string, cores: Cores) {
    this.folder = folder;
    this.cores = cores;
  }

  /** A folder of its own for `name`: readable by everybody on the machine, or with 0o700 by this user alone. */
  async makeFolder(name: string, mode = 0o755): Promise<string> {
    const folder = join(this.folder, name);
    await mkdir(folder);
    await chmod(folder, mode);
    return folder;
  }

  /** Starts a program on the core of the load. */
  async startOnLoadCore(settings: Omit<ChildSettings, 'core'>): Promise<Child> {
    return this.own(await Child.start({ ...settings, core: this.cores.load }));
  }

  /** Starts a program whose first line is `{"port":N}`, on the core of the load. */
  async startServer(name: string, program: string, args: readonly string[]): Promise<number> {
    const child = await this.startOnLoadCore({
      name,
      command: process.execPath,
      args: [program, ...args],
    });
    return announcedPort(child);
  }

  /** The demo origin in its fast mode. */
  startOrigin(name: string, args: readonly string[]): Promise<number> {
    return this.startServer(`origin (${name})`, ORIGIN, ['--mode', 'fast', ...args]);
  }

  /** Runs a program on the load's core until it ends; resolves with its standard output. */
  async runLoad(command: string, args: readonly string[], ms: number): Promise<string> {
    const child = await this.startOnLoadCore({ name: command, command, args });
    const overdue = setTimeout(() => void child.stop(), ms);
    const how = await child.ended();
    clearTimeout(overdue);
    this.#children.splice(this.#children.indexOf(child), 1);
    if (how !== 'exit code 0') {
      throw new Error(`${command} ended with ${how}: ${child.stdout}${child.output}`);
    }
    return child.stdout;
  }

  /** Takes a child over. One that comes up while the run is being ended is ended too. */
  async own(child: Child): Promise<Child> {
    if (this.#closed === undefined) {
      this.#children.push(child);
      return child;
    }
    await child.stop();
    throw new Error('the run was ended');
  }

  /** Ends all processes and removes the folder; may be called twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // The proxies first: they then end with their upstreams alive.
    await Promise.all(this.#children.splice(0).map((child) => child.stop()));
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Waits for the line `{"port":N}` of a program. */
export async function announcedPort(child: Child): Promise<number> {
  const line = await child.until(
    () => Promise.resolve(/^\{"port":(\d+)\}$/m.exec(child.stdout)?.[1]),
    READY_MS,
  );
  return Number(line);
}

/** Ports that nobody listens on now; the subjects take them right away. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    const listening = Promise.withResolvers<void>();
    server.once('error', listening.reject);
    server.listen({ port: 0, host: '127.0.0.1' }, () => listening.resolve());
    await listening.promise;
    const address = server.address();
    if (typeof address === 'object' && address !== null) ports.push(address.port);
  }
  for (const server of servers) server.close();
  return ports;
}
