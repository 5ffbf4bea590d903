/**
 * What several cases share: the servers of the lab, the origins, the far end of tunnels; each is started
 * when the first case asks for it, on the core of the load. Whatever happens, `close` ends all of it.
 */

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LAB_USERS } from '../../test/lab/components.ts';
import { kdcFile, REALM } from '../../test/lab/kdc.ts';
import { type Lab, startLab } from '../../test/lab/lab.ts';
import type { Child } from '../child.ts';
import { FORWARD_SUBJECTS } from '../forward/all.ts';
import type { ForwardWay, LabAccount } from '../forward/forward-subject.ts';
import type { Cores } from '../machine.ts';
import { freePorts, ProcessGroup } from '../process-group.ts';
import type { ForwardName } from '../scenario-names.ts';
import { acceptsOn } from './probe.ts';

const FAR_END = join(import.meta.dirname, '../load/far-end.ts');
const READY_MS = 20_000;
/** The domain of the demo origin, and an account there. */
const ORIGIN_DOMAIN = 'DEMO';
const ORIGIN_USER = 'bench';

export interface RunningForward {
  readonly name: ForwardName;
  readonly port: number;
  readonly child: Child;
}

export class Stage {
  readonly #shared: ProcessGroup;
  readonly #groups = new Set<ProcessGroup>();
  readonly #made = new Map<string, Promise<unknown>>();
  #lab: Lab | undefined;
  #closed: Promise<void> | undefined;

  static async create(cores: Cores): Promise<Stage> {
    return new Stage(await ProcessGroup.create(cores));
  }

  constructor(shared: ProcessGroup) {
    this.#shared = shared;
  }

  get cores(): Cores {
    return this.#shared.cores;
  }

  /** squid as a parent for each scheme, and what stands behind it. */
  lab(): Promise<Lab> {
    return this.#once('lab', () => this.#startLab());
  }

  /** Port of the origin that asks for no login. */
  openOrigin(): Promise<number> {
    return this.#once('open', () => this.#shared.startOrigin('open', ['--auth', 'off']));
  }

  /** The origin that asks every connection for NTLM, and the account there. */
  ntlmOrigin(): Promise<Extract<ForwardWay, { kind: 'origin' }>> {
    return this.#once('ntlm', async () => {
      const folder = await this.#shared.makeFolder('origin', 0o700);
      const accounts = join(folder, 'accounts.json');
      const password = randomBytes(18).toString('base64url');
      const names = { [`${ORIGIN_DOMAIN}\\${ORIGIN_USER}`]: password };
      await writeFile(accounts, JSON.stringify(names), { mode: 0o600 });
      const port = await this.#shared.startOrigin('ntlm', ['--accounts', accounts]);
      return { kind: 'origin', port, domain: ORIGIN_DOMAIN, user: ORIGIN_USER, password };
    });
  }

  /** Port where tunnels end. */
  farEnd(): Promise<number> {
    return this.#once('far end', () => this.#shared.startServer('far end', FAR_END, []));
  }

  /** bob at the lab's parent for a scheme. */
  async parentWay(scheme: 'ntlm' | 'negotiate'): Promise<Extract<ForwardWay, { kind: 'parent' }>> {
    const { ports, folder } = await this.lab();
    const kdc = join(folder, 'kdc');
    const account: LabAccount = {
      user: 'bob',
      domain: 'LAB',
      password: LAB_USERS.bob,
      realm: REALM,
      keytab: kdcFile.userKeytab(kdc, 'bob'),
      krb5Config: kdcFile.krb5Conf(kdc),
    };
    const port = scheme === 'ntlm' ? ports.squidNtlm : ports.squidNegotiate;
    return { kind: 'parent', port, scheme, account };
  }

  /** Runs `work` with a group of processes that ends afterwards. */
  async withGroup<T>(work: (group: ProcessGroup) => Promise<T>): Promise<T> {
    const group = await ProcessGroup.create(this.cores);
    this.#groups.add(group);
    try {
      return await work(group);
    } finally {
      this.#groups.delete(group);
      await group.close();
    }
  }

  /** A load program on the core of the load; resolves with its output. */
  runLoad(command: string, args: readonly string[], ms: number): Promise<string> {
    return this.#shared.runLoad(command, args, ms);
  }

  /** A file of the run; resolves with its path. */
  async write(name: string, text: string): Promise<string> {
    const file = join(this.#shared.folder, name);
    await writeFile(file, text);
    return file;
  }

  /** Ends all processes and removes the folders; may be called twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#groups].map((group) => group.close()));
    await this.#shared.close();
    // One that is still coming up ends with this process.
    await this.#lab?.[Symbol.asyncDispose]();
  }

  async #startLab(): Promise<Lab> {
    const { load } = this.cores;
    // Its servers inherit the core of this process, which from here on has no more than load to run.
    if (load !== undefined) {
      await promisify(execFile)('taskset', ['-cp', String(load), String(process.pid)]);
    }
    this.#lab = await startLab(['squid']);
    return this.#lab;
  }

  #once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const known = this.#made.get(name) ?? make();
    this.#made.set(name, known);
    return known as Promise<T>;
  }
}

/** Starts one forward proxy in `group` and waits until it accepts. */
export async function startForward(
  group: ProcessGroup,
  name: ForwardName,
  way: ForwardWay,
): Promise<RunningForward> {
  const [port = 0] = await freePorts(1);
  const folder = await group.makeFolder(name);
  const { proxy: core } = group.cores;
  const child = await group.own(await FORWARD_SUBJECTS[name].start({ port, way, folder, core }));
  await child.until(() => acceptsOn(port), READY_MS);
  return { name, port, child };
}
