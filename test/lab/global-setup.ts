/**
 * Starts the lab once for a whole run of `node --test` and stops it at the end. Where the machine
 * lacks a server, its tests say so themselves (`useLab`).
 */
import { possibleComponents, shareLab, startLab } from './lab.ts';
import type { Lab } from './lab.ts';

let lab: Lab | undefined;

/** Called by `--test-global-setup` before the first test file. */
export async function globalSetup(): Promise<void> {
  const components = possibleComponents();
  if (components.length === 0) return;
  lab = await startLab(components);
  shareLab(lab);
}

/** Called after the last test file. */
export async function globalTeardown(): Promise<void> {
  await lab?.[Symbol.asyncDispose]();
}
