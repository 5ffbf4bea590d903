/**
 * Credentials that change while requests run: tickets that come late, a keytab with new keys, a new
 * password. The files are exchanged like those of Kubernetes or a cron job: nobody tells the daemon.
 */
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setInterval as every } from 'node:timers/promises';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/waiting.ts';
import { kadmin, kdcFile, REALM } from './kdc.ts';
import { kinit, useKerberosLab } from './kerberos-world.ts';
import { type LabAnswer, labRequest } from './lab-daemon.ts';
import type { LabFacts } from './lab.ts';

/** 50 requests a second. */
const PAUSE_MS = 20;
/** More than it takes to notice a file, and to log in anew. */
const LIMIT_MS = 15_000;

let accounts = 0;

/** An account of this test alone, with a keytab of its first keys. */
class Account {
  readonly name: string;
  readonly folder = mkdtempSync(join(temporaryFolder(), 'rotation-'));
  readonly #kdc: string;

  constructor(lab: LabFacts) {
    accounts += 1;
    this.name = `rotated-${process.pid}-${accounts}`;
    this.#kdc = join(lab.folder, 'kdc');
  }

  get principal(): string {
    return `${this.name}@${REALM}`;
  }

  /** A file in the test's own folder. */
  file(name: string): string {
    return join(this.folder, name);
  }

