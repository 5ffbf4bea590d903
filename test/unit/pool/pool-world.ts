/**
 * A pool with everything around it in the hands of a test: the clock, the opener, what connections
 * report, and a recorder for each request.
 */
import type { ProxyError } from '../../../src/errors.ts';
import { ProxyError as Failure } from '../../../src/errors.ts';
import type { Identity } from '../../../src/identity/identity.ts';
import { createNtlmIdentity, NO_IDENTITY } from '../../../src/identity/identity.ts';
import { identityDigest } from '../../../src/identity/digest.ts';
import { noLog } from '../../../src/log/log.ts';
import type { BrokenReason, CloseReason, PooledConnection } from '../../../src/pool/connection.ts';
import type { ConnectionFactory, OpeningDone } from '../../../src/pool/factory.ts';
import type { Lease } from '../../../src/pool/lease.ts';
import type { PoolLimits, UpstreamLimits } from '../../../src/pool/limits.ts';
import type { Partition, PartitionInput, Place, Waiter } from '../../../src/pool/partition.ts';
import { Pool } from '../../../src/pool/pool.ts';
import type {
  LeaseResult,
  PoolMetrics,
  Tally,
  UpstreamGauges,
  UpstreamMetrics,
} from '../../../src/pool/pool-metrics.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ntHashSecret } from '../../support/versioned-secrets.ts';

export const WIDE: UpstreamLimits = Object.freeze({
  maxConnections: 64,
  maxPerPrincipal: 16,
  maxIdle: 32,
  maxHandshakes: 8,
  idleMs: 60_000,
  maxAgeMs: 3_600_000,
  maxRequests: 0,
  waitMs: 5000,
  maxWaiters: 1000,
});

export class FakeConnection implements PooledConnection {
  readonly id: number;
  readonly partition: Partition<FakeConnection, string>;
  notAfter = Infinity;
  reusable = true;
  watching: ((reason: BrokenReason) => void) | undefined;
  destroyed: CloseReason[] = [];
  /** Names of the requests that had a lease, in order. */
  readonly carried: string[] = [];

  constructor(id: number, partition: Partition<FakeConnection, string>) {
    this.id = id;
    this.partition = partition;
  }

  isReusable(): boolean {
    return this.reusable;
  }

  watchIdle(broken: (reason: BrokenReason) => void): void {
    this.watching = broken;
  }

  unwatchIdle(): void {
    this.watching = undefined;
  }

  destroy(reason: CloseReason): void {
    this.destroyed.push(reason);
    this.watching = undefined;
  }
}

export type FakePartition = Partition<FakeConnection, string>;

/** One call of `open`, ended by the test. */
export class FakeOpening {
  readonly partition: FakePartition;
  readonly request: string;
  aborted = 0;
  ended = false;
  /** What it brought; there before the pool is told. */
  connection: FakeConnection | undefined;
  readonly #done: OpeningDone<FakeConnection>;

  constructor(partition: FakePartition, request: string, done: OpeningDone<FakeConnection>) {
    this.partition = partition;
    this.request = request;
    this.#done = done;
  }

  ok(id: number, notAfter = Infinity): FakeConnection {
    const connection = new FakeConnection(id, this.partition);
    connection.notAfter = notAfter;
    this.ended = true;
    this.connection = connection;
    this.#done(undefined, connection);
    return connection;
  }

  fail(error: ProxyError = failure()): void {
    this.ended = true;
    this.#done(error, undefined);
  }
}

export function failure(stage: 'connect' | 'handshake' = 'connect'): ProxyError {
  const code = stage === 'connect' ? 'connect-failed' : 'handshake-failed';
  return new Failure(code, 'the fake opener was told to fail', { side: 'upstream', stage });
}

