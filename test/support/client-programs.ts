/**
 * Programs of other people as clients: whether the machine has one, and running it to its end without
 * this machine's own proxies. What each is asked to do is decided by the tests.
 */

import { execFile, spawnSync } from 'node:child_process';

/** Milliseconds that a client may take on a busy machine. */
const TIMEOUT_MS = 30_000;

/**
 * A reason to skip when `command` with `args` does not succeed; false when it does. Under CI=true it is
 * always false: there the program must be present.
 */
export function absentProgram(command: string, args: readonly string[]): string | false {
  if (process.env['CI'] === 'true') return false;
  return spawnSync(command, args).status === 0 ? false : `${command} ${args.join(' ')} fails`;
}

/** The environment of a client: nothing of this machine's proxies or of an npm that runs the tests. */
export function clientEnvironment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/_proxy$|^(npm|node)_/i.test(name));
  return { ...Object.fromEntries(own), ...more };
}

/** Runs a client to its end and gives its output; throws with what it wrote to stderr when it fails. */
export function runClient(
  command: string,
  args: readonly string[],
  options: {
    readonly environment?: Readonly<Record<string, string>>;
    readonly folder?: string;
  } = {},
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(
    command,
    args,
    {
      env: clientEnvironment(options.environment),
      timeout: TIMEOUT_MS,
      maxBuffer: 16 * 1024 * 1024,
      ...(options.folder === undefined ? {} : { cwd: options.folder }),
    },
    (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else
        reject(
          new Error(`${command}: ${stderr.slice(-2000)}${stdout.slice(-2000)}`, { cause: error }),
        );
    },
  );
  return promise;
}
