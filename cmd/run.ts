/** `sidekerb run`: loads the configuration, then hands it to the daemon. */

import type { ConfigSource } from '../src/config/config-source.ts';
import { formatFaults } from '../src/config/faults.ts';
import { exitCodeOf } from './check.ts';
import type { Command, Terminal } from './command.ts';
import { parseCommandLine, UsageError } from './command.ts';

const OPTIONS = {
  config: { type: 'string' },
  parent: { type: 'string' },
  user: { type: 'string' },
  listen: { type: 'string' },
  ca: { type: 'string' },
} as const;

type Values = Partial<Record<keyof typeof OPTIONS, string>>;

export const run: Command = {
  usage: [
    'sidekerb run --config FILE',
    'sidekerb run --parent URL --user NAME [--listen HOST:PORT] [--ca FILE]',
  ],
  help: `Runs the daemon. No port opens before the file is valid and every credential in it was read.
SIGTERM and SIGINT: not ready at once, accepting for shutdown.delay, then draining for
shutdown.grace; a second one ends at once. SIGHUP: reads the configuration and every file that it
names again, and puts them in force as a whole, or tells the faults and changes nothing. With
\`watch\` (the default) the same happens when the content of any of these files changes.

  --config FILE   the configuration

Without a file: a forward proxy for one person, on this machine alone, that logs in to a parent proxy.
The password is typed without echo, or is the first line of a stdin that is no terminal; it is
stored nowhere. This machine and private addresses (10/8, 172.16/12, 192.168/16, fc00::/7) are
reached directly, everything else through the parent; link-local addresses not at all.

  --parent URL         the parent proxy, http://HOST:PORT or https
  --user NAME          DOMAIN\\user or user: NTLM, or inside Negotiate; user@REALM: Kerberos first
  --listen HOST:PORT   where programs find it; default 127.0.0.1:3128
  --ca FILE            certificates to trust beside the system's, for an https parent`,
  run: async (args, terminal) => {
    const { values } = parseCommandLine(args, OPTIONS, { min: 0, max: 0 });
    const source = await sourceOf(values, terminal);
    const { config, faults } = await source.load();
    if (config === undefined) {
      terminal.err(formatFaults(faults));
      return exitCodeOf(faults);
    }
    const { runDaemon } = await import('./daemon.ts');
    return runDaemon(config, source);
  },
};

async function sourceOf(values: Values, terminal: Terminal): Promise<ConfigSource> {
  const { config, ...laptop } = values;
  const isLaptop = Object.values(laptop).some((value) => value !== undefined);
  if (config !== undefined) {
    if (isLaptop) throw new UsageError('--config FILE says all; no other option goes with it');
    const { ConfigSource } = await import('../src/config/config-source.ts');
    return new ConfigSource(config);
  }
  if (!isLaptop) throw new UsageError('--config FILE is missing');
  return laptopOf(laptop, terminal);
}

async function laptopOf(
  { parent, user, listen, ca }: Omit<Values, 'config'>,
  terminal: Terminal,
): Promise<ConfigSource> {
  if (parent === undefined || user === undefined)
    throw new UsageError('--parent URL and --user NAME go together');
  const { checkLaptop, DEFAULT_LISTEN, laptopSource } = await import('./laptop.ts');
  const laptop = { parent, user, listen: listen ?? DEFAULT_LISTEN, ca };
  checkLaptop(laptop);
  const { readPassword } = await import('./password.ts');
  const password = await readPassword(process.stdin, (text) => terminal.err(text), 'once');
  if (password === undefined) throw new UsageError('the password is empty or not UTF-8');
  return laptopSource(laptop, password);
}
