/** `sidekerb hash`: what stands for a password in files, so that the password itself need not be stored. */

import { ntowfv1 } from '../src/auth/ntlm/ntlmv2.ts';
import { parseHtpasswd } from '../src/identity/htpasswd.ts';
import { hashPassword } from '../src/inbound/htpasswd/password-hash.ts';
import type { Command } from './command.ts';
import { EXIT, parseCommandLine, UsageError } from './command.ts';
import { readPassword } from './password.ts';

export const hash: Command = {
  usage: ['sidekerb hash', 'sidekerb hash --htpasswd USER'],
  help: `Prints the NT hash of a password, for the ntHash of a principal. The password is typed twice
without echo, or is the first line of a stdin that is no terminal. The hash is as good as the
password: keep it in a file or variable that only sidekerb can read.

  --htpasswd USER   a line for the file of basic: { users } instead (bcrypt)`,
  run: async (args, terminal) => {
    const { values } = parseCommandLine(args, { htpasswd: { type: 'string' } }, { min: 0, max: 0 });
    const password = await readPassword(process.stdin, (text) => terminal.err(text));
    if (password === undefined)
      throw new UsageError('the password is empty, not UTF-8, or was typed in two ways');
    const { htpasswd: user } = values;
    const line = user === undefined ? ntowfv1(password).toString('hex') : userLine(user, password);
    terminal.out(`${line}\n`);
    return EXIT.ok;
  },
};

/** A line that `basic: { users }` takes; a user who could never log in is a fault here. */
function userLine(user: string, password: string): string {
  if (Buffer.byteLength(password) > 72)
    throw new UsageError('bcrypt looks at 72 bytes only; take a shorter password');
  const line = `${user}:${hashPassword(password)}`;
  const parsed = parseHtpasswd(line);
  if ('fault' in parsed || !parsed.users.has(user))
    throw new UsageError('--htpasswd: no user name');
  return line;
}
