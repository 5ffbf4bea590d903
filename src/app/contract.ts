/** What starts the daemon and what a running one offers; `app.ts` makes one of the other. */
import type { ReloadReport } from '../admin/view.ts';
import type { AcceptorHelper } from '../auth/kerberos/acceptors.ts';
import type { ListenAddress } from '../config/config.ts';
import type { LoadResult } from '../config/load.ts';
import type { LegObserver } from '../establish/leg-observer.ts';
import type { AccessLog } from '../log/access-log.ts';
import type { Log } from '../log/log.ts';
import type { SocketEngine } from '../server/raw-socket.ts';
import type { Lookup } from '../upstream/resolve.ts';

export interface AppDeps {
  readonly log: Log;
  readonly access: AccessLog;
  readonly version: string;
  /** Where the configuration came from; absent: it cannot be read again. */
  readonly source?: Reloadable;
  /** How callers' sockets are read; default: what the self-test of this Node finds to work. */
  readonly engine?: SocketEngine;
  /** Who looks on while connections are opened; default: nobody. */
  readonly legs?: LegObserver;
  /** How names of forward targets are looked up; default: as the system does. */
  readonly lookup?: Lookup;
  /** Who looks into callers' tickets; default: processes with the machine's Kerberos. */
  readonly acceptorHelper?: AcceptorHelper;
}

/** A configuration that can be read again (`config/config-source.ts`). */
export interface Reloadable {
  load(): Promise<LoadResult>;
  /** Absolute paths of what the last load read, or wanted to read. */
  readonly files: readonly string[];
  /** Whether any of them has another content than then. */
  hasChanged(): boolean;
  /** Ends what is still being loaded. */
  close(): void;
}

/** Who asked for a reload. */
export type ReloadCause = 'signal' | 'api' | 'watch';

export interface AppAddresses {
  /** By listener name. */
  readonly listeners: Readonly<Record<string, readonly ListenAddress[]>>;
  readonly admin: readonly ListenAddress[];
  readonly probes: readonly ListenAddress[];
}

export interface App {
  /** Where it listens, with real ports. */
  readonly addresses: AppAddresses;
  /**
   * Reads the configuration again and puts it in force as a whole, or changes nothing (I10). One after
   * the other. Never rejects; the report is logged and counted too.
   */
  reload(cause: ReloadCause): Promise<ReloadReport>;
  /** Ends gracefully: not ready, delay, grace, then closed. May be called twice. */
  drain(): Promise<void>;
  /** Ends at once. May be called twice. */
  close(): Promise<void>;
}
