/** Which upstreams a partition of the pool has to do with: more than the one that it is counted for. */
import type { UpstreamPartition } from '../relay/plan.ts';
import { ConnectionPath } from '../upstream/path.ts';

/** Names of those whose settings its connections were made with, or who they lead to. */
export function upstreamsOf({ upstream, context }: UpstreamPartition): string[] {
  if (!(context instanceof ConnectionPath)) return [upstream];
  const { origin, parent } = context;
  return [upstream, origin.name, ...(parent === undefined ? [] : [parent.target.name])];
}
