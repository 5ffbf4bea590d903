/** What of a plan this machine can run. Under CI=true all of it must be there. */

import { type Component, missingFor } from '../test/lab/components.ts';
import type { BenchPlan } from './arguments.ts';
import { FORWARD_SUBJECTS } from './forward/all.ts';
import { installCypressNtlmAuth } from './forward/cypress-ntlm-auth.ts';
import { chooseCores } from './machine.ts';
import { isForwardName, type ScenarioPlan } from './scenario-names.ts';
import { labOf } from './scenarios/run.ts';
import { OWN_SUBJECT } from './subject-names.ts';
import { SUBJECTS } from './subjects/all.ts';
import { findMissing, formatMissing, type Requirement } from './tools.ts';

const WRK: Requirement = { by: 'load', program: 'wrk', debianPackage: 'wrk' };
const TASKSET: Requirement = { by: 'pinning', program: 'taskset', debianPackage: 'util-linux' };

/** Debian's packages of the lab's components. */
const LAB_PACKAGES: Readonly<Partial<Record<Component, string>>> = {
  kdc: 'krb5-kdc (with krb5-admin-server and krb5-user)',
  winbind: 'winbind (with samba, libnss-wrapper and libuid-wrapper)',
  apache: 'apache2 (with libapache2-mod-auth-gssapi and gss-ntlmssp)',
  squid: 'squid',
};

/**
 * The plan without what cannot run here; undefined when the run may not go on. `say` is told why, line by
 * line.
 */
export async function withoutMissing(
  plan: BenchPlan,
  path: string,
  say: (text: string) => void,
): Promise<BenchPlan | undefined> {
  const tools = chooseCores().proxy === undefined ? [WRK] : [WRK, TASKSET];
  const missingTools = findMissing(tools, path);
  for (const missing of missingTools) say(`${formatMissing(missing)}\n`);
  if (missingTools.length > 0) return undefined;
  const absent = new Set<string>();
  const leaveOut = (name: string, why: string): void => {
    absent.add(name);
    say(`${why}; it is left out\n`);
  };
  for (const missing of findMissing(peersOf(plan), path)) {
    leaveOut(missing.by, formatMissing(missing));
  }
  if (plan.scenarios.some(({ subjects }) => subjects.includes('cypress-ntlm-auth'))) {
    await installCypressNtlmAuth().catch((error: unknown) => {
      const [reason] = String(error).split('\n');
      leaveOut('cypress-ntlm-auth', `cypress-ntlm-auth: npm could not install it (${reason})`);
    });
  }
  const scenarios = plan.scenarios.flatMap((one): ScenarioPlan[] => {
    const subjects = one.subjects.filter((name) => !absent.has(name));
    const missing = missingInLab({ ...one, subjects });
    if (missing === undefined) return [{ ...one, subjects }];
    leaveOut(one.name, missing);
    return [];
  });
  if (absent.size > 0 && process.env['CI'] === 'true') {
    say('under CI=true everything must be there\n');
    return undefined;
  }
  return { ...plan, subjects: plan.subjects.filter((name) => !absent.has(name)), scenarios };
}

function peersOf(plan: BenchPlan): Requirement[] {
  const peers = plan.subjects.flatMap((name) => {
    const { requires } = SUBJECTS[name];
    return requires === undefined || plan.cases.length === 0 ? [] : [{ by: name, ...requires }];
  });
  const named = new Set(plan.scenarios.flatMap(({ subjects }) => subjects));
  const known = new Set<string>(peers.map(({ by }) => by));
  const forward = [...named].filter(isForwardName).flatMap((name) => {
    const { requires } = FORWARD_SUBJECTS[name];
    if (requires === undefined || name === OWN_SUBJECT || known.has(name)) return [];
    return [{ by: name, ...requires }];
  });
  const { requires: nginx } = SUBJECTS.nginx;
  const http2 = named.has('nginx-h2') && nginx !== undefined ? [{ by: 'nginx-h2', ...nginx }] : [];
  return [...peers, ...forward, ...http2];
}

function missingInLab(scenario: ScenarioPlan): string | undefined {
  for (const component of labOf(scenario)) {
    const [program] = missingFor(component);
    if (program === undefined) continue;
    const debianPackage = LAB_PACKAGES[component] ?? component;
    return formatMissing({ by: scenario.name, program, debianPackage });
  }
  return undefined;
}
