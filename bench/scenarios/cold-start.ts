/**
 * A gateway from its first answer on (document 001 of the sources): ten callers with two tokens each put
 * their load on a process that has just begun to accept. What it has passed on is counted by the origin
 * and asked for there: a look at its own metrics would take time from the seconds that are measured.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { jwtClient } from '../callers.ts';
import { measureUsage } from '../measure.ts';
import type { ProcessGroup } from '../process-group.ts';
import { median } from '../statistics.ts';
import type { Contestant, Work } from './contestant.ts';
import { createTokenLoad, runWrk, startVariant, type TokenLoad } from './callers.ts';
import { createHttp2Tokens, http2Settings, runHttp2 } from './http2.ts';
import { makeCertificate } from './key-material.ts';
import type { Stage } from './stage.ts';

const CLIENTS = 10;
/** How often the first seconds are looked at; later ones once each. */
const STEP_MS = 100;
const FINE_SECONDS = 2;
/** How often the first answer is looked for, and how long at most. */
const FIRST_STEP_MS = 5;
const FIRST_MS = 10_000;
/** The load lasts longer than the samples, which begin when it has its first answer. */
const LOAD_EXTRA_SECONDS = 1;
/** Of load on the origin alone, so that the first start does not wait for its warm-up. */
const ORIGIN_SECONDS = 2;
const TINY = { bodyBytes: 13, answerBytes: 13 + 90 } as const;
/** Of the steady rate: what counts as full speed. */
const FULL = 0.95;

/** What one start was like. */
export interface ColdStart {
  readonly subject: string;
  /** Requests in each tenth of the first two seconds. */
  readonly tenths: readonly number[];
  /** Requests in each second. */
  readonly seconds: readonly number[];
  /** Median of the second half, a second. */
  readonly steady: number;
  /** Milliseconds until the rate of a tenth was first 95 % of the steady one; undefined: not in the tenths. */
  readonly fullAfterMs: number | undefined;
}

export interface Sample {
  /** Milliseconds since the first answer was seen. */
  readonly at: number;
  readonly requests: number;
}

export interface ColdStartFacts {
  readonly seconds: number;
  /** Gets what each start was like. */
  readonly told: (start: ColdStart) => void;
  /** Over HTTP/2 and TLS. */
  readonly http2?: boolean;
}

/** A process for each measurement. `told` gets what each start was like. */
export async function prepareColdStarts(
  stage: Stage,
  group: ProcessGroup,
  { seconds, told, http2 = false }: ColdStartFacts,
): Promise<Contestant[]> {
  const load = await createTokenLoad(stage, { clients: CLIENTS, perClient: 2 });
  const secure = http2 ? await prepareSecure(stage, group, load) : undefined;
  const originPort = await stage.openOrigin();
  const order = { script: load.script, path: '/', connections: CLIENTS, threads: CLIENTS };
  await runWrk(stage, { ...order, port: originPort, seconds: ORIGIN_SECONDS, sizes: TINY });
  let starts = 0;
  // The last one asks nobody who he is: what it takes to get up to speed is Node's own warm-up.
  const variants = [
    ['sidekerb', jwtClient(load.keys, 'lru')],
    ['cache-off', jwtClient(load.keys, 'off')],
    ['no-callers', 'none'],
  ] as const;
  const compared = http2 ? variants.filter(([name]) => name !== 'no-callers') : variants;
  return compared.map(([name, clients]): Contestant => {
    const run = async (): Promise<Work> => {
      starts += 1;
      const settings = { originPort, clients, ...secure?.settings };
      const { port, child } = await startVariant(group, `${name}-${starts}`, settings);
      const sampling = sample(originPort, seconds);
      const wrk = { ...order, port, seconds: seconds + LOAD_EXTRA_SECONDS, sizes: TINY };
      const [usage, samples] = await Promise.all([
        measureUsage(child.pid, stage.cores, () => {
          if (secure === undefined) return runWrk(stage, wrk);
          const http2Load = { port, clients: CLIENTS, streams: 1, tokens: secure.tokens };
          return runHttp2(stage, { ...http2Load, seconds: seconds + LOAD_EXTRA_SECONDS });
        }),
        sampling,
      ]);
      told(describeStart(name, samples));
      // Gone before the next one starts: it would share its core.
      await child.stop();
      // The run sees no process of this start: it begins and ends in here.
      const { result, cpuSeconds, foreignShare } = usage;
      return { ...result, cpuSeconds, foreignShare };
    };
    return { name, pid: 0, warmUps: 0, run };
  });
}

