/**
 * What a test needs from the machine, and what happens where it is absent.
 *
 * A person may lack a server: the test is skipped and says what is missing. CI installs everything
 * (scripts/debian-packages.txt), so there the same absence is a failure.
 */
import { accessSync, constants, globSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

// Debian keeps servers out of the path of an ordinary user.
const SERVER_FOLDERS = ['/usr/sbin', '/sbin', '/usr/local/sbin'];

/** The full path of a program in PATH or in the folders for servers; undefined where it is absent. */
export function findCommand(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(':').filter((folder) => folder !== '');
  return [...folders, ...SERVER_FOLDERS]
    .map((folder) => join(folder, name))
    .find((path) => isExecutable(path));
}

/** True when this machine has `need`: a program by name, or a file by an absolute glob pattern. */
export function isPresent(need: string): boolean {
  return need.startsWith('/') ? globSync(need).length > 0 : findCommand(need) !== undefined;
}

/** True when every need (`isPresent`) is there; else `t` is skipped with the reason, or fails under CI=true. */
export function requireCommand(t: TestContext, ...needs: readonly string[]): boolean {
  const absent = needs.filter((need) => !isPresent(need));
  return absent.length === 0 ? true : lacks(t, absent.join(', '));
}

/** Skips `t` because `what` is missing, and answers false; throws under CI=true instead. */
export function lacks(t: TestContext, what: string): false {
  const reason = `missing: ${what}; scripts/debian-packages.txt lists what the tests need`;
  if (process.env['CI'] === 'true') throw new Error(reason);
  t.skip(reason);
  return false;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
