/** `sidekerb check`: tells every fault of a configuration, or what is in force. Opens nothing. */

import { formatFaults, formatFaultsJson } from '../src/config/faults.ts';
import type { Fault } from '../src/config/faults.ts';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine } from './command.ts';

export const check: Command = {
  usage: ['sidekerb check FILE [--print] [--json]'],
  help: `Checks a configuration file and every credential file that it names. No port is opened and no
network is used.

  --print   print the configuration in force: defaults filled in, the principal of each route and
            hop, secrets as the references that the file has
  --json    print faults, or with --print the configuration, as JSON on stdout`,
  run: async (args, terminal) => {
    const options = { print: { type: 'boolean' }, json: { type: 'boolean' } } as const;
    const { values, positionals } = parseCommandLine(args, options, { min: 1, max: 1 });
    // Loaded here, as the other commands start in a third of the time without it.
    const { effectiveConfig } = await import('../src/config/load.ts');
    const { ConfigSource } = await import('../src/config/config-source.ts');
    const { config, faults } = await new ConfigSource(positionals[0] ?? '').load();
    if (config === undefined) {
      if (values.json === true) terminal.out(formatFaultsJson(faults));
      else terminal.err(formatFaults(faults));
      return exitCodeOf(faults);
    }
    for (const key of config.dangerous) terminal.err(`${config.file}: ${key}: weakens security\n`);
    if (values.print === true) {
      const { formatYaml } = await import('../src/config/yaml-document.ts');
      const data = effectiveConfig(config);
      terminal.out(
        values.json === true ? `${JSON.stringify(data, undefined, 2)}\n` : formatYaml(data),
      );
    } else {
      terminal.out(values.json === true ? formatFaultsJson([]) : `${config.file}: valid\n`);
    }
    return EXIT.ok;
  },
};

/** 78 for a fault of the file, 69 where only credentials are missing or malformed. */
export function exitCodeOf(faults: readonly Fault[]): number {
  return faults.every(({ kind }) => kind === 'credential') ? EXIT.unavailable : EXIT.config;
}
