/** What the admin listener sees of the running daemon. */
import { describeStatus } from '../admin/status-data.ts';
import type { AdminView, PartitionStatus, Readiness } from '../admin/view.ts';
import type { LoginGuard } from '../auth/guard.ts';
import type { Config, ListenAddress } from '../config/config.ts';
import type { LoginIdentity } from './identities.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Pool } from '../pool/pool.ts';
import type { PartitionSnapshot } from '../pool/snapshot.ts';
import type { Listener } from '../server/listener.ts';
import type { UpstreamConnection } from '../upstream/connection.ts';
import type { OpeningRequest } from '../upstream/opening-request.ts';

export interface ViewDeps {
  readonly config: Config;
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly wall: () => number;
  readonly metrics: Metrics;
  readonly pool: Pool<UpstreamConnection, OpeningRequest>;
  readonly guard: LoginGuard;
  readonly identities: ReadonlyMap<string, LoginIdentity>;
  readonly listeners: readonly Listener[];
  readonly readiness: () => { readonly ready: boolean; readonly reasons: readonly string[] };
}

export function createAdminView(deps: ViewDeps): AdminView {
  const { config, pool } = deps;
  return {
    ready: () => readiness(deps),
    status: () =>
      describeStatus(deps.metrics, {
        version: deps.version,
        startedAt: deps.startedAt,
        now: deps.wall(),
        readiness: readiness(deps),
        listeners: deps.listeners.map((listener) => ({
          name: listener.name,
          mode: config.listeners.find(({ name }) => name === listener.name)?.mode ?? '',
          addresses: listener.addresses.map((address) =>
            typeof address === 'string' ? `unix:${address}` : formatAddress(address),
          ),
        })),
        upstreams: Object.values(config.upstreams).map(({ name, target }) => ({
          name,
          origin: `${target.scheme}://${target.authority}`,
        })),
      }),
    pools: () =>
      pool.snapshot().upstreams.map(({ upstream, partitions }) => ({
        upstream,
        partitions: partitions.map(partitionStatus),
      })),
    config: () => config.effective,
    drainUpstream: (name) => {
      if (!Object.hasOwn(config.upstreams, name)) return false;
      pool.drainUpstream(name);
      return true;
    },
    flushPrincipal: (name) => {
      const identity = deps.identities.get(name);
      if (identity === undefined) return false;
      deps.guard.flush(identity.account);
      pool.retirePrincipal(name, 'flushed');
      return true;
    },
  };
}

const formatAddress = ({ address, port }: { address: string; port: number }): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;

/** As the admin server wants its addresses. */
export const adminAddress = (
  address: ListenAddress,
  mode: number,
): { host: string; port: number } | { socketPath: string; mode: number } =>
  address.kind === 'unix'
    ? { socketPath: address.path, mode }
    : { host: address.host, port: address.port };

// `strict` lets trouble of credentials change the status; `normal` only tells of it.
function readiness(deps: ViewDeps): Readiness {
  const { ready, reasons } = deps.readiness();
  const degraded = openGuards(deps);
  const strict = deps.config.admin?.readiness === 'strict';
  if (!strict || degraded.length === 0) return { ready, reasons, degraded };
  return { ready: false, reasons: [...reasons, ...degraded], degraded };
}

function openGuards({ config, guard, identities }: ViewDeps): string[] {
  const open: string[] = [];
  for (const identity of identities.values()) {
    for (const upstream of Object.keys(config.upstreams)) {
      if (guard.state(identity.account, upstream, identity.generation) === 'closed') continue;
      open.push(`guard open: principal ${identity.principal}, upstream ${upstream}`);
    }
  }
  return open;
}

function partitionStatus(partition: PartitionSnapshot): PartitionStatus {
  const { counts } = partition;
  return {
    id: partition.id,
    principal: partition.principal,
    connections: {
      connecting: counts.opening,
      handshaking: 0,
      active: counts.leased + counts.draining,
      idle: counts.idle,
    },
    waiters: partition.waiters,
    retired: partition.retired,
    oldestMs: partition.oldestMs,
  };
}
