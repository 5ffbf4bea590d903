/** Names of the micro benchmarks, as they stand in the output. What each measures is in a file of its own. */

export const MICRO_NAMES = ['identity-digest', 'jwt-decoder'] as const;

export type MicroName = (typeof MICRO_NAMES)[number];
