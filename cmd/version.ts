/** `sidekerb version`. */

import { readFileSync } from 'node:fs';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine } from './command.ts';

export const version: Command = {
  usage: ['sidekerb version'],
  help: 'Prints the version.',
  run: async (args, terminal) => {
    parseCommandLine(args, {}, { min: 0, max: 0 });
    terminal.out(`sidekerb ${packageVersion()}\n`);
    return EXIT.ok;
  },
};

/** The version of package.json. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  const data: unknown = JSON.parse(text);
  if (typeof data === 'object' && data !== null && 'version' in data) return String(data.version);
  return 'unknown';
}
