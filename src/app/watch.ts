/**
 * Watches the files of the configuration: says when their content is other than at the last load.
 *
 * Folders are watched and not files, because a file may be replaced, or be a link whose target is
 * exchanged (Kubernetes' `..data`). What a watcher misses, or a file system without events, is seen by
 * a look every few seconds. Contents decide, never times.
 */
import { type FSWatcher, realpathSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { Deadline, type DeadlineWheel } from '../deadlines.ts';
import type { Reloadable } from './contract.ts';

/** After an event: a writer may need a moment for all of its files. */
const SETTLE_MS = 200;
const LOOK_MS = 3000;

export interface WatchDeps {
  readonly source: Reloadable;
  readonly deadlines: DeadlineWheel;
  /** Called when content has changed; the next look comes after it has settled. */
  readonly changed: () => Promise<unknown>;
}

export class ConfigWatch {
  readonly #deps: WatchDeps;
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #look = new Deadline(() => void this.#compare());
  #isOn = false;
  #isBusy = false;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  /** On or off, and which folders: to be called after each load. */
  follow(isOn: boolean): void {
    this.#isOn = isOn;
    const folders = isOn ? foldersOf(this.#deps.source.files) : new Set<string>();
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#watch(folder);
    if (isOn) this.#deps.deadlines.arm(this.#look, LOOK_MS);
    else this.#deps.deadlines.disarm(this.#look);
  }

  #watch(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#noticed());
      watcher.on('error', () => {
        watcher.close();
        this.#watchers.delete(folder);
      });
      this.#watchers.set(folder, watcher);
    } catch {
      // The folder is not there, or the system has no watcher left: the regular look goes on.
    }
  }

  #noticed(): void {
    if (this.#isOn && !this.#isBusy) this.#deps.deadlines.arm(this.#look, SETTLE_MS);
  }

  async #compare(): Promise<void> {
    if (!this.#isOn || this.#isBusy) return;
    this.#isBusy = true;
    try {
      if (this.#deps.source.hasChanged()) await this.#deps.changed();
    } finally {
      this.#isBusy = false;
    }
    this.follow(this.#isOn);
  }
}

/** Where a change of these files can be seen: beside their names, and beside what links lead to. */
function foldersOf(files: readonly string[]): Set<string> {
  const folders = new Set<string>();
  for (const file of files) {
    folders.add(dirname(file));
    try {
      folders.add(dirname(realpathSync(file)));
    } catch {
      // The file is not there now.
    }
  }
  return folders;
}
