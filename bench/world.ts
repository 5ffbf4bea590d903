/**
 * Everything that one run has running: a folder, two origins, all subjects. Whatever happens, `close`
 * ends all of it.
 */

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child } from './child.ts';
import type { Cores } from './machine.ts';
import type { SubjectName } from './subject-names.ts';
import { SUBJECTS } from './subjects/all.ts';
import { BENCH_USER } from './subjects/subject.ts';

const ORIGIN = join(import.meta.dirname, '../src/demo/origin.ts');
const READY_MS = 15_000;
const PROBE_MS = 2_000;

export interface RunningSubject {
  readonly name: SubjectName;
  readonly port: number;
  readonly child: Child;
}

/** A run's processes; close it in all cases. */
export class World {
  readonly folder: string;
  readonly #children: Child[] = [];
  readonly #cores: Cores;
  #closed: Promise<void> | undefined;
  subjects: readonly RunningSubject[] = [];
  openOriginPort = 0;
  ntlmOriginPort = 0;
  adminPort = 0;

  static async create(cores: Cores): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'sidekerb-bench-'));
    return new World(folder, cores);
  }

  constructor(folder: string, cores: Cores) {
    this.folder = folder;
    this.#cores = cores;
  }

  /** Starts the origins and the subjects, and waits until each answers. */
  async start(names: readonly SubjectName[]): Promise<void> {
    // Some peers serve as another user; only the secrets are for this one alone.
    await chmod(this.folder, 0o755);
    const secrets = join(this.folder, 'secrets');
    await mkdir(secrets, { mode: 0o700 });
    const passwordFile = join(secrets, 'password');
    const accountsFile = join(secrets, 'accounts.json');
    const password = randomBytes(18).toString('base64url');
    await writeFile(passwordFile, password, { mode: 0o600 });
    await writeFile(accountsFile, JSON.stringify({ [BENCH_USER]: password }), { mode: 0o600 });
    this.openOriginPort = await this.#startOrigin('open', ['--auth', 'off']);
    this.ntlmOriginPort = await this.#startOrigin('ntlm', ['--accounts', accountsFile]);
    const ports = await freePorts(names.length + 1);
    this.adminPort = ports.pop() ?? 0;
    const started: RunningSubject[] = [];
    for (const [index, name] of names.entries()) {
      const port = ports[index] ?? 0;
      const child = await this.#startSubject(name, port, passwordFile);
      started.push({ name, port, child });
    }
    for (const { child, port } of started) {
      await child.until(() => answers(port), READY_MS);
    }
    this.subjects = started;
  }

  /** Runs a program on the load's core until it ends; resolves with its standard output. */
  async runLoad(command: string, args: readonly string[], ms: number): Promise<string> {
    const child = await this.#spawn({ name: command, command, args, core: this.#cores.load });
    const overdue = setTimeout(() => void child.stop(), ms);
    const how = await child.ended();
    clearTimeout(overdue);
    this.#children.splice(this.#children.indexOf(child), 1);
    if (how !== 'exit code 0') throw new Error(`${command} ended with ${how}: ${child.stdout}`);
    return child.stdout;
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

  async #startSubject(name: SubjectName, port: number, passwordFile: string): Promise<Child> {
    const folder = join(this.folder, name);
    await mkdir(folder);
    await chmod(folder, 0o755);
    const child = await SUBJECTS[name].start({
      port,
      secondPort: this.adminPort,
      openOriginPort: this.openOriginPort,
      ntlmOriginPort: this.ntlmOriginPort,
      passwordFile,
      folder,
      core: this.#cores.proxy,
    });
    await this.#own(child);
    return child;
  }

  async #startOrigin(name: string, args: readonly string[]): Promise<number> {
    const child = await this.#spawn({
      name: `origin (${name})`,
      command: process.execPath,
      args: [ORIGIN, '--mode', 'fast', ...args],
      core: this.#cores.load,
    });
    const line = await child.until(
      () => Promise.resolve(/^\{"port":(\d+)\}$/m.exec(child.stdout)?.[1]),
      READY_MS,
    );
    return Number(line);
  }

  async #spawn(settings: Parameters<typeof Child.start>[0]): Promise<Child> {
    const child = await Child.start(settings);
    await this.#own(child);
    return child;
  }

  /** A child that comes up while the run is being ended is ended too. */
  async #own(child: Child): Promise<void> {
    if (this.#closed === undefined) {
      this.#children.push(child);
      return;
    }
    await child.stop();
    throw new Error('the run was ended');
  }
}

/** Ports that nobody listens on now; the subjects take them right away. */
async function freePorts(count: number): Promise<number[]> {
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

/** True once a request gets 200; undefined until then. */
async function answers(port: number): Promise<true | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/`, {
      signal: AbortSignal.timeout(PROBE_MS),
      headers: { connection: 'close' },
    });
    await answer.arrayBuffer();
    return answer.status === 200 ? true : undefined;
  } catch {
    // Not listening yet; whoever waits has a deadline.
    return undefined;
  }
}
