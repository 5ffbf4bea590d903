/**
 * Drives a pool by a list of moves and holds it against books of its own. The books are made from
 * what the fakes saw (openings, connections, callbacks), never from the pool's counters.
 */
import assert from 'node:assert/strict';

import type { ProxyError } from '../../src/errors.ts';
import { NO_IDENTITY } from '../../src/identity/identity.ts';
import type { Identity } from '../../src/identity/identity.ts';
import type { Lease } from '../../src/pool/lease.ts';
import type { UpstreamLimits } from '../../src/pool/limits.ts';
import type { Place, Waiter } from '../../src/pool/partition.ts';
import type { StateCounts } from '../../src/pool/pool-metrics.ts';
import { ntlm, PoolWorld, WIDE } from '../unit/pool/pool-world.ts';
import type { FakeConnection, FakeOpening, FakePartition } from '../unit/pool/pool-world.ts';

/** Kinds of moves, each with how often it is drawn. */
export const MOVES = Object.freeze({
  ask: 8,
  'ask-held': 8,
  'ask-eager': 2,
  'ask-fresh': 1,
  release: 10,
  discard: 2,
  'end-again': 1,
  cancel: 2,
  'open-ok': 10,
  'open-error': 2,
  peer: 2,
  unsolicited: 2,
  'break-unseen': 1,
  wait: 4,
  'wait-long': 1,
  retire: 1,
  drain: 1,
  gate: 1,
  'abort-mode': 1,
  'open-mode': 1,
  limits: 1,
});
export type MoveKind = keyof typeof MOVES;

export interface Move {
  readonly kind: MoveKind;
  /** Chooses among what there is. */
  readonly pick: number;
}

const UPSTREAMS = ['crm', 'site'] as const;
const PRINCIPALS = ['alice', 'bob', undefined] as const;
const SCOPES = ['one', 'two'] as const;
const POOL_LIMITS = { upstreamConnections: 4, partitions: 5 } as const;
const SMALL: UpstreamLimits = {
  ...WIDE,
  maxConnections: 3,
  maxPerPrincipal: 2,
  maxIdle: 2,
  maxHandshakes: 2,
  idleMs: 1000,
  maxAgeMs: 3000,
  maxRequests: 4,
  waitMs: 400,
  maxWaiters: 4,
};
const LATE_MS = 100;
const MAX_RETRIES = 2;

type How = 'plain' | 'eager' | 'fresh';

/** One request with a book of what it was told. */
class Request implements Waiter<FakeConnection, string> {
  readonly request: string;
  place: Place<FakeConnection, string> | undefined = undefined;
  partition: FakePartition;
  /** Gives its connection back from inside `leased`. */
  readonly eager: boolean;
  /** Wants no idle connection. */
  readonly fresh: boolean;
  phase: 'queued' | 'opening' | 'leased' | 'over' = 'queued';
  since = 0;
  retries = 0;
  lease: Lease<FakeConnection> | undefined;
  readonly #machine: PoolMachine;

  constructor(machine: PoolMachine, name: string, partition: FakePartition, how: How) {
    this.#machine = machine;
    this.request = name;
    this.partition = partition;
    this.eager = how === 'eager';
    this.fresh = how === 'fresh';
  }

  leased(lease: Lease<FakeConnection>): void {
    this.#machine.leased(this, lease);
  }

  refused(error: ProxyError): void {
    this.#machine.refused(this, error);
  }
}

export class PoolMachine {
  readonly world = new PoolWorld({
    limits: POOL_LIMITS,
    upstreams: { crm: SMALL, site: SMALL },
  });
  readonly #requests: Request[] = [];
  readonly #byName = new Map<string, Request>();
  readonly #holders = new Map<FakeConnection, Request>();
  readonly #ended: Lease<FakeConnection>[] = [];
  readonly #idleSince = new Map<FakeConnection, number>();
  readonly #openedAt = new Map<FakeConnection, number>();
  readonly #limits = new Map<string, UpstreamLimits>(UPSTREAMS.map((name) => [name, SMALL]));
  readonly #gated = new Set<string>();
  readonly #held: FakePartition[] = [];
  #generation = 1;
  #broken: unknown;
  /** The request that is inside `acquire`. */
  #asking: Request | undefined;
  #acquired = 0;
  #violations = 0;
  #connections = 0;
  #abortsAtOnce = true;
  #openMode: 'later' | 'ok' | 'error' = 'later';
  /** How often each kind of event was met; a test that met too little proves nothing. */
  readonly seen = new Map<string, number>();

