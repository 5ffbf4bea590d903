/** Whether the programs that a run needs are there, and what to install when they are not. */

import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export interface Requirement {
  /** Who needs it. */
  readonly by: string;
  readonly program: string;
  readonly debianPackage: string;
}

/** Where daemons are, which the PATH of a user who is not root often leaves out. */
const SYSTEM_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** The search path with the folders of daemons added. */
export function extendedPath(path: string): string {
  const folders = path.split(delimiter).filter((folder) => folder !== '');
  return [...new Set([...folders, ...SYSTEM_FOLDERS])].join(delimiter);
}

/** Those of `requirements` whose program is not on `path`. */
export function findMissing(requirements: readonly Requirement[], path: string): Requirement[] {
  const folders = path.split(delimiter);
  return requirements.filter(
    ({ program }) => !folders.some((folder) => isExecutable(join(folder, program))),
  );
}

/** One line for people. */
export function formatMissing({ by, program, debianPackage }: Requirement): string {
  return `${by}: ${program} is missing; Debian's package ${debianPackage} brings it`;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
