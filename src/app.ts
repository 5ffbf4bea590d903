/**
 * The composition root: a `Config` in, a running daemon out.
 *
 * `app/runtime.ts` has what lives as long as the process, `app/generation.ts` what one configuration
 * makes, `app/daemon.ts` the order of start and end.
 */
import type { App, AppDeps } from './app/contract.ts';
import { Daemon } from './app/daemon.ts';
import { createGeneration } from './app/generation.ts';
import { Runtime } from './app/runtime.ts';
import type { Config } from './config/config.ts';
import { chooseEngine } from './server/raw-socket.ts';

export type { App, AppAddresses, AppDeps } from './app/contract.ts';

/** Starts the daemon. Rejects with the system's error when a listener cannot be opened. */
export async function startApp(config: Config, deps: AppDeps): Promise<App> {
  const engine = deps.engine ?? (await chooseEngine());
  const runtime = new Runtime(config, { ...deps, engine });
  const daemon = new Daemon(runtime, createGeneration(config, runtime), deps.source);
  await daemon.open();
  return daemon;
}
