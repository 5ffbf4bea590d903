/** The cases in turn: each with its proxies, which end with it. */

import type { Component } from '../../test/lab/components.ts';
import type { ProcessGroup } from '../process-group.ts';
import {
  type HandshakeName,
  isForwardName,
  type ScenarioName,
  type ScenarioPlan,
} from '../scenario-names.ts';
import type { Point } from '../statistics.ts';
import { prepareFieldReading, prepareTokenCallers } from './callers.ts';
import { type ColdStart, prepareColdStarts } from './cold-start.ts';
import { type Contestant, runContest } from './contestant.ts';
import { prepareForwarding } from './forwarding.ts';
import { prepareHandshakes } from './handshakes.ts';
import { prepareHttp2, prepareHttp2Tokens } from './http2.ts';
import type { Stage } from './stage.ts';
import { prepareTokens } from './tokens.ts';
import { GIBIBYTE, prepareTunnels } from './tunnels.ts';

/** Both ways, in one short tunnel. */
const SHORT_BYTES = 1024;

export interface ScenarioDeps {
  readonly stage: Stage;
  readonly scenarios: readonly ScenarioPlan[];
  readonly rounds: number;
  /** Length of one point where it has one. */
  readonly seconds: number;
  readonly quick: boolean;
  readonly onPoint: (point: Point) => void;
  /** Told of every start of `jwt-cold`. */
  readonly onStart: (start: ColdStart) => void;
}

/** Components of the lab that a case needs beside its subjects. */
export function labOf({ name, subjects }: ScenarioPlan): readonly Component[] {
  const parents = ['tokens', 'ntlm-parent', 'kerberos-parent'];
  return parents.includes(name) || subjects.includes('cntlm')
    ? ['kdc', 'winbind', 'apache', 'squid']
    : [];
}

/** Measures every case. Throws when a subject does not do what the case is about. */
export async function runScenarios(deps: ScenarioDeps): Promise<Point[]> {
  const { stage, rounds, onPoint } = deps;
  const points: Point[] = [];
  for (const scenario of deps.scenarios) {
    const { name, connections } = scenario;
    const facts = { name, connections, rounds, cores: stage.cores, onPoint };
    points.push(
      ...(await stage.withGroup(async (group) =>
        runContest(facts, await prepare(deps, group, scenario)),
      )),
    );
  }
  return points;
}

async function prepare(
  { stage, seconds, quick, onStart: told }: ScenarioDeps,
  group: ProcessGroup,
  { name, subjects: all }: ScenarioPlan,
): Promise<Contestant[]> {
  const subjects = all.filter(isForwardName);
  const job: Record<ScenarioName, () => Promise<Contestant[]>> = {
    tokens: () => prepareTokens(stage, group, seconds),
    'jwt-http-1': () => prepareTokenCallers(stage, group, { clients: 1, seconds }),
    'jwt-http-10': () => prepareTokenCallers(stage, group, { clients: 10, seconds }),
    'jwt-cold': () => prepareColdStarts(stage, group, { seconds: quick ? 10 : 60, told }),
    'headers-read': () => prepareFieldReading(stage, group, all, seconds),
    'h2-tiny': () => prepareHttp2(stage, group, { subjects: all, seconds }),
    'jwt-h2-1': () => prepareHttp2Tokens(stage, group, { clients: 1, seconds }),
    'jwt-h2-10': () => prepareHttp2Tokens(stage, group, { clients: 10, seconds }),
    'jwt-h2-cold': () =>
      prepareColdStarts(stage, group, { seconds: quick ? 10 : 60, told, http2: true }),
    'tls-rsa-12': () => handshakes('tls-rsa-12'),
    'tls-rsa-13': () => handshakes('tls-rsa-13'),
    'tls-ec-12': () => handshakes('tls-ec-12'),
    'tls-ec-13': () => handshakes('tls-ec-13'),
    'tls-resumed-12': () => handshakes('tls-resumed-12'),
    'tls-resumed-13': () => handshakes('tls-resumed-13'),
    'ntlm-parent': () => throughParent('ntlm'),
    'kerberos-parent': () => throughParent('negotiate'),
    'ntlm-origin': async () => {
      const way = await stage.ntlmOrigin();
      const one = { name, way, originPort: way.port, seconds };
      return prepareForwarding(stage, group, subjects, one);
    },
    'tunnel-1g-down': () => bulk('down'),
    'tunnel-1g-up': () => bulk('up'),
    'tunnel-short': () => {
      const order = { job: 'echo', bytes: SHORT_BYTES } as const;
      const one = { order, tunnels: quick ? 5_000 : 10_000, warmUps: 4 };
      return prepareTunnels(stage, group, subjects, one);
    },
  };
  const handshakes = (one: HandshakeName): Promise<Contestant[]> =>
    prepareHandshakes(stage, group, { name: one, subjects: all, seconds });
  const throughParent = async (scheme: 'ntlm' | 'negotiate'): Promise<Contestant[]> => {
    const way = await stage.parentWay(scheme);
    const one = { name, way, originPort: await stage.openOrigin(), seconds };
    return prepareForwarding(stage, group, subjects, one);
  };
  const bulk = (way: 'down' | 'up'): Promise<Contestant[]> => {
    const one = { order: { job: way, bytes: GIBIBYTE }, tunnels: 1, warmUps: 1 };
    return prepareTunnels(stage, group, subjects, one);
  };
  return job[name]();
}