  create(password: string): Promise<void> {
    return kadmin(this.#kdc, [`addprinc -pw ${password} ${this.name}`]);
  }

  setPassword(password: string): Promise<void> {
    return kadmin(this.#kdc, [`cpw -pw ${password} ${this.name}`]);
  }

  /** New keys, of the next version; the old ones are worth nothing from now on. */
  async newKeys(file: string): Promise<void> {
    const made = join(this.#kdc, `${this.name}-${Math.random()}.keytab`);
    await kadmin(this.#kdc, [`ktadd -k ${made} ${this.name}`]);
    copyFileSync(made, `${file}.new`);
    renameSync(`${file}.new`, file);
  }

  /** How often the KDC gave it a ticket for the present key or password. */
  get initialTickets(): number {
    const log = readFileSync(join(this.#kdc, 'requests.log'), 'utf8');
    return log
      .split('\n')
      .filter((line) => line.includes('AS_REQ') && line.includes('ISSUE'))
      .filter((line) => line.includes(` ${this.principal} for krbtgt/`)).length;
  }
}

/** The daemon with one route for each principal given, all to one server. */
function start(
  lab: LabFacts,
  port: number,
  principals: Readonly<Record<string, string>>,
): Promise<TestDaemon> {
  const entries = Object.entries(principals);
  const upstream = (name: string): string =>
    `{ url: 'http://localhost:${port}', auth: { principal: ${name}, schemes: negotiate } }`;
  const config = [
    'version: 1',
    'log: { access: false }',
    'admin: { listen: 127.0.0.1:0 }',
    `kerberos: { config: '${kdcFile.krb5Conf(join(lab.folder, 'kdc'))}' }`,
    'principals:',
    ...entries.map(([name, entry]) => `  ${name}: { ${entry} }`),
    'upstreams:',
    ...entries.map(([name]) => `  ${name}: ${upstream(name)}`),
    'listeners:',
    '  - name: lab',
    '    listen: 127.0.0.1:0',
    '    routes:',
    ...entries.map(([name]) => `      - { path: /${name}/, upstream: ${name}, stripPrefix: true }`),
    '',
  ].join('\n');
  return startDaemon({ config });
}

interface Sent {
  /** Number of the request. */
  readonly nth: number;
  readonly answer: LabAnswer;
}

/** 50 requests a second to one route, until it is disposed of. */
class Load implements AsyncDisposable {
  readonly answers: Sent[] = [];
  sent = 0;
  readonly #stop = new AbortController();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });
  readonly #running: Promise<void>;
  readonly #open: Promise<void>[] = [];

  constructor(port: number, path: string) {
    this.#running = this.#run(port, path);
  }

  /** Resolves when `count` more requests were sent and answered than now. */
  async more(count: number): Promise<void> {
    const wanted = this.sent + count;
    const done = (): boolean => this.answers.filter(({ nth }) => nth <= wanted).length >= wanted;
    await until(done, `${count} requests`, LIMIT_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#open);
    this.#agent.destroy();
  }

  async #run(port: number, path: string): Promise<void> {
    try {
      for await (const _ of every(PAUSE_MS, undefined, { signal: this.#stop.signal })) {
        this.sent += 1;
        this.#open.push(this.#ask(port, path, this.sent));
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  async #ask(port: number, path: string, nth: number): Promise<void> {
    const answer = await labRequest(port, path, { agent: this.#agent });
    this.answers.push({ nth, answer });
  }
}

const portsOf = (sent: readonly Sent[]): Set<string> =>
  new Set(sent.map(({ answer }) => answer.port));

suite('a credential that changes under 50 requests a second', () => {
  test('a cache that is empty at start and filled later works without a restart', async (t) => {
    const lab = await useKerberosLab(t);
    if (lab === undefined) return;
    const [steady, late] = [new Account(lab), new Account(lab)];
    await Promise.all([steady.create('one'), late.create('two')]);
    await steady.newKeys(steady.file('keytab'));
    writeFileSync(late.file('cc'), '');
    await using daemon = await start(lab, lab.ports.apacheNegotiate, {
      steady: `kerberos: ${steady.principal}, keytab: '${steady.file('keytab')}'`,
      late: `kerberos: ${late.principal}, ccache: 'FILE:${late.file('cc')}'`,
    });
    const { port } = daemon.address();
    const load = new Load(port, '/steady/echo');
    await using _ = load;
    await load.more(25);
    const before = await labRequest(port, '/late/echo');
    assert.equal(before.status, 502);
    assert.match(before.body, /credential-missing/);
    const world = { krb5Conf: kdcFile.krb5Conf(join(lab.folder, 'kdc')) };
    await kinit(world, { name: late.name, password: 'two', file: late.file('made') });
    renameSync(late.file('made'), late.file('cc'));
    let last = before;
    const tries = performance.now() + LIMIT_MS;
    while (last.status !== 200 && performance.now() < tries) {
      last = await labRequest(port, '/late/echo');
    }
    assert.deepEqual([last.status, last.user], [200, late.principal]);
    await load.more(25);
    const failed = load.answers.filter(({ answer }) => answer.status !== 200);
    assert.deepEqual(failed, []);
  });

  for (const server of ['apacheNegotiate', 'apacheNegotiateBound'] as const) {
    for (const kind of ['keytab', 'password'] as const) {
      test(`R15 a ${kind} that is replaced: none fails, and the old one is used no more (${server})`, async (t) => {
        const lab = await useKerberosLab(t);
        if (lab === undefined) return;
        const account = new Account(lab);
        await account.create('first');
        const file = account.file('secret');
        const change =
          kind === 'keytab'
            ? () => account.newKeys(file)
            : async (secret = 'second') => {
                await account.setPassword(secret);
                writeFileSync(`${file}.new`, secret);
                renameSync(`${file}.new`, file);
              };
        if (kind === 'keytab') await account.newKeys(file);
        else writeFileSync(file, 'first');
        const secret = kind === 'keytab' ? `keytab: '${file}'` : `password: { file: '${file}' }`;
        await using daemon = await start(lab, lab.ports[server], {
          p: `kerberos: ${account.principal}, ${secret}`,
        });
        const load = new Load(daemon.address().port, '/p/echo');
        await using _ = load;
        await load.more(50);
        const tickets = account.initialTickets;
        assert.ok(tickets > 0);
        await change();
        await until(() => /"principals":"changed p"/.test(daemon.logText), 'the reload', LIMIT_MS);
        const reloadedAt = load.sent;
        await load.more(100);
        const failed = load.answers.filter(({ answer }) => answer.status !== 200);
        assert.deepEqual(failed, []);
        for (const { answer } of load.answers) assert.equal(answer.user, account.principal);
        // A key or password of before gets no ticket any more, and the tickets of before are gone.
        assert.ok(account.initialTickets > tickets);
        const before = portsOf(load.answers.filter(({ nth }) => nth < reloadedAt - 20));
        const after = portsOf(load.answers.filter(({ nth }) => nth > reloadedAt));
        assert.deepEqual([...before.intersection(after)], []);
        const metrics = await daemon.metrics();
        assert.equal(metrics.sum('sidekerb_config_reloads_total', { result: 'ok' }), 1);
        assert.equal(metrics.sum('sidekerb_errors_total'), 0);
      });
    }
  }
});
