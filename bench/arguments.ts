/** The command line of the benchmarks. What names stand for is `cases.ts`' and `subjects/`' matter. */

import { parseArgs } from 'node:util';
import { CASES, type BenchCase } from './cases.ts';
import { MICRO_NAMES, type MicroName } from './micro/names.ts';
import {
  FORWARD_NAMES,
  type ForwardName,
  isForwardName,
  SCENARIO_NAMES,
  SCENARIO_PLANS,
  type ScenarioPlan,
  type ScenarioSubject,
} from './scenario-names.ts';
import { OWN_SUBJECT, QUICK_SUBJECTS, SUBJECT_NAMES, type SubjectName } from './subject-names.ts';

export const USAGE = `usage: npm run bench -- [--quick] [--json FILE] [--only NAME]...
  NAME is a case (${[...CASES.map((one) => one.name), ...SCENARIO_NAMES, ...MICRO_NAMES].join(', ')})
  or a subject (${[...new Set([...SUBJECT_NAMES, ...FORWARD_NAMES])].join(', ')}); ${OWN_SUBJECT} always takes part.
`;

/** What one run measures. */
export interface BenchPlan {
  readonly quick: boolean;
  /** Where the results go as JSON; undefined: nowhere. */
  readonly jsonFile: string | undefined;
  readonly subjects: readonly SubjectName[];
  readonly cases: readonly BenchCase[];
  /** Cases of the forward proxy and of tokens. */
  readonly scenarios: readonly ScenarioPlan[];
  /** Costs of single calls. */
  readonly micro: readonly MicroName[];
  readonly rounds: number;
  /** Length of one point; wrk takes whole seconds. */
  readonly seconds: number;
  /** After this no warm-up is repeated. */
  readonly warmUpSeconds: number;
}

/** Throws an Error with a line for the user when an option or a name is not known. */
export function parseArguments(args: readonly string[]): BenchPlan {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      only: { type: 'string', multiple: true, default: [] },
    },
  });
  const { quick } = values;
  const { only } = values;
  const subjects = SUBJECT_NAMES.filter((name) => only.includes(name));
  const peers = FORWARD_NAMES.filter((name) => only.includes(name));
  const cases = CASES.filter((one) => only.includes(one.name));
  const scenarios = SCENARIO_PLANS.filter((one) => only.includes(one.name));
  const micro = MICRO_NAMES.filter((name) => only.includes(name));
  const known = new Set<string>([
    ...subjects,
    ...peers,
    ...micro,
    ...[...cases, ...scenarios].map((one) => one.name),
  ]);
  const unknown = only.find((name) => !known.has(name));
  if (unknown !== undefined) throw new Error(`no case or subject is named ${unknown}`);
  const namesCases = cases.length + scenarios.length + micro.length > 0;
  const namesSubjects = subjects.length + peers.length > 0;
  return {
    quick,
    jsonFile: values.json,
    subjects: namesSubjects ? withOwn(subjects) : quick ? QUICK_SUBJECTS : SUBJECT_NAMES,
    cases: (namesCases ? cases : CASES.filter((one) => !quick || one.quick))
      .filter(() => !namesSubjects || subjects.length > 0)
      .map((one) => (quick ? { ...one, connections: quickConnections(one) } : one)),
    scenarios: (namesCases ? scenarios : SCENARIO_PLANS).flatMap((one) =>
      namesSubjects ? withPeers(one, peers) : one,
    ),
    micro: namesCases ? micro : namesSubjects ? [] : MICRO_NAMES,
    rounds: 3,
    seconds: quick ? 2 : 3,
    warmUpSeconds: quick ? 12 : 180,
  };
}

/** The case with the peers that were named; nothing when it has none of them. */
function withPeers(one: ScenarioPlan, peers: readonly ForwardName[]): ScenarioPlan[] {
  const isPeer = (name: ScenarioSubject): boolean => isForwardName(name) && peers.includes(name);
  const subjects = one.subjects.filter((name) => name === OWN_SUBJECT || isPeer(name));
  return subjects.some(isPeer) ? [{ ...one, subjects }] : [];
}

function withOwn(subjects: readonly SubjectName[]): readonly SubjectName[] {
  return [OWN_SUBJECT, ...subjects.filter((name) => name !== OWN_SUBJECT)];
}

function quickConnections(one: BenchCase): readonly number[] {
  return one.connections.includes(64) ? [64] : one.connections.slice(0, 1);
}
