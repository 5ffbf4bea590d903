/**
 * The real daemon inside the test process: a configuration text goes through the loader and the
 * composition root like any file, on ports that the system chooses. What it logs is kept as text, its
 * metrics are read from its own admin listener.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { startApp, type App } from '../../src/app.ts';
import type { ListenAddress } from '../../src/config/config.ts';
import type { ReloadReport } from '../../src/admin/view.ts';
import { ConfigSource } from '../../src/config/config-source.ts';
import { formatFaults } from '../../src/config/faults.ts';
import { systemIo } from '../../src/config/secrets.ts';
import { createAccessLog } from '../../src/log/access-log.ts';
import { createPinoLog } from '../../src/log/pino-log.ts';
import type { AcceptorHelper } from '../../src/auth/kerberos/acceptors.ts';
import type { SocketEngine } from '../../src/server/raw-socket.ts';
import type { Lookup } from '../../src/upstream/resolve.ts';
import { RawClient, type RawClientTarget, type RawResponse } from './raw-client.ts';
import type { Journal } from './upstream-journal.ts';
import { DEADLINE_MS, until } from './waiting.ts';

export interface DaemonSetup {
  /** YAML text; `listen: 127.0.0.1:0` everywhere. */
  readonly config: string;
  /** What `{ env: NAME }` in it reads. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** How callers' sockets are read; default: what the daemon finds to work. */
  readonly engine?: SocketEngine;
  /** How names of forward targets are looked up; default: as the system does. */
  readonly lookup?: Lookup;
  /** Who looks into callers' tickets; default: processes with the machine's Kerberos. */
  readonly acceptorHelper?: AcceptorHelper;
}

const FILE = '/test/sidekerb.yaml';

/** What the daemon reads when it loads its configuration. */
interface Origin {
  text: string;
  secrets: Readonly<Record<string, string>>;
}

/** Starts the daemon. Throws with all faults when the configuration has any. */
export async function startDaemon(setup: DaemonSetup): Promise<TestDaemon> {
  const origin: Origin = { text: setup.config, secrets: setup.secrets ?? {} };
  const source = new ConfigSource(FILE, {
    ...systemIo,
    env: (name) => origin.secrets[name],
    readFile: (path) => (path === FILE ? Buffer.from(origin.text) : systemIo.readFile(path)),
  });
  const { config, faults } = await source.load();
  if (config === undefined) throw new Error(`configuration:\n${formatFaults(faults)}`);
  const lines: string[] = [];
  const sink = {
    write: (text: string): void => {
      lines.push(text);
    },
  };
  const access = createAccessLog({ sink, wall: Date.now });
  const log = createPinoLog('trace', sink);
  const engine = setup.engine === undefined ? {} : { engine: setup.engine };
  const lookup = setup.lookup === undefined ? {} : { lookup: setup.lookup };
  const { acceptorHelper } = setup;
  const acceptor = acceptorHelper === undefined ? {} : { acceptorHelper };
  const more = { ...engine, ...lookup, ...acceptor };
  const app = await startApp(config, { log, access, version: '0.0.0-test', source, ...more });
  return new TestDaemon(app, lines, origin);
}

/** A running daemon; ended by `await using`. */
export class TestDaemon {
  readonly app: App;
  readonly #lines: string[];
  readonly #origin: Origin;

  constructor(app: App, lines: string[], origin: Origin) {
    this.app = app;
    this.#lines = lines;
    this.#origin = origin;
  }

  /** Changes what the configuration file says, and secrets; the daemon is not told. */
  rewrite(change: (text: string) => string, secrets: Readonly<Record<string, string>> = {}): void {
    this.#origin.text = change(this.#origin.text);
    this.#origin.secrets = { ...this.#origin.secrets, ...secrets };
  }

  /** Changes the same, and lets the daemon read it again. */
  reload(
    change: (text: string) => string = (text) => text,
    secrets: Readonly<Record<string, string>> = {},
  ): Promise<ReloadReport> {
    this.rewrite(change, secrets);
    return this.app.reload('api');
  }

