/**
 * What the cases of the reverse proxy have running: two origins and all subjects. Whatever happens,
 * `close` ends all of it.
 */

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Child } from './child.ts';
import type { Cores } from './machine.ts';
import { freePorts, ProcessGroup } from './process-group.ts';
import type { SubjectName } from './subject-names.ts';
import { SUBJECTS } from './subjects/all.ts';
import { BENCH_USER } from './subjects/subject.ts';

const READY_MS = 15_000;
const PROBE_MS = 2_000;

export interface RunningSubject {
  readonly name: SubjectName;
  readonly port: number;
  readonly child: Child;
}

/** A run's processes; close it in all cases. */
export class World {
  readonly group: ProcessGroup;
  subjects: readonly RunningSubject[] = [];
  openOriginPort = 0;
  ntlmOriginPort = 0;
  adminPort = 0;

  static async create(cores: Cores): Promise<World> {
    return new World(await ProcessGroup.create(cores));
  }

  constructor(group: ProcessGroup) {
    this.group = group;
  }

  /** Starts the origins and the subjects, and waits until each answers. */
  async start(names: readonly SubjectName[]): Promise<void> {
    const secrets = await this.group.makeFolder('secrets', 0o700);
    const passwordFile = join(secrets, 'password');
    const accountsFile = join(secrets, 'accounts.json');
    const password = randomBytes(18).toString('base64url');
    await writeFile(passwordFile, password, { mode: 0o600 });
    await writeFile(accountsFile, JSON.stringify({ [BENCH_USER]: password }), { mode: 0o600 });
    this.openOriginPort = await this.group.startOrigin('open', ['--auth', 'off']);
    this.ntlmOriginPort = await this.group.startOrigin('ntlm', ['--accounts', accountsFile]);
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

  /** Ends all processes and removes the folder; may be called twice. */
  close(): Promise<void> {
    return this.group.close();
  }

  async #startSubject(name: SubjectName, port: number, passwordFile: string): Promise<Child> {
    const child = await SUBJECTS[name].start({
      port,
      secondPort: this.adminPort,
      openOriginPort: this.openOriginPort,
      ntlmOriginPort: this.ntlmOriginPort,
      passwordFile,
      folder: await this.group.makeFolder(name),
      core: this.group.cores.proxy,
    });
    return this.group.own(child);
  }
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
