/** What the commands share: exit codes, faults of usage, and the form of a command. */

import { parseArgs } from 'node:util';
import type { ParseArgsOptionsConfig } from 'node:util';

/** Exit codes; 130 and 143 are for a second signal. */
export const EXIT = {
  ok: 0,
  usage: 64,
  unavailable: 69,
  internal: 70,
  config: 78,
} as const;

export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

export interface Command {
  /** One line each, without the word `usage`. */
  readonly usage: readonly string[];
  /** What it does, for `--help`. */
  readonly help: string;
  /** Resolves with the exit code; throws `UsageError`. */
  run(args: readonly string[], terminal: Terminal): Promise<number>;
}

/** A command line that cannot be understood: exit code 64 and the command's usage. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A part of the command line that is not built yet: exit code 64. */
export function notBuiltYet(what: string): UsageError {
  return new UsageError(`${what}: not built yet`);
}

/** Values and positionals of a command line. Throws `UsageError`. */
export function parseCommandLine<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  positionals: { readonly min: number; readonly max: number },
) {
  const parsed = parse(args, options);
  const { length } = parsed.positionals;
  if (length < positionals.min) throw new UsageError('an argument is missing');
  if (length > positionals.max) throw new UsageError('too many arguments');
  return parsed;
}

function parse<const T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}