  /** Where a listener listens; the only or first one when no name is given. */
  address(listener?: string): RawClientTarget & { readonly port: number } {
    const all = this.app.addresses.listeners;
    return target((listener === undefined ? Object.values(all)[0] : all[listener])?.[0]);
  }

  /** Where the admin listener listens; throws when the configuration has none. */
  get adminAddress(): RawClientTarget & { readonly port: number } {
    return target(this.app.addresses.admin[0]);
  }

  /** `127.0.0.1:PORT` of a listener: what a caller's Host says. */
  authority(listener?: string): string {
    return `127.0.0.1:${this.address(listener).port}`;
  }

  /** A new connection to a listener. */
  connect(listener?: string): Promise<RawClient> {
    return RawClient.connect(this.address(listener));
  }

  /** One request on a connection of its own to the first listener. */
  async ask(
    line: string,
    fields: Readonly<Record<string, string>> = {},
    body: string | Uint8Array = '',
  ): Promise<RawResponse> {
    await using client = await this.connect();
    await client.request(line, { Host: this.authority(), ...fields }, body);
    return await client.response(methodOf(line));
  }

  /** One request to the admin listener, with what its POSTs need. */
  async admin(line: string): Promise<RawResponse> {
    const address = this.adminAddress;
    await using client = await RawClient.connect(address);
    const fields = { Host: `127.0.0.1:${address.port}`, 'X-Sidekerb-Admin': '1' };
    await client.request(line, { ...fields, Connection: 'close' });
    return await client.response(methodOf(line));
  }

  /** The metrics as they are now. */
  async metrics(): Promise<MetricsText> {
    return new MetricsText((await this.admin('GET /metrics')).body.toString());
  }

  /** Resolves with the metrics that satisfy `condition`. */
  async measured(condition: (metrics: MetricsText) => boolean, what: string): Promise<MetricsText> {
    let metrics = await this.metrics();
    const end = performance.now() + DEADLINE_MS;
    while (!condition(metrics)) {
      if (performance.now() > end) throw new Error(`metrics never showed: ${what}`);
      await nextTurn();
      metrics = await this.metrics();
    }
    return metrics;
  }

  /** Every line that was logged so far, at all levels, access lines too. */
  get logText(): string {
    return this.#lines.join('');
  }

  /** Resolves once a logged line matches. */
  async logged(pattern: RegExp, deadlineMs = DEADLINE_MS): Promise<void> {
    const what = `a log line like ${String(pattern)}`;
    await until(() => pattern.test(this.logText), what, deadlineMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.app.close();
  }
}

/** The text format of Prometheus, read as far as tests need. */
export class MetricsText {
  readonly text: string;
  readonly #samples: { name: string; labels: Map<string, string>; value: number }[];

  constructor(text: string) {
    this.text = text;
    this.#samples = text.split('\n').flatMap((line) => {
      const found = /^(?<name>\w+)(?:\{(?<labels>.*)\})? (?<value>\S+)$/.exec(line)?.groups;
      if (found === undefined) return [];
      const labels = [...(found['labels'] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      return {
        name: found['name'] ?? '',
        labels: new Map(labels.map(([, name = '', value = '']) => [name, value])),
        value: Number(found['value']),
      };
    });
  }

  /** Sum of the samples of this name that have these labels; 0 when there is none. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels);
    return this.#samples
      .filter((sample) => sample.name === name)
      .filter((sample) => wanted.every(([label, value]) => sample.labels.get(label) === value))
      .reduce((sum, { value }) => sum + value, 0);
  }
}

/** Users that were logged in on each socket, in the order of sockets; [] for an anonymous one. */
export function identitiesOf(journal: Journal): string[][] {
  return journal.sockets.map(({ logins }) => [...new Set(logins)]);
}

function methodOf(line: string): string {
  return line.slice(0, line.indexOf(' '));
}

function target(address: ListenAddress | undefined): RawClientTarget & { port: number } {
  if (address?.kind !== 'tcp') throw new Error('no such TCP address');
  return { host: address.host, port: address.port };
}
