/** `sidekerb hash`: the NT hash of a password, so that the password itself need not be stored. */

import { ntowfv1 } from '../src/auth/ntlm/ntlmv2.ts';
import type { Command } from './command.ts';
import { EXIT, notBuiltYet, parseCommandLine, UsageError } from './command.ts';
import { readPassword } from './password.ts';

export const hash: Command = {
  usage: ['sidekerb hash [--htpasswd]'],
  help: `Prints the NT hash of a password, for the ntHash of a principal. The password is typed twice
without echo, or is the first line of a stdin that is no terminal. The hash is as good as the
password: keep it in a file or variable that only sidekerb can read.

  --htpasswd   a line for basic: { users } instead (not built yet)`,
  run: async (args, terminal) => {
    const { values } = parseCommandLine(
      args,
      { htpasswd: { type: 'boolean' } },
      { min: 0, max: 0 },
    );
    if (values.htpasswd === true) throw notBuiltYet('--htpasswd');
    const password = await readPassword(process.stdin, (text) => terminal.err(text));
    if (password === undefined)
      throw new UsageError('the password is empty, not UTF-8, or was typed in two ways');
    terminal.out(`${ntowfv1(password).toString('hex')}\n`);
    return EXIT.ok;
  },
};
