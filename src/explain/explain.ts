/**
 * `explain`: makes one request as the daemon would, and reports each leg of it.
 *
 * Everything on the way is the daemon's own: its generation of the configuration, its dispatchers, its
 * pool, opener and logins. It opens no listener, and what it learns ends with it; logins are real, and a
 * wrong password counts at the directory as any does.
 */
import { createGeneration, putInForce } from '../app/generation.ts';
import { Runtime } from '../app/runtime.ts';
import type { Config } from '../config/config.ts';
import { ProxyError } from '../errors.ts';
import { noAccessLog } from '../log/access-log.ts';
import { noLog } from '../log/log.ts';
import { systemClock } from '../clock.ts';
import type { Lookup } from '../upstream/resolve.ts';
import { diagnose, refusedWithoutScheme, statusBehind } from './diagnosis.ts';
import { LegRecorder } from './recorder.ts';
import type { Report, Step } from './report.ts';
import { Request } from './request.ts';
import { type Found, wayOfListener, wayOfUrl } from './way.ts';

export interface Question {
  readonly url: URL;
  /** As a request of this listener; undefined: by the upstream whose origin it is. */
  readonly as: string | undefined;
  /** Instead of the upstream's own. */
  readonly principal: string | undefined;
}

export interface ExplainDeps {
  readonly version: string;
  /** How names of forward targets are looked up; default: as the system does. */
  readonly lookup?: Lookup;
}

/** Throws `QuestionError` for what the configuration does not have. */
export async function explain(
  config: Config,
  question: Question,
  deps: ExplainDeps,
): Promise<Report> {
  const recorder = new LegRecorder(systemClock);
  const runtime = new Runtime(config, {
    ...deps,
    log: noLog,
    access: noAccessLog,
    engine: 'public',
    legs: recorder,
  });
  // The deadlines of the runtime keep no process alive.
  const alive = setInterval(() => undefined, ALIVE_MS);
  try {
    const generation = createGeneration(config, runtime);
    putInForce(generation, runtime);
    const listening = config.listeners.flatMap(({ listen }) => listen);
    runtime.own.replace(listening.filter((address) => address.kind === 'tcp'));
    runtime.deadlines.start();
    const { url, as, principal } = question;
    const found =
      as === undefined
        ? wayOfUrl(generation, runtime, { url, principal })
        : wayOfListener(generation, runtime, { url, name: as });
    return await answer(found, url, { runtime, recorder });
  } finally {
    clearInterval(alive);
    await runtime.close();
  }
}

const ALIVE_MS = 60_000;
const REDIRECT = 308;

async function answer(
  { notes, way }: Found,
  url: URL,
  { runtime, recorder }: { readonly runtime: Runtime; readonly recorder: LegRecorder },
): Promise<Report> {
  const { steps } = recorder;
  const common = { url: url.href, notes, steps };
  const failed = (error: ProxyError, status: number | null): Report => {
    return { ...common, status, error: diagnose(error, steps), ok: false };
  };
  if (way instanceof ProxyError) return failed(way, null);
  if ('redirect' in way) {
    const note = `the listener answers by itself: ${REDIRECT} to ${way.redirect}`;
    return { ...common, notes: [...notes, note], status: REDIRECT, error: null, ok: true };
  }
  try {
    const status = await new Request(runtime, recorder).send(way);
    const refused = refusedWithoutScheme(status, steps);
    if (refused !== undefined) return failed(refused, status);
    const words = [...notes, ...wordsOn(status, steps)];
    return { ...common, notes: words, status, error: null, ok: status < 400 };
  } catch (error) {
    if (error instanceof ProxyError) return failed(error, statusBehind(error, steps));
    throw error;
  }
}

/** What a 401 means that is the origin's own word. */
function wordsOn(status: number, steps: readonly Step[]): string[] {
  if (status !== 401) return [];
  const login = steps.findLast((step) => step.kind === 'login' && step.hop === 'origin');
  const last = steps.findLast((step) => step.kind === 'request');
  const offers = last?.kind === 'request' ? last.offers : [];
  if (login !== undefined && offers.length > 0)
    return ['the origin asks again on a connection that was logged in'];
  return login !== undefined
    ? [
        'the 401 has no challenge for the login that was made: the word of the origin about this user',
      ]
    : ['the origin asks for a login, and none is configured for it on this way'];
}
