/** What is still on the heap of this process. */
import { getHeapSnapshot, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Runs a full collection. What was reachable in this turn of the event loop may survive it. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  if (typeof collect !== 'function') throw new Error('this Node has no gc');
  collect();
}

/**
 * Whether any string on the heap has `bytes` in it, after a full collection. They stay bytes: as a
 * string they would be found for that reason alone.
 */
export async function heapHolds(bytes: Buffer): Promise<boolean> {
  const chunks: Buffer[] = [];
  for await (const chunk of getHeapSnapshot()) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks).includes(bytes);
}
