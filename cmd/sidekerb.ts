#!/usr/bin/env node
/**
 * The command line: finds the command, prints usage, sets the exit code. What a command does is in
 * its own file.
 */

import { check } from './check.ts';
import type { Command, Terminal } from './command.ts';
import { EXIT, notBuiltYet, UsageError } from './command.ts';
import { demo } from './demo.ts';
import { explain } from './explain.ts';
import { hash } from './hash.ts';
import { ready } from './ready.ts';
import { run } from './run.ts';
import { version } from './version.ts';

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ['run', run],
  ['check', check],
  ['doctor', later('sidekerb doctor --config FILE [--json]')],
  ['explain', explain],
  ['ready', ready],
  ['hash', hash],
  ['demo', demo],
  ['version', version],
]);

const terminal: Terminal = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
};

// With it http-proxy-3 would carry HTTP/2 requests over `fetch`, past the connection that serves them.
delete process.env['FORCE_FETCH_PATH'];

process.exitCode = await main(process.argv.slice(2));
// After an internal fault something may still be open; it must not keep the process alive.
if (process.exitCode === EXIT.internal) process.exit();

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === '--help' || name === '-h' || name === 'help') return overview(terminal.out, EXIT.ok);
  const command = name === '--version' ? version : COMMANDS.get(name ?? '');
  if (name === undefined || command === undefined) {
    terminal.err(
      name === undefined
        ? 'sidekerb: a command is missing\n'
        : `sidekerb: there is no command ${name}\n`,
    );
    return overview(terminal.err, EXIT.usage);
  }
  if (args.includes('--help') || args.includes('-h')) {
    terminal.out(`${usageOf(command)}\n${command.help}\n`);
    return EXIT.ok;
  }
  try {
    return await command.run(args, terminal);
  } catch (error) {
    return report(error, name, command);
  }
}

function report(error: unknown, name: string, command: Command): number {
  if (error instanceof UsageError) {
    terminal.err(`sidekerb ${name}: ${error.message}\n${usageOf(command)}`);
    return EXIT.usage;
  }
  terminal.err(
    `sidekerb ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  return EXIT.internal;
}

function overview(print: (text: string) => void, code: number): number {
  print([...COMMANDS.values()].map(usageOf).join(''));
  return code;
}

function usageOf({ usage }: Command): string {
  return usage.map((line, index) => `${index === 0 ? 'usage:' : '      '} ${line}\n`).join('');
}

/** A command of a later issue. */
function later(usage: string): Command {
  return {
    usage: [`${usage}   (not built yet)`],
    help: 'Not built yet.',
    run: async () => {
      throw notBuiltYet('this command');
    },
  };
}
