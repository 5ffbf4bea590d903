/** `sidekerb run`: loads the configuration, then hands it to the daemon. */

import { formatFaults } from '../src/config/faults.ts';
import { exitCodeOf } from './check.ts';
import type { Command } from './command.ts';
import { notBuiltYet, parseCommandLine, UsageError } from './command.ts';

export const run: Command = {
  usage: ['sidekerb run --config FILE', 'sidekerb run --parent URL --user NAME   (not built yet)'],
  help: `Runs the daemon. No port opens before the file is valid and every credential in it was read.
SIGTERM and SIGINT: not ready at once, accepting for shutdown.delay, then draining for
shutdown.grace; a second one ends at once. SIGHUP: reads the configuration and every file that it
names again, and puts them in force as a whole, or tells the faults and changes nothing. With
\`watch\` (the default) the same happens when the content of any of these files changes.

  --config FILE   the configuration`,
  run: async (args, terminal) => {
    const options = {
      config: { type: 'string' },
      parent: { type: 'string' },
      user: { type: 'string' },
    } as const;
    const { values } = parseCommandLine(args, options, { min: 0, max: 0 });
    if (values.parent !== undefined || values.user !== undefined) throw notBuiltYet('--parent');
    if (values.config === undefined) throw new UsageError('--config FILE is missing');
    const { ConfigSource } = await import('../src/config/config-source.ts');
    const source = new ConfigSource(values.config);
    const { config, faults } = source.load();
    if (config === undefined) {
      terminal.err(formatFaults(faults));
      return exitCodeOf(faults);
    }
    const { runDaemon } = await import('./daemon.ts');
    return runDaemon(config, source);
  },
};