/** A request of a test; records what it was told. */
export class FakeRequest implements Waiter<FakeConnection, string> {
  readonly request: string;
  place: Place<FakeConnection, string> | undefined = undefined;
  readonly leases: Lease<FakeConnection>[] = [];
  readonly errors: ProxyError[] = [];
  onLeased: (lease: Lease<FakeConnection>) => void = () => undefined;
  onRefused: (error: ProxyError) => void = () => undefined;

  constructor(request: string) {
    this.request = request;
  }

  leased(lease: Lease<FakeConnection>): void {
    this.leases.push(lease);
    lease.connection.carried.push(this.request);
    this.onLeased(lease);
  }

  refused(error: ProxyError): void {
    this.errors.push(error);
    this.onRefused(error);
  }

  /** The latest lease; a test that has none fails here. */
  get lease(): Lease<FakeConnection> {
    const lease = this.leases.at(-1);
    if (lease === undefined) throw new Error(`${this.request} has no lease`);
    return lease;
  }

  /** The code of the only refusal; undefined without one. */
  get refusal(): string | undefined {
    if (this.errors.length > 1) throw new Error(`${this.request} was refused twice`);
    return this.errors[0]?.code;
  }
}

type Counts<K extends string> = Readonly<Record<K, Tally>>;

function counts<K extends string>(...names: readonly K[]): Counts<K> {
  return Object.fromEntries(names.map((name) => [name, { value: 0 }])) as Counts<K>;
}

export class FakeUpstreamMetrics implements UpstreamMetrics {
  readonly leases = counts<LeaseResult>('hit', 'new', 'waited', 'rejected', 'timeout');
  readonly opened: Tally = { value: 0 };
  readonly closed = counts<CloseReason>(
    ...(['idle', 'age', 'max_requests', 'peer', 'error', 'unsolicited'] as const),
    ...(['auth_failed', 'evicted', 'flushed', 'rotated', 'shutdown'] as const),
  );
  readonly waits: number[] = [];
  readonly carried: number[] = [];
  readonly waitSeconds = { observe: (value: number): unknown => this.waits.push(value) };
  readonly requestsPerConnection = {
    observe: (value: number): unknown => this.carried.push(value),
  };
  readonly gauges: UpstreamGauges;

  constructor(gauges: UpstreamGauges) {
    this.gauges = gauges;
  }

  /** Values that are not 0. */
  get closedCounts(): Record<string, number> {
    return nonZero(this.closed);
  }

  get leaseCounts(): Record<string, number> {
    return nonZero(this.leases);
  }

  /** Connections in every state. */
  get open(): number {
    const { tied, untied } = this.gauges;
    return [tied, untied]
      .map(({ opening, leased, idle, draining }) => opening + leased + idle + draining)
      .reduce((sum, value) => sum + value, 0);
  }
}

function nonZero(tallies: Readonly<Record<string, Tally>>): Record<string, number> {
  const entries = Object.entries(tallies).map(([name, { value }]) => [name, value] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== 0));
}

export interface WorldOptions {
  readonly limits?: Partial<PoolLimits>;
  readonly upstreams?: Readonly<Record<string, Partial<UpstreamLimits>>>;
}

export class PoolWorld implements ConnectionFactory<FakeConnection, string>, PoolMetrics {
  readonly clock = new FakeClock();
  readonly pool: Pool<FakeConnection, string>;
  /** Every call of `open`, oldest first. */
  readonly openings: FakeOpening[] = [];
  readonly metrics = new Map<string, FakeUpstreamMetrics>();
  violations = 0;
  /** What an opening does inside `open`. */
  onOpen: (opening: FakeOpening) => void = () => undefined;
  /** What an opening does when it is aborted: fails at once, unless a test says otherwise. */
  onAbort: (opening: FakeOpening) => void = (opening) => opening.fail();
  gate: (partition: FakePartition) => boolean = () => true;
  #ids = 0;

