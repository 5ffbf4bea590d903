/** Tunnels through forward proxies, and through haproxy to the same far end. */

import { join } from 'node:path';
import { formatOrder, type TunnelOrder } from '../load/orders.ts';
import type { ProcessGroup } from '../process-group.ts';
import type { ForwardName } from '../scenario-names.ts';
import { type Contestant, parseWork } from './contestant.ts';
import { startForward, type Stage } from './stage.ts';

const LOAD = join(import.meta.dirname, '../load/tunnels.ts');
const RUN_MS = 60_000;
export const GIBIBYTE = 2 ** 30;
/** Each of cntlm's tunnels is a login at its parent: ten times slower than the others. */
const FEWER_OF_CNTLM = 10;

export interface TunnelCase {
  readonly order: TunnelOrder;
  /** In one measurement. */
  readonly tunnels: number;
  readonly warmUps: number;
}

/** Starts the proxies. cntlm knows no way without a parent: its own CPU counts, not the parent's. */
export async function prepareTunnels(
  stage: Stage,
  group: ProcessGroup,
  subjects: readonly ForwardName[],
  one: TunnelCase,
): Promise<Contestant[]> {
  const farEnd = await stage.farEnd();
  const contestants: Contestant[] = [];
  for (const name of subjects) {
    const way =
      name === 'haproxy'
        ? ({ kind: 'port', port: farEnd } as const)
        : name === 'cntlm'
          ? await stage.parentWay('ntlm')
          : ({ kind: 'direct' } as const);
    const { port, child } = await startForward(group, name, way);
    const tunnels = name === 'cntlm' ? Math.ceil(one.tunnels / FEWER_OF_CNTLM) : one.tunnels;
    const through = way.kind === 'port' ? [] : ['--target', `127.0.0.1:${farEnd}`];
    const order = ['--order', formatOrder(one.order).trim(), '--count', String(tunnels)];
    contestants.push({
      name,
      pid: child.pid,
      warmUps: one.warmUps,
      run: async (connections) => {
        const args = [LOAD, '--port', String(port), ...through, ...order];
        const load = [...args, '--connections', String(connections)];
        return parseWork(await stage.runLoad(process.execPath, load, RUN_MS));
      },
    });
  }
  return contestants;
}
