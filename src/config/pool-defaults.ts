/**
 * Limits of a pool that depend on what the upstream is: each tunnel through a parent proxy is a
 * connection, and a caller may have many.
 */

import type { UpstreamEntry } from './contract.ts';

interface Limits {
  readonly maxConnections: number;
  readonly maxPerPrincipal: number;
  readonly maxIdle: number;
  readonly maxHandshakes: number;
}

const OF_ORIGIN: Limits = {
  maxConnections: 64,
  maxPerPrincipal: 16,
  maxIdle: 32,
  maxHandshakes: 4,
};

const OF_PARENT: Limits = {
  maxConnections: 1000,
  maxPerPrincipal: 1000,
  maxIdle: 256,
  maxHandshakes: 256,
};

/** The limits with those that the file does not have. */
export function filledPool(
  entry: UpstreamEntry,
): Omit<UpstreamEntry['pool'], keyof Limits> & Limits {
  const { pool } = entry;
  const defaults = entry.proxy === undefined ? OF_ORIGIN : OF_PARENT;
  return {
    ...pool,
    maxConnections: pool.maxConnections ?? defaults.maxConnections,
    maxPerPrincipal: pool.maxPerPrincipal ?? defaults.maxPerPrincipal,
    maxIdle: pool.maxIdle ?? defaults.maxIdle,
    maxHandshakes: pool.maxHandshakes ?? defaults.maxHandshakes,
  };
}
