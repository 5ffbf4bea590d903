/** Callers with tokens, and policy that reads fields: sidekerb beside itself, configured otherwise. */

import type { Child } from '../child.ts';
import { CASES, requestFields, wrkScript } from '../cases.ts';
import {
  type GatewaySettings,
  jwtClient,
  readingClients,
  startGateway,
  tokenScript,
} from '../callers.ts';
import { type BenchIssuer, createBenchIssuer } from '../micro/jwt-decoder.ts';
import { freePorts, type ProcessGroup } from '../process-group.ts';
import type { ScenarioSubject } from '../scenario-names.ts';
import { findWrkFault, parseWrkOutput } from '../wrk.ts';
import type { Contestant, Work } from './contestant.ts';
import { acceptsOn } from './probe.ts';
import type { Stage } from './stage.ts';

const WRK_EXTRA_MS = 10_000;
const READY_MS = 15_000;
const WARM_UPS = 3;
/** An answer of the open origin, as `findWrkFault` takes it. */
const TINY = { bodyBytes: 13, answerBytes: 13 + 90 } as const;
const FIFTY = { bodyBytes: 13, answerBytes: 13 + 2500 } as const;

export interface Started {
  readonly port: number;
  readonly child: Child;
}

/** A gateway that accepts. */
export async function startVariant(
  group: ProcessGroup,
  name: string,
  settings: Omit<GatewaySettings, 'port' | 'adminPort'>,
): Promise<Started> {
  const [port = 0, adminPort = 0] = await freePorts(2);
  const child = await startGateway(group, name, { ...settings, port, adminPort });
  await child.until(() => acceptsOn(port), READY_MS);
  return { port, child };
}

/** What the load of a case with tokens is made of. */
export interface TokenLoad {
  readonly issuer: BenchIssuer;
  /** Of the key set. */
  readonly keys: string;
  /** Of wrk. */
  readonly script: string;
}

/** `clients` callers with `perClient` tokens each. */
export async function createTokenLoad(
  stage: Stage,
  { clients, perClient }: { readonly clients: number; readonly perClient: number },
): Promise<TokenLoad> {
  const issuer = createBenchIssuer();
  const tokens = Array.from({ length: clients * perClient }, (_, i) => issuer.token(`user-${i}`));
  const [tiny] = CASES;
  if (tiny === undefined) throw new Error('no case');
  const name = `tokens-${clients}x${perClient}`;
  const keys = await stage.write(`${name}.json`, issuer.jwks);
  const script = tokenScript(tokens, perClient, wrkScript(tiny));
  return { issuer, keys, script: await stage.write(`${name}.lua`, script) };
}

/** One client with one token, or ten with two in turn (document 001 of the sources). */
export async function prepareTokenCallers(
  stage: Stage,
  group: ProcessGroup,
  { clients, seconds }: { readonly clients: 1 | 10; readonly seconds: number },
): Promise<Contestant[]> {
  const load = await createTokenLoad(stage, { clients, perClient: clients === 1 ? 1 : 2 });
  const originPort = await stage.openOrigin();
  const contestants: Contestant[] = [];
  for (const [name, mode] of [
    ['sidekerb', 'lru'],
    ['cache-off', 'off'],
  ] as const) {
    const settings = { originPort, clients: jwtClient(load.keys, mode) };
    const { child, port } = await startVariant(group, name, settings);
    const run = (connections: number): Promise<Work> =>
      runWrk(stage, {
        script: load.script,
        path: '/',
        port,
        connections,
        threads: connections,
        seconds,
        sizes: TINY,
      });
    contestants.push({ name, pid: child.pid, warmUps: WARM_UPS, run });
  }
  return contestants;
}

/**
 * 50 fields each way (document 003 of the sources). One gateway asks of each field of a request whether it
 * names the caller, and judges the attributes of each cookie of the answer. Two read none: one knows the
 * same fields and drops them as well, so that the judging alone is between them; one knows none and passes
 * all on, so that finding and dropping the fields counts too.
 */
export async function prepareFieldReading(
  stage: Stage,
  group: ProcessGroup,
  subjects: readonly ScenarioSubject[],
  seconds: number,
): Promise<Contestant[]> {
  const fifty = CASES.find(({ name }) => name === 'headers');
  if (fifty === undefined) throw new Error('no case with fields');
  const originPort = await stage.openOrigin();
  const script = await stage.write('fields-read.lua', wrkScript(fifty));
  const names = Object.keys(requestFields(fifty));
  const known = { originPort, identityHeaders: names };
  const settings = {
    sidekerb: { ...known, clients: readingClients(names), route: ', rewriteCookies: true' },
    'fields-unread': { ...known, clients: 'none' },
    'fields-passed-on': { originPort, clients: 'none' },
  } as const;
  const contestants: Contestant[] = [];
  for (const name of ['sidekerb', 'fields-unread', 'fields-passed-on'] as const) {
    if (!subjects.includes(name)) continue;
    const { child, port } = await startVariant(group, name, settings[name]);
    const run = (connections: number): Promise<Work> =>
      runWrk(stage, {
        script,
        path: '/set-cookies',
        port,
        connections,
        threads: 1,
        seconds,
        sizes: FIFTY,
      });
    contestants.push({ name, pid: child.pid, warmUps: WARM_UPS, run });
  }
  return contestants;
}

export interface WrkOrder {
  readonly script: string;
  readonly path: string;
  readonly port: number;
  readonly connections: number;
  readonly threads: number;
  readonly seconds: number;
  readonly sizes: { readonly bodyBytes: number; readonly answerBytes: number };
}

export async function runWrk(stage: Stage, order: WrkOrder): Promise<Work> {
  const { script, path, port, connections, threads, seconds, sizes } = order;
  const size = ['-t', String(threads), '-c', String(connections), '-d', `${seconds}s`];
  const args = [...size, '--timeout', '5s', '-s', script, `http://127.0.0.1:${port}${path}`];
  const result = parseWrkOutput(await stage.runLoad('wrk', args, seconds * 1000 + WRK_EXTRA_MS));
  return {
    requests: result.requests,
    seconds: result.microseconds / 1e6,
    p50Ms: result.p50 / 1000,
    p99Ms: result.p99 / 1000,
    fault: findWrkFault(result, sizes),
  };
}
