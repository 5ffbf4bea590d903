/** The daemon in this process: its log, its signals, its end. */

import { startApp } from '../src/app.ts';
import type { AppAddresses } from '../src/app.ts';
import type { ConfigSource } from '../src/config/config-source.ts';
import type { Config, ListenAddress } from '../src/config/config.ts';
import type { Log } from '../src/log/log.ts';
import { createLogs } from '../src/log/pino-log.ts';
import { EXIT } from './command.ts';
import { live } from './lifecycle.ts';
import { packageVersion } from './version.ts';

/** Runs `config`, which `source` loaded, until a signal ends it. Resolves with the exit code. */
export async function runDaemon(config: Config, source: ConfigSource): Promise<number> {
  const logs = createLogs({ level: config.log.level, access: config.log.access ? 'on' : 'off' });
  const { log, access } = logs;
  process.on('uncaughtException', (error) => {
    // What is in an unknown state must not go on with authenticated sockets.
    log.error({ reason: error.stack ?? error.message }, 'an internal fault: ending at once');
    logs.flushNow();
    process.exit(EXIT.internal);
  });
  for (const warning of config.warnings)
    log.warn({ reason: warning }, 'the configuration is not as it should be');
  for (const key of config.dangerous) log.warn({ key }, 'a key that weakens security is set');
  const code = await live({
    log,
    start: async () => {
      const app = await startApp(config, { log, access, version: packageVersion(), source });
      logAddresses(app.addresses, log);
      return app;
    },
    on: (signal, listener) => process.on(signal, listener),
    exit: (exitCode) => {
      logs.flushNow();
      process.exit(exitCode);
    },
  });
  await logs.drain();
  // Nothing that was left open may keep a drained process alive.
  process.exit(code);
}

function logAddresses({ listeners, admin, probes }: AppAddresses, log: Log): void {
  const all = Object.entries({ ...listeners, admin, probes });
  for (const [listener, addresses] of all) {
    for (const address of addresses)
      log.info({ listener, address: formatAddress(address) }, 'listening');
  }
}

function formatAddress(address: ListenAddress): string {
  if (address.kind === 'unix') return `unix:${address.path}`;
  return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`;
}