  constructor(options: WorldOptions = {}) {
    const { limits, upstreams } = options;
    this.pool = new Pool<FakeConnection, string>(
      {
        clock: this.clock,
        deadlines: this.clock.deadlines,
        factory: this,
        metrics: this,
        log: noLog,
      },
      { upstreamConnections: 1000, partitions: 1000, ...limits },
    );
    for (const [name, own] of Object.entries(upstreams ?? { crm: {} })) {
      this.pool.addUpstream(name, { ...WIDE, ...own });
    }
  }

  upstream(name: string, gauges: UpstreamGauges): UpstreamMetrics {
    const metrics = new FakeUpstreamMetrics(gauges);
    this.metrics.set(name, metrics);
    return metrics;
  }

  violated(): void {
    this.violations += 1;
  }

  open(
    partition: FakePartition,
    request: string,
    done: OpeningDone<FakeConnection>,
  ): { abort(): void } {
    const opening = new FakeOpening(partition, request, done);
    this.openings.push(opening);
    this.onOpen(opening);
    return {
      abort: (): void => {
        if (opening.ended) return;
        opening.aborted += 1;
        this.onAbort(opening);
      },
    };
  }

  mayOpen(partition: FakePartition): boolean {
    return this.gate(partition);
  }

  partition(changes: Partial<PartitionInput> = {}): FakePartition {
    return this.pool.partition(facts(changes));
  }

  /** Acquires for a request of this name. */
  ask(partition: FakePartition, name = 'request'): FakeRequest {
    const request = new FakeRequest(name);
    this.pool.acquire(partition, request);
    return request;
  }

  /** Ends the oldest opening that has not ended with a connection. */
  openNext(notAfter = Infinity): FakeConnection {
    this.#ids += 1;
    return this.pending.ok(this.#ids, notAfter);
  }

  failNext(error?: ProxyError): void {
    this.pending.fail(error);
  }

  /** The oldest opening that has not ended; a test that has none fails here. */
  get pending(): FakeOpening {
    const opening = this.openings.find(({ ended }) => !ended);
    if (opening === undefined) throw new Error('nothing is being opened');
    return opening;
  }

  get pendingCount(): number {
    return this.openings.filter(({ ended }) => !ended).length;
  }

  /** A leased connection of `partition`. */
  connect(partition: FakePartition, name = 'request'): FakeRequest {
    const request = this.ask(partition, name);
    if (request.leases.length === 0) this.openNext();
    return request;
  }

  /** `count` idle connections of `partition`. */
  warm(partition: FakePartition, count = 1): FakeConnection[] {
    const requests = Array.from({ length: count }, () => this.connect(partition));
    const connections = requests.map(({ lease }) => lease.connection);
    for (const { lease } of requests) lease.release();
    return connections;
  }

  of(name = 'crm'): FakeUpstreamMetrics {
    const metrics = this.metrics.get(name);
    if (metrics === undefined) throw new Error(`the pool knows no ${name}`);
    return metrics;
  }
}

export function ntlm(
  principal: string,
  changes: { secret?: number; username?: string; workstation?: string } = {},
): Identity {
  return createNtlmIdentity({
    principal,
    username: changes.username ?? `CORP\\${principal}`,
    workstation: changes.workstation ?? 'WORKSTATION',
    ntHash: ntHashSecret(changes.secret ?? 1),
  });
}

export const ALICE: Identity = ntlm('alice');
export const BOB: Identity = ntlm('bob');

/** Facts of a partition; the digests follow from `identity` and `parentIdentity`. */
export function facts(changes: Partial<PartitionInput> = {}): PartitionInput {
  const identity = changes.identity ?? ALICE;
  return {
    nextHop: { host: 'crm.example', port: 443, tls: true },
    origin: { scheme: 'https', host: 'crm.example', port: 443 },
    originIdentity: identityDigest(identity),
    proxyIdentity: identityDigest(changes.parentIdentity ?? NO_IDENTITY),
    transport: 'transport-1',
    upstream: 'crm',
    scope: 'ntlm:HTTP/crm.example:auto',
    identity,
    context: undefined,
    ...changes,
  };
}
