/**
 * Keys whose part of the daemon is not built yet. They are decoded and checked like the others; a
 * value that differs from the default is a fault. A part that gets built takes its line out of here.
 */

import { clientKinds, kindOf } from './checks/context.ts';
import type {
  AdminEntry,
  ClientEntry,
  Contract,
  ListenerEntry,
  UpstreamEntry,
} from './contract.ts';
import type { Finding, KeyPath } from './faults.ts';

/** One finding for each such key. */
export function notBuilt(contract: Contract): Finding[] {
  return [
    ...keys([], {
      workers: contract.workers !== 1,
      stateDir: contract.stateDir !== undefined,
    }),
    ...keys(['kerberos'], { provider: contract.kerberos.provider !== 'npm' }),
    ...(contract.admin === undefined ? [] : adminKeys(contract.admin)),
    ...Object.entries(contract.upstreams).flatMap(([name, entry]) =>
      upstreamKeys(entry, ['upstreams', name]),
    ),
    ...contract.listeners.flatMap((entry, index) => listenerKeys(entry, ['listeners', index])),
  ];
}

function keys(path: KeyPath, isUsed: Readonly<Record<string, boolean>>): Finding[] {
  return Object.entries(isUsed).flatMap(([key, used]) => (used ? [finding([...path, key])] : []));
}

function finding(path: KeyPath): Finding {
  return { path, at: typeof path.at(-1) === 'number' ? 'value' : 'key', message: 'not built yet' };
}

function adminKeys(admin: AdminEntry): Finding[] {
  return keys(['admin'], {
    tls: admin.tls !== undefined,
    clients: clientKinds(admin).some((kind) => kind !== 'none'),
    allow: admin.allow !== undefined,
  });
}

function upstreamKeys(upstream: UpstreamEntry, path: KeyPath): Finding[] {
  const { auth, pool } = upstream;
  const pooled = keys([...path, 'pool'], { minIdle: pool.minIdle !== 0 });
  if (auth === undefined) return pooled;
  const at = [...path, 'auth'];
  return [
    ...pooled,
    ...keys(at, {
      handshakeCookies: auth.handshakeCookies,
    }),
  ];
}

function listenerKeys(listener: ListenerEntry, path: KeyPath): Finding[] {
  return [
    ...keys(path, {
      mode: listener.mode === 'socks' || listener.mode === 'tunnel',
      clients: (listener.clients ?? []).some((client) => !isBuiltClient(client)),
      principal: (listener.principal ?? []).some((rule) => !isBuiltRule(rule)),
    }),
  ];
}

/** Kinds of callers that need another system. */
const UNBUILT_KINDS: ReadonlySet<string> = new Set(['sspi']);

const isBuiltClient = (client: ClientEntry): boolean => !UNBUILT_KINDS.has(kindOf(client));

const isBuiltRule = ({ when }: NonNullable<ListenerEntry['principal']>[number]): boolean =>
  when.client === undefined || !UNBUILT_KINDS.has(when.client);
