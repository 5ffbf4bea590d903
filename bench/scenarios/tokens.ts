/** Kerberos tokens from a cached ticket: sidekerb's provider and its helper in a process of their own. */

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Child } from '../child.ts';
import type { ProcessGroup } from '../process-group.ts';
import { type Contestant, parseWork } from './contestant.ts';
import type { Stage } from './stage.ts';

const PROGRAM = join(import.meta.dirname, '../peers/token-maker.ts');
const READY_MS = 20_000;

/** The process is started anew for each measurement, and tells what it and its helper used. */
export async function prepareTokens(
  stage: Stage,
  group: ProcessGroup,
  seconds: number,
): Promise<Contestant[]> {
  const { account } = await stage.parentWay('negotiate');
  const run = async (connections: number): Promise<ReturnType<typeof parseWork>> => {
    const options = {
      krb5: account.krb5Config,
      keytab: account.keytab,
      name: `${account.user}@${account.realm}`,
      'in-flight': String(connections),
      seconds: String(seconds),
    };
    const child = await group.own(
      await Child.start({
        name: 'tokens',
        command: process.execPath,
        args: [
          PROGRAM,
          ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
        ],
        core: group.cores.proxy,
      }),
    );
    const line = await child.until(
      () => Promise.resolve(/^\{.*\}$/m.exec(child.stdout)?.[0]),
      seconds * 1000 + READY_MS,
    );
    // It removes its tickets first, and then ends by itself.
    await Promise.race([child.ended(), delay(READY_MS, undefined, { ref: false })]);
    await child.stop();
    return parseWork(line);
  };
  return [{ name: 'sidekerb', pid: 0, warmUps: 0, run }];
}
