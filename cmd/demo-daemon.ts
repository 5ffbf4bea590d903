/** Starts sidekerb in this process for the demo, as `run` does. */

import { startApp } from '../src/app.ts';
import { formatFaults } from '../src/config/faults.ts';
import { loadConfig } from '../src/config/load.ts';
import type { ListenAddress } from '../src/config/config.ts';
import type { DemoDaemon } from '../src/demo/run.ts';
import { noAccessLog } from '../src/log/access-log.ts';
import type { Log } from '../src/log/log.ts';

/** Throws where the configuration has faults or a port cannot be had. */
export async function startDemoDaemon(
  configFile: string,
  deps: { readonly log: Log; readonly version: string },
): Promise<DemoDaemon> {
  const { config, faults } = loadConfig(configFile);
  if (config === undefined) throw new Error(formatFaults(faults));
  const app = await startApp(config, { ...deps, access: noAccessLog });
  const listener = config.listeners[0]?.name ?? '';
  return {
    port: portOf(app.addresses.listeners[listener] ?? []),
    adminPort: portOf(app.addresses.admin),
    close: () => app.close(),
  };
}

function portOf(addresses: readonly ListenAddress[]): number {
  const tcp = addresses.find((address) => address.kind === 'tcp');
  if (tcp?.kind !== 'tcp') throw new Error('the demo listens on TCP');
  return tcp.port;
}
