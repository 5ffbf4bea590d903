/** What starts the daemon and what a running one offers; `app.ts` makes one of the other. */
import type { ListenAddress } from '../config/config.ts';
import type { AccessLog } from '../log/access-log.ts';
import type { Log } from '../log/log.ts';
import type { SocketEngine } from '../server/raw-socket.ts';
import type { Lookup } from '../upstream/resolve.ts';

export interface AppDeps {
  readonly log: Log;
  readonly access: AccessLog;
  readonly version: string;
  /** How callers' sockets are read; default: what the self-test of this Node finds to work. */
  readonly engine?: SocketEngine;
  /** How names of forward targets are looked up; default: as the system does. */
  readonly lookup?: Lookup;
}

export interface AppAddresses {
  /** By listener name. */
  readonly listeners: Readonly<Record<string, readonly ListenAddress[]>>;
  readonly admin: readonly ListenAddress[];
  readonly probes: readonly ListenAddress[];
}

export interface App {
  /** Where it listens, with real ports. */
  readonly addresses: AppAddresses;
  /** Ends gracefully: not ready, delay, grace, then closed. May be called twice. */
  drain(): Promise<void>;
  /** Ends at once. May be called twice. */
  close(): Promise<void>;
}
