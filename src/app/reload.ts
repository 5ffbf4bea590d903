/**
 * A reload: reads, prepares everything that can fail, and only then changes what is in force, in one
 * turn of the event loop (I10).
 *
 * 1. Read and check the file and every credential. 2. Make the generation. 3. Open sockets that are
 * missing. 4. In force: credentials, routes, listeners. 5. Partitions of other secrets, targets or
 * rules retire; who waits in them asks again and gets the new ones (R15).
 */
import type { NamedChanges, ReloadReport } from '../admin/view.ts';
import type { Config, ListenAddress } from '../config/config.ts';
import type { LoadResult } from '../config/load.ts';
import { DIRECT_UPSTREAM } from '../metrics/label-words.ts';
import { changesBetween, type GenerationChanges, restartNeeded } from './changes.ts';
import type { ReloadCause } from './contract.ts';
import { admitCallers, createGeneration, type Generation, putInForce } from './generation.ts';
import { type Listeners, preparedAddresses } from './listeners.ts';
import { upstreamsOf } from './partition-upstreams.ts';
import type { Runtime } from './runtime.ts';

export interface ReloadDeps {
  readonly runtime: Runtime;
  readonly listeners: Listeners;
  /** The configuration of the start, whose fixed settings stay. */
  readonly started: Config;
  readonly current: () => Generation;
  /** From here on `current` answers `next`, whose listeners have these addresses. */
  readonly accept: (next: Generation, addresses: readonly ListenAddress[]) => void;
  /** Why there is no reload now; undefined: there may be one. */
  readonly refusal: () => string | undefined;
}

const NO_CHANGES: NamedChanges = { added: [], removed: [], changed: [] };
const NOTHING: ReloadReport = {
  result: 'failed',
  reason: undefined,
  faults: [],
  warnings: [],
  principals: NO_CHANGES,
  upstreams: NO_CHANGES,
  listeners: { opened: [], closed: [] },
  restartNeeded: [],
};

/** Never rejects. Logs and counts what became of it. */
export async function reload(
  deps: ReloadDeps,
  load: () => Promise<LoadResult>,
  cause: ReloadCause,
): Promise<ReloadReport> {
  const { metrics, log } = deps.runtime;
  let report: ReloadReport;
  try {
    report = await attempt(deps, load);
  } catch (error) {
    // Messages of the system and of OpenSSL; neither quotes a secret.
    const reason = error instanceof Error ? error.message : 'unknown';
    report = { ...NOTHING, reason };
  }
  metrics.configReloads.child(report.result).add();
  tell(report, cause, log);
  return report;
}

async function attempt(deps: ReloadDeps, load: () => Promise<LoadResult>): Promise<ReloadReport> {
  const { runtime, listeners, started } = deps;
  const refusal = deps.refusal();
  if (refusal !== undefined) return { ...NOTHING, reason: refusal };
  const { config, faults } = await load();
  if (config === undefined) return { ...NOTHING, faults };
  // Stores may have taken their time: who ends meanwhile opens nothing.
  const since = deps.refusal();
  if (since !== undefined) return { ...NOTHING, reason: since };
  const next = createGeneration(config, runtime, deps.current());
  const prepared = await listeners.prepare(next);
  try {
    // The daemon may have begun to end meanwhile.
    const late = deps.refusal();
    if (late !== undefined) throw new Error(late);
    putInForce(next, runtime);
  } catch (error) {
    listeners.discard(prepared);
    throw error;
  }
  admitCallers(next, runtime, deps.current());
  const changes = changesBetween(deps.current(), next);
  deps.accept(next, preparedAddresses(prepared));
  const opened = listeners.commit(prepared, config.shutdown.grace);
  retire(changes, runtime);
  return {
    result: 'ok',
    reason: undefined,
    faults: [],
    warnings: config.warnings,
    principals: changes.principals,
    upstreams: changes.upstreams,
    listeners: opened,
    restartNeeded: [...restartNeeded(started, config), ...runtime.kerberos.restartNeeded(config)],
  };
}

/** One step for all, so that a waiting request is sent on only once. */
function retire({ principals, upstreams, forwardRules }: GenerationChanges, to: Runtime): void {
  const outdatedPrincipals = [...principals.changed, ...principals.removed];
  const outdatedUpstreams = new Set([...upstreams.changed, ...upstreams.removed]);
  if (forwardRules) outdatedUpstreams.add(DIRECT_UPSTREAM);
  to.pool.retireWhere(
    (partition) =>
      upstreamsOf(partition).some((name) => outdatedUpstreams.has(name)) ||
      outdatedPrincipals.some((principal) => partition.belongsTo(principal)),
    'rotated',
  );
  for (const principal of principals.removed) to.metrics.removePrincipal(principal);
}

function tell(report: ReloadReport, cause: ReloadCause, log: Runtime['log']): void {
  for (const { file, line, column, path, message } of report.faults) {
    log.error(
      { place: `${file}:${line}:${column}`, key: path, reason: message },
      'the configuration has a fault',
    );
  }
  for (const reason of report.warnings) {
    log.warn({ reason }, 'the configuration is not as it should be');
  }
  for (const key of report.restartNeeded) {
    log.warn({ key }, 'a changed setting counts only after a restart');
  }
  const { result, reason, principals, upstreams, listeners, faults } = report;
  if (result === 'failed') {
    log.error({ cause, reason, faults: faults.length }, 'reload failed: nothing is changed');
  } else {
    const fields = {
      principals: namesOf({ ...principals }),
      upstreams: namesOf({ ...upstreams }),
      listeners: namesOf({ ...listeners }),
    };
    log.info({ cause, ...fields }, 'the configuration was reloaded');
  }
}

/** `changed crm, site; removed old`; undefined where there are no names. */
function namesOf(lists: Readonly<Record<string, readonly string[]>>): string | undefined {
  const parts = Object.entries(lists).filter(([, names]) => names.length > 0);
  if (parts.length === 0) return undefined;
  return parts.map(([word, names]) => `${word} ${names.join(', ')}`).join('; ');
}
