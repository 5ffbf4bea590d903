/** `sidekerb demo`: an NTLM origin, sidekerb in front of it, and what each saw. */

import { noLog } from '../src/log/log.ts';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine } from './command.ts';
import { packageVersion } from './version.ts';

export const demo: Command = {
  usage: ['sidekerb demo [--once]'],
  help: `Starts an NTLM origin and sidekerb in front of it with two principals, sends requests of both, and
prints who was seen on which socket. Then it stays up for trying.

  --once   end after the table`,
  run: async (args, terminal) => {
    const { values } = parseCommandLine(args, { once: { type: 'boolean' } }, { min: 0, max: 0 });
    const [{ runDemo }, { startDemoDaemon }] = await Promise.all([
      import('../src/demo/run.ts'),
      import('./demo-daemon.ts'),
    ]);
    const stopped = new AbortController();
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopped.abort());
    const deps = {
      startDaemon: (file: string) =>
        startDemoDaemon(file, { log: noLog, version: packageVersion() }),
    };
    const options = {
      once: values.once === true,
      output: (line: string) => terminal.out(`${line}\n`),
    };
    try {
      return await runDemo(deps, options, stopped.signal);
    } catch (error) {
      if (stopped.signal.aborted) return EXIT.ok;
      throw error;
    }
  },
};