  constructor() {
    this.world.onOpen = (opening): void => this.#opened(opening);
    this.world.onAbort = (opening): void => {
      if (this.#abortsAtOnce) this.#end(opening, false);
    };
    this.world.gate = ({ identity }): boolean => !this.#gated.has(nameOf(identity));
  }

  run(moves: readonly Move[]): void {
    for (const move of moves) {
      this.#move(move);
      this.#check();
    }
    this.#finish();
  }

  leased(request: Request, lease: Lease<FakeConnection>): void {
    const { connection } = lease;
    this.#note(request.phase === 'queued' ? 'leased at once' : 'leased after an opening');
    assert.ok(request.phase === 'queued' || request.phase === 'opening', 'it was searching');
    if (request.phase === 'queued') this.#assertFirst(request);
    assert.equal(this.#holders.get(connection), undefined, 'nobody else holds it');
    assert.deepEqual(connection.destroyed, [], 'it is open');
    assert.ok(connection.reusable, 'it is not known to be broken');
    assert.equal(connection.partition, request.partition, 'it was opened for this partition');
    assert.equal(request.partition.retired, false);
    const opened = this.#openedAt.get(connection);
    if (opened === undefined) this.#openedAt.set(connection, this.world.clock.now());
    else assert.ok(this.world.clock.now() - opened <= SMALL.maxAgeMs + LATE_MS);
    assert.equal(lease.reused, opened !== undefined);
    connection.carried.push(request.request);
    assert.ok(connection.carried.length <= SMALL.maxRequests);
    this.#idleSince.delete(connection);
    this.#holders.set(connection, request);
    request.phase = 'leased';
    request.lease = lease;
    this.#assertCaps();
    if (request.eager) this.#endLease(request, 'release');
  }

  refused(request: Request, error: ProxyError): void {
    this.#note(`refused ${error.code}`);
    // What an opener throws ends its opening; here that is an assertion of this machine.
    if (error.code === 'internal') this.#broken = error.cause;
    assert.ok(request.phase === 'queued' || request.phase === 'opening', 'it was searching');
    request.phase = 'over';
    if (error.code === 'pool-wait-timeout') {
      const waited = this.world.clock.now() - request.since;
      assert.ok(waited >= SMALL.waitMs && waited <= SMALL.waitMs + LATE_MS);
    }
    if (error.retry !== 'safe' || request.retries >= MAX_RETRIES) return;
    assert.ok(request.partition.retired, 'only a retired partition says so');
    request.retries += 1;
    request.partition = this.#partition(request.retries);
    this.#acquire(request);
  }

  #move({ kind, pick }: Move): void {
    switch (kind) {
      case 'ask':
        return this.#ask(this.#partition(pick), 'plain');
      case 'ask-eager':
        return this.#ask(this.#partition(pick), 'eager');
      case 'ask-fresh':
        return this.#ask(this.#partition(pick), 'fresh');
      case 'ask-held': {
        const held = choose(this.#held, pick);
        return held === undefined ? undefined : this.#ask(held, 'plain');
      }
      case 'release':
      case 'discard': {
        const holder = choose([...this.#holders.values()], pick);
        return holder === undefined ? undefined : this.#endLease(holder, kind);
      }
      case 'end-again':
        return this.#endAgain(pick);
      case 'cancel':
        return this.#cancel(pick);
      case 'open-ok':
      case 'open-error': {
        const opening = choose(this.#pending(), pick);
        return opening === undefined ? undefined : this.#end(opening, kind === 'open-ok');
      }
      case 'peer':
      case 'unsolicited':
        return this.#breakIdle(kind, pick);
      case 'break-unseen': {
        const connection = choose(this.#live(), pick);
        if (connection !== undefined) connection.reusable = false;
        return undefined;
      }
      default:
        return this.#moveWorld({ kind, pick });
    }
  }

  #moveWorld({ kind, pick }: Move): void {
    switch (kind) {
      case 'wait':
        return this.world.clock.advance(pick % 120);
      case 'wait-long':
        return this.world.clock.advance(200 + (pick % 1100));
      case 'retire':
        this.#generation += 1;
        return this.world.pool.retirePrincipal(pick % 2 === 0 ? 'alice' : 'bob', 'rotated');
      case 'drain':
        return this.world.pool.retireWhere(
          ({ upstream }) => upstream === UPSTREAMS[pick % 2],
          'flushed',
        );
      case 'gate':
        return this.#toggleGate(nameOf(identityOf(pick, 1)));
      case 'abort-mode':
        this.#abortsAtOnce = pick % 2 === 0;
        return undefined;
      case 'open-mode':
        this.#openMode = (['later', 'later', 'ok', 'error'] as const)[pick % 4] ?? 'later';
        return undefined;
      case 'limits':
        return this.#changeLimits(pick);
      default:
        throw new Error(`no such move: ${kind}`);
    }
  }

  #partition(pick: number): FakePartition {
    const partition = this.world.partition({
      identity: identityOf(pick, this.#generation),
      upstream: UPSTREAMS[Math.floor(pick / 3) % 2] ?? 'crm',
      scope: SCOPES[Math.floor(pick / 6) % 2] ?? 'one',
    });
    this.#held.push(partition);
    return partition;
  }

  #ask(partition: FakePartition, how: How): void {
    const request = new Request(this, `request-${this.#requests.length}`, partition, how);
    this.#requests.push(request);
    this.#byName.set(request.request, request);
    this.#acquire(request);
  }

  #acquire(request: Request): void {
    request.phase = 'queued';
    request.since = this.world.clock.now();
    this.#acquired += 1;
    this.#requests.splice(this.#requests.indexOf(request), 1);
    this.#requests.push(request);
    this.#asking = request;
    if (request.fresh) this.world.pool.acquireFresh(request.partition, request);
    else this.world.pool.acquire(request.partition, request);
    this.#asking = undefined;
  }

  #endLease(request: Request, how: 'release' | 'discard'): void {
    const { lease } = request;
    assert.ok(lease !== undefined);
    this.#holders.delete(lease.connection);
    request.phase = 'over';
    request.lease = undefined;
    this.#ended.push(lease);
    this.#idleSince.set(lease.connection, this.world.clock.now());
    if (how === 'release') lease.release();
    else lease.discard('error');
  }

  #endAgain(pick: number): void {
    const lease = choose(this.#ended, pick);
    if (lease === undefined) return;
    this.#violations += 1;
    if (pick % 2 === 0) lease.release();
    else lease.discard('error');
  }

  #cancel(pick: number): void {
    const searching = this.#requests.filter(({ phase }) => phase !== 'leased' && phase !== 'over');
    const request = choose(searching, pick);
    if (request === undefined) return;
    this.#note(`cancelled ${request.phase}`);
    request.phase = 'over';
    this.world.pool.cancel(request);
  }

  #opened(opening: FakeOpening): void {
    const request = this.#byName.get(opening.request);
    assert.ok(request !== undefined);
    assert.equal(request.phase, 'queued', 'one opening for one search');
    this.#assertFirst(request);
    assert.equal(opening.partition, request.partition);
    assert.equal(opening.partition.retired, false);
    assert.ok(!this.#gated.has(nameOf(opening.partition.identity)), 'the opener let it through');
    request.phase = 'opening';
    this.#assertCaps();
    this.#assertWithinLimits(opening.partition);
    if (this.#openMode !== 'later') this.#end(opening, this.#openMode === 'ok');
  }

  #end(opening: FakeOpening, ok: boolean): void {
    this.#connections += 1;
    if (ok) opening.ok(this.#connections);
    else opening.fail();
  }

  #breakIdle(reason: 'peer' | 'unsolicited', pick: number): void {
    const idle = choose(
      this.#live().filter((connection) => !this.#holders.has(connection)),
      pick,
    );
    if (idle === undefined) return;
    this.#note(`idle broke: ${reason}`);
    idle.reusable = false;
    idle.watching?.(reason);
    assert.deepEqual(idle.destroyed, [reason]);
  }

  #toggleGate(name: string): void {
    if (!this.#gated.delete(name)) this.#gated.add(name);
    this.world.pool.reconsider();
  }

  #changeLimits(pick: number): void {
    const name = UPSTREAMS[pick % 2] ?? 'crm';
    const maxConnections = 1 + (Math.floor(pick / 2) % 3);
    const maxPerPrincipal = 1 + (Math.floor(pick / 6) % 2);
    const limits = { ...SMALL, maxConnections, maxPerPrincipal };
    this.#limits.set(name, limits);
    this.world.pool.addUpstream(name, limits);
  }

