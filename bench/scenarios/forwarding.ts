/** Absolute-form GETs of a small answer through a forward proxy, by wrk. */

import { CASES, wrkScript } from '../cases.ts';
import { findWrkFault, parseWrkOutput } from '../wrk.ts';
import type { ForwardWay } from '../forward/forward-subject.ts';
import type { ProcessGroup } from '../process-group.ts';
import type { ForwardName } from '../scenario-names.ts';
import type { Contestant } from './contestant.ts';
import { askThrough, type ForwardAnswer } from './probe.ts';
import { startForward, type RunningForward, type Stage } from './stage.ts';

/** What wrk may take longer than it was told. */
const WRK_EXTRA_MS = 10_000;
/** Two turns of this and what follows is compiled. */
const WARM_UPS = 2;

export interface ForwardingCase {
  readonly name: string;
  readonly way: ForwardWay;
  /** What is fetched. */
  readonly originPort: number;
  readonly seconds: number;
}

/** Starts the proxies, proves that each logs in, and makes them ready. */
export async function prepareForwarding(
  stage: Stage,
  group: ProcessGroup,
  subjects: readonly ForwardName[],
  one: ForwardingCase,
): Promise<Contestant[]> {
  const url = `http://127.0.0.1:${one.originPort}/`;
  await checkLoginIsAsked(one, url);
  const script = await stage.write(`${one.name}.lua`, forwardScript(url));
  const contestants: Contestant[] = [];
  for (const name of subjects) {
    const proxy = await startForward(group, name, one.way);
    const expected = await checkAnswer(one, proxy, url);
    contestants.push({
      name,
      pid: proxy.child.pid,
      warmUps: WARM_UPS,
      run: async (connections) => {
        const size = ['-t', '1', '-c', String(connections), '-d', `${one.seconds}s`];
        const args = [...size, '--timeout', '5s', '-s', script, `http://127.0.0.1:${proxy.port}/`];
        const output = await stage.runLoad('wrk', args, one.seconds * 1000 + WRK_EXTRA_MS);
        const result = parseWrkOutput(output);
        const { bodyBytes, headBytes } = expected;
        // cntlm closes connections after answers that promise to keep them; only whole ones are counted.
        const counted = name === 'cntlm' ? { ...result, read: 0, write: 0 } : result;
        return {
          requests: result.requests,
          seconds: result.microseconds / 1e6,
          p50Ms: result.p50 / 1000,
          p99Ms: result.p99 / 1000,
          fault: findWrkFault(counted, { bodyBytes, answerBytes: bodyBytes + headBytes }),
        };
      },
    });
  }
  return contestants;
}

/** The script for wrk: the same GET each time, with `url` as its target. */
export function forwardScript(url: string): string {
  const [tiny] = CASES;
  if (tiny === undefined) throw new Error('no case');
  const { host } = new URL(url);
  return `${wrkScript(tiny)}wrk.path = "${url}"\nwrk.headers["Host"] = "${host}"\n`;
}

async function checkLoginIsAsked({ name, way }: ForwardingCase, url: string): Promise<void> {
  if (way.kind !== 'parent' && way.kind !== 'origin') return;
  const { status } = await askThrough(way.port, way.kind === 'parent' ? url : '/');
  const asked = way.kind === 'parent' ? 407 : 401;
  if (status !== asked) throw new Error(`${name}: ${status} without a login, not ${asked}`);
}

async function checkAnswer(
  { name, way }: ForwardingCase,
  proxy: RunningForward,
  url: string,
): Promise<ForwardAnswer> {
  const answer = await askThrough(proxy.port, url);
  if (answer.status !== 200) throw new Error(`${name}: ${proxy.name} answers ${answer.status}`);
  if (way.kind === 'parent' && !answer.parentUser.toLowerCase().includes(way.account.user)) {
    throw new Error(`${name}: behind ${proxy.name} the parent knows '${answer.parentUser}'`);
  }
  return answer;
}
