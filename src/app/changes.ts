/** What makes one generation other than another one: for the report, and for who has to retire. */
import type { NamedChanges } from '../admin/view.ts';
import type { Config } from '../config/config.ts';
import { identityDigest } from '../identity/digest.ts';
import type { LoginIdentity } from '../identity/identity.ts';
import type { Generation } from './generation.ts';

export interface GenerationChanges {
  /** Changed: another secret or account. A secret that moved to another file is the same. */
  readonly principals: NamedChanges;
  readonly upstreams: NamedChanges;
  /** The rules of a forward listener are other, so what was reached under the old ones may not be. */
  readonly forwardRules: boolean;
}

export function changesBetween(old: Generation, next: Generation): GenerationChanges {
  const isSameIdentity = (one: LoginIdentity, other: LoginIdentity): boolean =>
    identityDigest(one) === identityDigest(other);
  return {
    principals: namedChanges(old.identities, next.identities, isSameIdentity),
    // Equal targets are one object (`createGeneration`).
    upstreams: namedChanges(
      old.targets,
      next.targets,
      (one, other) => one === other && viaOf(old, one.name) === viaOf(next, other.name),
    ),
    forwardRules: forwardRules(old.config) !== forwardRules(next.config),
  };
}

const viaOf = ({ config }: Generation, upstream: string): string =>
  JSON.stringify(config.upstreams[upstream]?.via);

function namedChanges<T>(
  old: ReadonlyMap<string, T>,
  next: ReadonlyMap<string, T>,
  isSame: (one: T, other: T) => boolean,
): NamedChanges {
  const changed = [...old].flatMap(([name, before]) => {
    const after = next.get(name);
    return after === undefined || isSame(before, after) ? [] : [name];
  });
  return {
    added: [...next.keys()].filter((name) => !old.has(name)),
    removed: [...old.keys()].filter((name) => !next.has(name)),
    changed,
  };
}

function forwardRules({ listeners }: Config): string {
  const rules = listeners.flatMap((listener) => {
    if (listener.mode !== 'forward') return [];
    const { name, allow, direct, private: isPrivate, resolve, via } = listener;
    return [[name, allow, direct, isPrivate, resolve, via]];
  });
  return JSON.stringify(rules);
}

/** Settings that are made once per process, by their keys. */
const FIXED: Readonly<Record<string, (config: Config) => unknown>> = {
  workers: ({ workers }) => workers,
  stateDir: ({ stateDir }) => stateDir,
  'log.level': ({ log }) => log.level,
  'log.access': ({ log }) => log.access,
  'admin.listen': ({ admin }) => admin?.listen,
  'admin.socketMode': ({ admin }) => admin?.socketMode,
  'admin.probes': ({ admin }) => admin?.probes,
  'admin.hosts': ({ admin }) => admin?.hosts,
  'limits.upstreamConnections': ({ limits }) => limits.upstreamConnections,
  'limits.partitions': ({ limits }) => limits.partitions,
};

/** Keys whose value in `next` is not that of `started` and counts only after another start. */
export function restartNeeded(started: Config, next: Config): string[] {
  return Object.entries(FIXED).flatMap(([key, valueOf]) =>
    JSON.stringify(valueOf(started)) === JSON.stringify(valueOf(next)) ? [] : [key],
  );
}