  #pending(): FakeOpening[] {
    return this.world.openings.filter(({ ended }) => !ended);
  }

  #live(): FakeConnection[] {
    return this.world.openings.flatMap(({ connection }) =>
      connection === undefined || connection.destroyed.length > 0 ? [] : [connection],
    );
  }

  /** The first of those that wait for this partition: nobody overtakes. */
  #assertFirst(request: Request): void {
    // A hit may pass by those that want no idle connection.
    const isHit = this.#asking === request && !request.fresh;
    const first = this.#requests.find(
      ({ phase, partition, fresh }) =>
        phase === 'queued' && partition === request.partition && !(isHit && fresh),
    );
    assert.equal(request.request, first?.request, 'requests of a partition are served in order');
  }

  /** All connections and openings, with the partition of each. */
  #permits(): FakePartition[] {
    return [...this.#pending(), ...this.#live()].map(({ partition }) => partition);
  }

  /** Caps hold at every moment, for openings that begin under the limits of now. */
  #assertCaps(): void {
    const permits = this.#permits();
    assert.ok(permits.length <= POOL_LIMITS.upstreamConnections);
    for (const name of UPSTREAMS) {
      const own = permits.filter(({ upstream }) => upstream === name);
      assert.ok(own.length <= SMALL.maxConnections);
      for (const principal of ['alice', 'bob']) {
        const digests = new Map<string, number>();
        for (const { identity, holderDigest } of own) {
          if (nameOf(identity) !== principal) continue;
          digests.set(holderDigest, (digests.get(holderDigest) ?? 0) + 1);
        }
        for (const count of digests.values()) assert.ok(count <= SMALL.maxPerPrincipal);
      }
      const openings = this.#pending().filter(({ partition }) => partition.upstream === name);
      assert.ok(openings.length <= SMALL.maxHandshakes);
    }
  }

  /** An opening that begins now is within the limits of now, itself included. */
  #assertWithinLimits({ upstream, holderDigest, identity }: FakePartition): void {
    const limits = this.#limits.get(upstream) ?? SMALL;
    const own = this.#permits().filter((partition) => partition.upstream === upstream);
    assert.ok(own.length <= limits.maxConnections);
    if (identity.kind === 'none') return;
    const same = own.filter((partition) => partition.holderDigest === holderDigest);
    assert.ok(same.length <= limits.maxPerPrincipal);
  }

  /** What has to be true between two moves. */
  #check(): void {
    if (this.#broken !== undefined) throw this.#broken;
    this.#assertCaps();
    assert.equal(this.world.pool.snapshot().connections, this.#permits().length);
    assert.equal(this.world.violations, this.#violations);
    for (const name of UPSTREAMS) this.#checkUpstream(name);
    const known = UPSTREAMS.map((name) => this.world.of(name).gauges.partitions);
    assert.ok(known.reduce((sum, count) => sum + count, 0) <= POOL_LIMITS.partitions);
    this.#checkLeaseCounts();
    for (const request of this.#requests) {
      if (request.phase === 'queued') this.#assertMustWait(request);
      assert.equal(request.place?.kind, PLACES[request.phase], request.phase);
    }
    for (const opening of this.world.openings) {
      assert.ok((opening.connection?.destroyed.length ?? 0) <= 1, 'closed once');
    }
    for (const connection of this.#live()) this.#checkConnection(connection);
  }

  #checkUpstream(name: string): void {
    const { gauges, opened, closedCounts, open } = this.world.of(name);
    assert.deepEqual({ ...gauges.tied }, this.#recount(name, true));
    assert.deepEqual({ ...gauges.untied }, this.#recount(name, false));
    const closed = Object.values(closedCounts).reduce((sum, value) => sum + value, 0);
    assert.equal(opened.value - closed, open);
    const queued = this.#requests.filter(
      ({ phase, partition }) => phase === 'queued' && partition.upstream === name,
    );
    assert.equal(gauges.waiters, queued.length);
    assert.ok(queued.length <= SMALL.maxWaiters);
  }

  #recount(name: string, tied: boolean): StateCounts {
    const isMeant = ({ upstream, identity }: FakePartition): boolean =>
      upstream === name && (identity.kind !== 'none') === tied;
    const live = this.#live().filter(({ partition }) => isMeant(partition));
    const held = live.filter((connection) => this.#holders.has(connection));
    const draining = held.filter(({ partition }) => partition.retired).length;
    return {
      opening: this.#pending().filter(({ partition }) => isMeant(partition)).length,
      leased: held.length - draining,
      idle: live.length - held.length,
      draining,
    };
  }

  /** Each search is counted under one result, at the latest when it leaves the queue. */
  #checkLeaseCounts(): void {
    const counted = UPSTREAMS.flatMap((name) => Object.values(this.world.of(name).leaseCounts));
    const queued = this.#requests.filter(({ phase }) => phase === 'queued').length;
    assert.equal(
      counted.reduce((sum, value) => sum + value, queued),
      this.#acquired,
    );
  }

  /** A request waits only while something is in the way that it cannot push aside. */
  #assertMustWait(request: Request): void {
    const { partition, since } = request;
    const { clock } = this.world;
    assert.ok(clock.now() - since <= SMALL.waitMs + LATE_MS, 'a waiter is overdue');
    assert.equal(partition.retired, false);
    const idle = this.#live().filter((connection) => !this.#holders.has(connection));
    const own = idle.filter((connection) => connection.partition === partition);
    if (!request.fresh)
      assert.deepEqual(own, [], 'an idle connection of its own partition is there');
    if (this.#gated.has(nameOf(partition.identity))) return;
    const limits = this.#limits.get(partition.upstream) ?? SMALL;
    const sameUpstream = ({ upstream }: FakePartition): boolean => upstream === partition.upstream;
    const samePrincipal = (other: FakePartition): boolean =>
      sameUpstream(other) && other.holderDigest === partition.holderDigest;
    const pending = this.#pending().filter((opening) => sameUpstream(opening.partition));
    const isBlocked =
      pending.length >= limits.maxHandshakes ||
      (partition.identity.kind !== 'none' &&
        this.#isStuck(samePrincipal, limits.maxPerPrincipal, idle)) ||
      this.#isStuck(sameUpstream, limits.maxConnections, idle) ||
      this.#isStuck(() => true, POOL_LIMITS.upstreamConnections, idle);
    assert.ok(isBlocked, `${request.request} waits, and nothing is in its way`);
    this.#note('has to wait');
  }

  /** At its cap, with nothing idle to close. */
  #isStuck(
    isMeant: (partition: FakePartition) => boolean,
    cap: number,
    idle: readonly FakeConnection[],
  ): boolean {
    if (this.#permits().filter(isMeant).length < cap) return false;
    return !idle.some(({ partition }) => isMeant(partition));
  }

  #checkConnection(connection: FakeConnection): void {
    const now = this.world.clock.now();
    const isIdle = !this.#holders.has(connection);
    assert.equal(connection.watching !== undefined, isIdle, 'idle ones watch themselves');
    if (!isIdle) return;
    assert.equal(connection.partition.retired, false, 'a retired partition keeps nothing idle');
    const since = this.#idleSince.get(connection);
    const opened = this.#openedAt.get(connection);
    assert.ok(since !== undefined && opened !== undefined);
    assert.ok(now - since <= SMALL.idleMs + LATE_MS, 'idle for too long');
    assert.ok(now - opened <= SMALL.maxAgeMs + LATE_MS, 'too old');
  }

  /** Everything that runs ends, and nothing is left. */
  #finish(): void {
    this.#abortsAtOnce = false;
    this.world.pool.close();
    for (const opening of this.#pending()) this.#end(opening, opening.aborted === 0);
    for (const request of this.#holders.values()) this.#endLease(request, 'release');
    this.#check();
    assert.deepEqual(this.#permits(), []);
    for (const name of UPSTREAMS) assert.equal(this.world.of(name).open, 0);
    for (const { phase, request } of this.#requests) assert.equal(phase, 'over', request);
  }

  #note(event: string): void {
    this.seen.set(event, (this.seen.get(event) ?? 0) + 1);
  }
}

/** Where the pool has a request, by what the request was told. */
const PLACES = Object.freeze({
  queued: 'queued',
  opening: 'opening',
  leased: undefined,
  over: undefined,
} as const);

function choose<T>(items: readonly T[], pick: number): T | undefined {
  return items[pick % Math.max(items.length, 1)];
}

function identityOf(pick: number, generation: number): Identity {
  const principal = PRINCIPALS[pick % 3];
  return principal === undefined ? NO_IDENTITY : ntlm(principal, { secret: generation });
}

function nameOf(identity: Identity): string {
  return identity.kind === 'none' ? 'none' : identity.principal;
}
