/** Reads from the daemon's own /metrics how requests got their upstream connections. */

import { DEMO_UPSTREAM } from './demo-files.ts';

/** Values of `sidekerb_pool_lease_requests_total` by result; what is absent is 0. */
export type LeaseCounters = ReadonlyMap<string, number>;

/** The counters of the demo's upstream in an exposition in Prometheus text format. */
export function parseLeaseCounters(exposition: string): LeaseCounters {
  const counters = new Map<string, number>();
  const pattern = /^sidekerb_pool_lease_requests_total\{([^}]*)\} (\S+)$/gm;
  for (const [, labels = '', value] of exposition.matchAll(pattern)) {
    const result = /result="([^"]*)"/.exec(labels)?.[1];
    if (result === undefined || !labels.includes(`upstream="${DEMO_UPSTREAM}"`)) continue;
    counters.set(result, (counters.get(result) ?? 0) + Number(value));
  }
  return counters;
}

/** The results whose counters grew from `before` to `after`, joined by `+`; `-` for none. */
export function grown(before: LeaseCounters, after: LeaseCounters): string {
  const results = [...after].filter(([result, value]) => value > (before.get(result) ?? 0));
  return results.length === 0 ? '-' : results.map(([result]) => result).join('+');
}

/** Hits and all requests. */
export function hitRate(counters: LeaseCounters): { readonly hits: number; readonly all: number } {
  const all = [...counters.values()].reduce((sum, value) => sum + value, 0);
  return { hits: counters.get('hit') ?? 0, all };
}