/** What the same is over HTTP/2. */
async function prepareSecure(
  stage: Stage,
  group: ProcessGroup,
  load: TokenLoad,
): Promise<{ readonly settings: { readonly tls: string }; readonly tokens: string }> {
  const keys = await makeCertificate(await group.makeFolder('http2-keys'), 'ec');
  const tokens = await createHttp2Tokens(stage, load, CLIENTS);
  return { settings: http2Settings(keys), tokens };
}

/** From the first answer on. Throws when there is none. */
async function sample(originPort: number, seconds: number): Promise<Sample[]> {
  const before = await passedOn(originPort);
  const overdue = performance.now() + FIRST_MS;
  let requests = before;
  while (requests === before) {
    if (performance.now() > overdue) throw new Error('nothing was answered');
    await delay(FIRST_STEP_MS);
    requests = await passedOn(originPort);
  }
  const start = performance.now();
  const samples: Sample[] = [{ at: 0, requests }];
  for (let at = STEP_MS; at <= seconds * 1000; at += at < FINE_SECONDS * 1000 ? STEP_MS : 1000) {
    await delay(Math.max(0, start + at - performance.now()));
    requests = await passedOn(originPort);
    samples.push({ at: performance.now() - start, requests });
  }
  return samples;
}

async function passedOn(originPort: number): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${originPort}/answered`);
  return Number(await answer.text());
}

/** Rates between samples; the last ones are the steady state. */
export function describeStart(subject: string, samples: readonly Sample[]): ColdStart {
  const steps = samples.slice(1).map((one, at) => {
    const before = samples[at] ?? one;
    return { ...one, rate: ((one.requests - before.requests) * 1000) / (one.at - before.at) };
  });
  const fine = steps.filter(({ at }) => at <= FINE_SECONDS * 1000 + STEP_MS);
  const coarse = steps.slice(fine.length);
  const steady = median(coarse.slice(Math.floor(coarse.length / 2)).map(({ rate }) => rate));
  const perSecond = Array.from({ length: FINE_SECONDS }, (_, second) => {
    const part = fine.slice(second * 10, (second + 1) * 10);
    return part.reduce((sum, { rate }) => sum + rate, 0) / Math.max(1, part.length);
  });
  return {
    subject,
    tenths: fine.map(({ rate }) => rate / 10),
    seconds: [...perSecond, ...coarse.map(({ rate }) => rate)],
    steady,
    fullAfterMs: fine.find(({ rate }) => rate >= FULL * steady)?.at,
  };
}

/** Each start, and the middle one of each subject; empty for none. */
export function formatStarts(starts: readonly ColdStart[]): string {
  if (starts.length === 0) return '';
  const lines = starts.map(({ subject, seconds, steady, fullAfterMs, tenths }) => {
    const by = (values: readonly number[]): string =>
      values.map((value) => String(Math.round(value))).join(' ');
    return `${subject}: ${Math.round(steady)} requests/s in the steady state; 95 % of it ${formatAfter(fullAfterMs)}
  by the second: ${by(seconds)}
  first second in tenths: ${by(tenths.slice(0, 10))}\n`;
  });
  const middles = [...Map.groupBy(starts, ({ subject }) => subject)].map(([subject, own]) => {
    const after = median(own.map(({ fullAfterMs = Infinity }) => fullAfterMs));
    return `  ${subject}: ${formatAfter(after)}\n`;
  });
  return `\nFrom a cold start, 10 clients with 2 tokens each (source document: 22,100 without, 28,700 requests/s with a cache, full speed from the first second):\n${lines.join('')}95 % of the steady state, median of the starts:\n${middles.join('')}`;
}

const formatAfter = (ms: number | undefined): string =>
  ms === undefined || ms === Infinity ? 'not in 2 s' : `after ${Math.round(ms)} ms`;
