/** What the admin listener sees of the running daemon. */
import { describeStatus } from '../admin/status-data.ts';
import type {
  AdminView,
  PartitionStatus,
  Readiness,
  ReloadReport,
  StatusData,
} from '../admin/view.ts';
import type { ListenAddress } from '../config/config.ts';
import type { PartitionSnapshot } from '../pool/snapshot.ts';
import type { Listener } from '../server/listener.ts';
import type { Generation } from './generation.ts';
import { upstreamsOf } from './partition-upstreams.ts';
import type { Runtime } from './runtime.ts';

export interface ViewDeps {
  readonly runtime: Runtime;
  /** In force now. */
  readonly generation: () => Generation;
  readonly listeners: () => readonly Listener[];
  readonly reload: () => Promise<ReloadReport>;
  readonly readiness: () => { readonly ready: boolean; readonly reasons: readonly string[] };
}

export function createAdminView(deps: ViewDeps): AdminView {
  const { pool, guard } = deps.runtime;
  return {
    ready: () => readiness(deps),
    status: () => status(deps),
    pools: () =>
      pool.snapshot().upstreams.map(({ upstream, partitions }) => ({
        upstream,
        partitions: partitions.map(partitionStatus),
      })),
    config: () => deps.generation().config.effective,
    drainUpstream: (name) => {
      if (!Object.hasOwn(deps.generation().config.upstreams, name)) return false;
      pool.retireWhere((partition) => upstreamsOf(partition).includes(name), 'flushed');
      return true;
    },
    flushPrincipal: (name) => {
      const { identities, config } = deps.generation();
      const identity = identities.get(name);
      const isCaller = Object.hasOwn(config.principals, name) && identity === undefined;
      if (identity === undefined && !isCaller) return false;
      // The accounts are those that callers named, whichever principal they are mapped by.
      if (identity === undefined) guard.flushCallers();
      else guard.flush(identity.account);
      pool.retirePrincipal(name, 'flushed');
      return true;
    },
    reload: () => deps.reload(),
  };
}

function status(deps: ViewDeps): StatusData {
  const { config } = deps.generation();
  const { metrics, version, startedAt, clock } = deps.runtime;
  return describeStatus(metrics, {
    version,
    startedAt,
    now: clock.wall(),
    readiness: readiness(deps),
    listeners: deps.listeners().map((listener) => ({
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
  });
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
  const degraded = [...openGuards(deps), ...deps.generation().callerSources.troubles];
  const strict = deps.generation().config.admin?.readiness === 'strict';
  if (!strict || degraded.length === 0) return { ready, reasons, degraded };
  return { ready: false, reasons: [...reasons, ...degraded], degraded };
}

function openGuards({ generation: current, runtime }: ViewDeps): string[] {
  const { config, identities } = current();
  const open: string[] = [];
  for (const identity of identities.values()) {
    for (const upstream of Object.keys(config.upstreams)) {
      const { account, generation } = identity;
      if (runtime.guard.state(account, upstream, generation) === 'closed') continue;
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
