/** The command line of the benchmarks. What names stand for is `cases.ts`' and `subjects/`' matter. */

import { parseArgs } from 'node:util';
import { CASES, type BenchCase } from './cases.ts';
import { OWN_SUBJECT, QUICK_SUBJECTS, SUBJECT_NAMES, type SubjectName } from './subject-names.ts';

export const USAGE = `usage: npm run bench -- [--quick] [--json FILE] [--only NAME]...
  NAME is a case (${CASES.map((one) => one.name).join(', ')})
  or a subject (${SUBJECT_NAMES.join(', ')}); ${OWN_SUBJECT} always takes part.
`;

/** What one run measures. */
export interface BenchPlan {
  readonly quick: boolean;
  /** Where the results go as JSON; undefined: nowhere. */
  readonly jsonFile: string | undefined;
  readonly subjects: readonly SubjectName[];
  readonly cases: readonly BenchCase[];
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
  const subjects = SUBJECT_NAMES.filter((name) => values.only.includes(name));
  const cases = CASES.filter((one) => values.only.includes(one.name));
  const known = new Set<string>([...subjects, ...cases.map((one) => one.name)]);
  const unknown = values.only.find((name) => !known.has(name));
  if (unknown !== undefined) throw new Error(`no case or subject is named ${unknown}`);
  return {
    quick,
    jsonFile: values.json,
    subjects: subjects.length === 0 ? (quick ? QUICK_SUBJECTS : SUBJECT_NAMES) : withOwn(subjects),
    cases: (cases.length === 0 ? CASES.filter((one) => !quick || one.quick) : cases).map((one) =>
      quick ? { ...one, connections: quickConnections(one) } : one,
    ),
    rounds: 3,
    seconds: quick ? 2 : 3,
    warmUpSeconds: quick ? 12 : 180,
  };
}

function withOwn(subjects: readonly SubjectName[]): readonly SubjectName[] {
  return [OWN_SUBJECT, ...subjects.filter((name) => name !== OWN_SUBJECT)];
}

function quickConnections(one: BenchCase): readonly number[] {
  return one.connections.includes(64) ? [64] : one.connections.slice(0, 1);
}
